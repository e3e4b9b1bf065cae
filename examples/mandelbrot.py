"""The Mandelbrot set: how many steps z -> z*z + c takes to leave the circle of radius 2, for every c of a picture.

python examples/mandelbrot.py --size 2048 --steps 500
python -m oxinp examples/mandelbrot.py --size 8192 --steps 500
"""

import argparse
import time

import numpy as np
from picture import Axis, write_picture
from progress import progress


def plane(size, centre=-0.6 + 0.0j, width=3.0):
    """Return the real parts (1, size) and the imaginary parts (size, 1) of a square of the complex plane."""
    half = width / 2
    real = np.linspace(centre.real - half, centre.real + half, size)
    imaginary = np.linspace(centre.imag - half, centre.imag + half, size)
    return real[np.newaxis, :], imaginary[:, np.newaxis]


def escape_steps(real, imaginary, steps):
    """Return how many steps each point stays inside the circle, `steps` for those that never leave it.

    Returns
    -------
    numpy.ndarray
        Integers of the points' broadcast shape.
    """
    x = real + np.zeros_like(imaginary)
    y = imaginary + np.zeros_like(real)
    count = np.zeros(x.shape, dtype=np.int32)
    with np.errstate(over="ignore", invalid="ignore"):  # what has left runs away, to infinity and beyond
        for _ in progress(steps, "Mandelbrot"):
            x2, y2 = x * x, y * y
            count += x2 + y2 <= 4.0
            y = 2.0 * x * y + imaginary
            x = x2 - y2 + real
    return count


def run(size, steps):
    """Return the picture: (size, size) integers."""
    return escape_steps(*plane(size), steps)


def main():
    """Compute and draw the set, and print its area."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--size", type=int, default=512, help="points along each edge (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=200, help="steps to wait for an escape (default: %(default)s)")
    parser.add_argument("--picture", default="mandelbrot.png", help="PNG to write, '' for none (default: %(default)s)")
    options = parser.parse_args()
    if options.size < 1 or options.steps < 1:
        parser.error("at least one point and one step are needed")

    began = time.perf_counter()
    count = run(options.size, options.steps)
    inside = float((count == options.steps).sum()) / options.size**2
    seconds = time.perf_counter() - began
    print(f"area: {inside * 9.0:.6f} after {options.steps} steps (the set's: 1.50659)")
    print(f"mean steps: {float(count.sum()) / count.size:.4f}")
    print(f"{options.size} x {options.size} points in {seconds:.3f} s")
    real, imaginary = Axis("real part", -2.1, 0.9), Axis("imaginary part", -1.5, 1.5)
    title = f"The Mandelbrot set, {options.steps} steps"
    write_picture(options.picture, np.log(1.0 + count)[::-1], title, real, imaginary, "log(1 + steps inside)")


if __name__ == "__main__":
    main()
