"""Flow around a cylinder by the lattice Boltzmann method, nine velocities."""

import numpy as np

SIZES = {"tiny": (2, 12, 8), "small": (20, 100, 50), "medium": (60, 300, 100), "large": (100, 1200, 400)}
STEPS_X = np.array([0, 0, 1, 1, 1, 0, -1, -1, -1])
STEPS_Y = np.array([0, 1, 1, 0, -1, -1, -1, 0, 1])
WEIGHTS = np.array([4 / 9, 1 / 9, 1 / 36, 1 / 9, 1 / 36, 1 / 9, 1 / 36, 1 / 9, 1 / 36])


def make(rng, steps, nx, ny):
    F = 1 + 0.01 * rng.random((ny, nx, 9))
    F[:, :, 3] += 2.0
    F *= 100 / F.sum(axis=2, keepdims=True)
    y, x = np.mgrid[:ny, :nx]
    return steps, F, (x - nx / 4) ** 2 + (y - ny / 2) ** 2 < (ny / 5) ** 2


def run(steps, F, solid):
    for _ in range(steps):
        for i in range(9):
            F[:, :, i] = np.roll(F[:, :, i], (STEPS_Y[i], STEPS_X[i]), axis=(0, 1))
        wall = F[solid, :][:, [0, 5, 6, 7, 8, 1, 2, 3, 4]]
        rho = np.sum(F, 2)
        ux = np.sum(F * STEPS_X, 2) / rho
        uy = np.sum(F * STEPS_Y, 2) / rho
        equilibrium = np.zeros_like(F)
        for i in range(9):
            along = STEPS_X[i] * ux + STEPS_Y[i] * uy
            equilibrium[:, :, i] = rho * WEIGHTS[i] * (1 + 3 * along + 4.5 * along**2 - 1.5 * (ux**2 + uy**2))
        F += -(1.0 / 0.6) * (F - equilibrium)
        F[solid, :] = wall
    return F
