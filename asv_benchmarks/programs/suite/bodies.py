"""Bodies under gravity: all pairs, softened, with energies at each step."""

import numpy as np

SIZES = {"tiny": (2, 6), "small": (25, 60), "medium": (50, 300), "large": (50, 2000)}
TOLERANCE = 1e-7


def make(rng, steps, n):
    return steps, rng.random((n, 1)) / n + 1 / n, rng.standard_normal((n, 3)), rng.standard_normal((n, 3))


def pulls(position, mass):
    dx, dy, dz = (position[:, i : i + 1].T - position[:, i : i + 1] for i in range(3))
    r3 = dx**2 + dy**2 + dz**2 + 0.01
    r3[r3 > 0] = r3[r3 > 0] ** (-1.5)
    return np.hstack(((dx * r3) @ mass, (dy * r3) @ mass, (dz * r3) @ mass))


def energies(position, velocity, mass):
    dx, dy, dz = (position[:, i : i + 1].T - position[:, i : i + 1] for i in range(3))
    inverse = np.sqrt(dx**2 + dy**2 + dz**2)
    inverse[inverse > 0] = 1.0 / inverse[inverse > 0]
    return 0.5 * np.sum(mass * velocity**2), np.sum(np.triu(-(mass * mass.T) * inverse, 1))


def run(steps, mass, position, velocity):
    kinetic, potential = np.empty(steps), np.empty(steps)
    velocity -= np.mean(mass * velocity, 0) / np.mean(mass)
    acceleration = pulls(position, mass)
    for i in range(steps):
        velocity += acceleration * 0.005
        position += velocity * 0.01
        acceleration = pulls(position, mass)
        velocity += acceleration * 0.005
        kinetic[i], potential[i] = energies(position, velocity, mass)
    return kinetic, potential, position
