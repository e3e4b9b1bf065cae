"""Heat flowing through a square plate with cold edges, by explicit finite differences.

Written for NumPy; the import is the one line that differs. The plate starts as a sum of sine modes, each of which
decays at a known rate, so the computed temperatures are compared with the exact ones at the end.

    python examples/heat_equation.py --size 1024 --steps 2000
"""

import argparse
import time

from picture import Axis, write_picture

import oxinp as np

# Waves along y, waves along x, amplitude.
MODES = ((1, 1, 1.0), (3, 2, 0.6), (5, 7, 0.4))


def temperature(coordinates, diffusion_time):
    """Return the exact temperatures on the grid, `diffusion_time` being diffusivity times time."""
    plate = np.zeros((coordinates.size, coordinates.size))
    for ny, nx, amplitude in MODES:
        waves = np.sin(ny * np.pi * coordinates)[:, np.newaxis] * np.sin(nx * np.pi * coordinates)
        plate += amplitude * np.exp(-(np.pi**2) * (ny**2 + nx**2) * diffusion_time) * waves
    return plate


def step(old, new, rate):
    """Advance the inside of the plate by one time step; the edges stay as they are."""
    inside = old[1:-1, 1:-1]
    neighbours = old[:-2, 1:-1] + old[2:, 1:-1] + old[1:-1, :-2] + old[1:-1, 2:]
    new[1:-1, 1:-1] = inside + rate * (neighbours - 4 * inside)


def simulate(size, steps):
    """Return the plate after `steps` time steps, and the diffusion time they took."""
    coordinates = np.linspace(0.0, 1.0, size)
    spacing = 1.0 / (size - 1)
    rate = 0.2  # stable up to 0.25
    old = temperature(coordinates, 0.0)
    new = old.copy()
    for i in range(1, steps + 1):
        step(old, new, rate)
        old, new = new, old
        if i % max(1, steps // 5) == 0:
            print(f"step {i:>6}: mean {float(old.sum()) / old.size:+.6f}, hottest {float(old.max()):.6f}")
    return old, rate * spacing**2 * steps


def main():
    """Run the simulation and print how far from the exact solution it ends."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--size", type=int, default=256, help="points along each edge (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=1000, help="time steps (default: %(default)s)")
    parser.add_argument("--picture", default="heat_equation.png", help="PNG to write (default: %(default)s)")
    options = parser.parse_args()
    if options.size < 3 or options.steps < 1:
        parser.error("the plate needs at least 3 points along each edge, and one step")

    began = time.perf_counter()
    plate, diffusion_time = simulate(options.size, options.steps)
    exact = temperature(np.linspace(0.0, 1.0, options.size), diffusion_time)
    error = float(abs(plate - exact).max())
    seconds = time.perf_counter() - began
    print(f"{options.size} x {options.size} points, {options.steps} steps in {seconds:.2f} s")
    print(f"largest error against the exact solution: {error:.2e} (hottest point {float(exact.max()):.3f})")
    edge = "along the edge"
    title = f"Temperatures of a plate after {options.steps} steps"
    write_picture(options.picture, plate[::-1], title, Axis(edge, 0, 1), Axis(edge, 0, 1), "temperature")


if __name__ == "__main__":
    main()
