"""A Kalman filter: small matrices, one measurement after the other."""

import numpy as np

SIZES = {"tiny": (5,), "small": (300,), "medium": (3000,), "large": (30_000,)}


def make(rng, steps):
    return (np.cumsum(rng.standard_normal(steps)) + rng.standard_normal(steps),)


def run(measured):
    F = np.array([[1.0, 0.1], [0.0, 1.0]])
    H = np.array([[1.0, 0.0]])
    Q, R = 0.01 * np.eye(2), np.array([[1.0]])
    x, P = np.zeros(2), np.eye(2)
    found = np.empty((len(measured), 2))
    for i, z in enumerate(measured):
        x = F @ x
        P = F @ P @ F.T + Q
        K = P @ H.T @ np.linalg.inv(H @ P @ H.T + R)
        x = x + (K @ (z - H @ x)).ravel()
        P = (np.eye(2) - K @ H) @ P
        found[i] = x
    return found
