"""Stars that attract each other: direct summation over all pairs, leapfrog steps, from a Plummer sphere.

python examples/nbody.py --size 1000 --steps 100
python -m oxinp examples/nbody.py --size 65536 --steps 10
"""

import argparse
import math
import time

import numpy as np
from picture import Axis, write_picture
from progress import progress

SOFTENING = 0.02
PAIRS_AT_ONCE = 1 << 20  # what they take fits into a cache


def plummer_sphere(size, seed=1):
    """Return masses (size,), positions (3, size) and velocities (3, size) of a cluster in equilibrium.

    In units where the gravitational constant and the mass of the cluster are 1 and its energy is -1/4 (Aarseth, Henon
    and Wielen 1974).
    """
    random = np.random.default_rng(seed)
    scale = 3 * math.pi / 16
    radius = scale / np.sqrt(random.uniform(0.0, 0.99, size) ** (-2 / 3) - 1)  # the mass within each radius is uniform
    # Speeds by rejection from q**2 (1 - q**2)**3.5, the isotropic distribution at any radius.
    candidates = random.uniform(0.0, 1.0, (2, 12 * size))
    kept = candidates[0][0.1 * candidates[1] < candidates[0] ** 2 * (1 - candidates[0] ** 2) ** 3.5][:size]
    speed = kept * math.sqrt(2) * (radius**2 / scale**2 + 1) ** -0.25 / math.sqrt(scale)
    positions = radius * directions(random, size)
    velocities = speed * directions(random, size)
    positions -= positions.sum(axis=1, keepdims=True) / size
    velocities -= velocities.sum(axis=1, keepdims=True) / size
    return np.full(size, 1 / size), positions, velocities


def directions(random, size):
    """Return unit vectors (3, size) that point everywhere alike."""
    vectors = random.standard_normal((3, size))
    return vectors / np.sqrt((vectors * vectors).sum(axis=0))


def pairs(positions):
    """Yield slices of the stars and, for all pairs with them, the distances along x, y and z and their square."""
    size = positions.shape[1]
    rows = max(1, PAIRS_AT_ONCE // size)
    for start in range(0, size, rows):
        some = slice(start, min(start + rows, size))
        apart = [axis - axis[some, np.newaxis] for axis in positions]
        yield some, apart, apart[0] ** 2 + apart[1] ** 2 + apart[2] ** 2 + SOFTENING**2


def accelerations(masses, positions):
    """Return the acceleration (3, size) of every star by all others."""
    result = np.empty_like(positions)
    for some, apart, square in pairs(positions):
        pull = masses / (square * np.sqrt(square))
        for axis in range(3):
            result[axis, some] = (pull * apart[axis]).sum(axis=1)
    return result


def energy(masses, positions, velocities):
    """Return the kinetic plus the potential energy."""
    kinetic = 0.5 * float((masses * (velocities * velocities).sum(axis=0)).sum())
    potential = 0.0
    for some, _, square in pairs(positions):
        potential -= 0.5 * float((masses[some, np.newaxis] * masses / np.sqrt(square)).sum())
    return kinetic + potential + 0.5 * float((masses * masses).sum()) / SOFTENING


def simulate(masses, positions, velocities, steps, step=1e-3):
    """Advance positions and velocities, in place, by `steps` time steps of kick, drift, kick."""
    pull = accelerations(masses, positions)
    for _ in progress(steps, "n-body"):
        velocities += 0.5 * step * pull
        positions += step * velocities
        pull = accelerations(masses, positions)
        velocities += 0.5 * step * pull
    return positions, velocities


def run(size, steps, seed=1):
    """Return the positions and the velocities of a cluster after `steps` time steps."""
    masses, positions, velocities = plummer_sphere(size, seed)
    return simulate(masses, positions, velocities, steps)


def density(positions, size=256, width=4.0):
    """Return how many stars each point of a picture shows, seen along z."""
    x, y = (np.asarray(axis) for axis in positions[:2])
    return np.histogram2d(y, x, size, [[-width / 2, width / 2]] * 2)[0]


def main():
    """Simulate a cluster, print how well its energy is kept, and draw it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--size", type=int, default=1000, help="number of stars (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=50, help="time steps (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers (default: %(default)s)")
    parser.add_argument("--picture", default="nbody.png", help="PNG to write, '' for none (default: %(default)s)")
    options = parser.parse_args()
    if options.size < 2 or options.steps < 1:
        parser.error("at least two stars and one step are needed")

    masses, positions, velocities = plummer_sphere(options.size, options.seed)
    before = energy(masses, positions, velocities)
    began = time.perf_counter()
    positions, velocities = simulate(masses, positions, velocities, options.steps)
    radius = float(np.sqrt((positions * positions).sum(axis=0)).sum()) / options.size
    seconds = time.perf_counter() - began
    after = energy(masses, positions, velocities)
    print(f"energy: {before:.9f} before, {after:.9f} after, changed by {abs(after / before - 1):.1e}")
    print(f"mean radius: {radius:.9f}")
    print(f"{options.size} stars, {options.steps} steps in {seconds:.3f} s")
    if options.picture:
        stars = np.log(1.0 + density(positions))[::-1]
        title = f"{options.size} stars after {options.steps} steps, seen along z"
        write_picture(options.picture, stars, title, Axis("x", -2, 2), Axis("y", -2, 2), "log(1 + stars)")


if __name__ == "__main__":
    main()
