"""Filters on a photograph: smoothing that keeps edges (bilateral), sharpening, and the edges themselves (Sobel).

The photograph is one that scikit-learn or matplotlib brings along (with Pillow to read it), or a file of your own.

    python examples/photograph.py --radius 3
    python -m oxinp examples/photograph.py --size 8192 --radius 5
"""

import argparse
import importlib
import importlib.util
import math
import time
from pathlib import Path

import numpy as np
from picture import GREY, Axis, write_picture
from progress import progress

LUMINANCE = (0.2126, 0.7152, 0.0722)  # of red, green and blue (ITU-R BT.709)

# The library, and the file in its folder.
PHOTOGRAPHS = (("sklearn", "datasets/images/china.jpg"), ("matplotlib", "mpl-data/sample_data/grace_hopper.jpg"))


def find_file(photograph):
    """Return the path of a photograph that a library brings along, None where it is not installed."""
    library, name = photograph
    found = importlib.util.find_spec(library)
    path = found and Path(found.origin).parent / name
    return path if path and path.exists() else None


def photograph(path=""):
    """Return a photograph as (height, width, 3) floats from 0 to 1: the file's, or one that a library brings along."""
    path = path or next(filter(None, map(find_file, PHOTOGRAPHS)), None)
    if path is None or importlib.util.find_spec("PIL") is None:
        raise SystemExit("no photograph: install Pillow, and scikit-learn or matplotlib, or give one with --image")
    pixels = importlib.import_module("PIL.Image").open(path).convert("RGB")
    return np.asarray(pixels, dtype=np.uint8).astype(np.float32) / 255


def enlarge(image, size):
    """Return an image of at least `size` points along its shorter edge: as it is, or repeated in both directions."""
    times = max(1, -(-size // min(image.shape[:2])))
    return np.tile(image, (times, times, 1))


def shifted(padded, radius, dy, dx):
    """Return what lies `dy` rows below and `dx` columns right of each point of an image that was padded by `radius`."""
    height, width = padded.shape[0] - 2 * radius, padded.shape[1] - 2 * radius
    return padded[radius + dy : radius + dy + height, radius + dx : radius + dx + width]


def bilateral(image, radius, tolerance=0.1):
    """Smooth an image but not across edges: means weighted by nearness in place and in colour (Tomasi 1998)."""
    padded = np.pad(image, ((radius, radius), (radius, radius), (0, 0)), mode="edge")
    total = np.zeros_like(image)
    weights = np.zeros((*image.shape[:2], 1), dtype=image.dtype)
    for place in progress((2 * radius + 1) ** 2, "bilateral filter"):
        dy, dx = place // (2 * radius + 1) - radius, place % (2 * radius + 1) - radius
        near = math.exp(-2 * (dy * dy + dx * dx) / radius**2)
        other = shifted(padded, radius, dy, dx)
        apart = ((other - image) ** 2).sum(axis=2, keepdims=True)
        weight = near * np.exp(apart * (-0.5 / tolerance**2))
        total += weight * other
        weights += weight
    return total / weights


def gaussian_blur(image, sigma):
    """Blur an image by a Gaussian, first along rows and then along columns."""
    radius = math.ceil(3 * sigma)
    kernel = [math.exp(-0.5 * (i / sigma) ** 2) for i in range(-radius, radius + 1)]
    for axis in range(2):
        padded = np.pad(image, [(radius, radius) if i == axis else (0, 0) for i in range(image.ndim)], mode="edge")
        image = np.zeros_like(image)
        length = image.shape[axis]
        for i, weight in enumerate(kernel):
            image += weight / sum(kernel) * padded[(slice(None),) * axis + (slice(i, i + length),)]
    return image


def sharpen(image, amount=0.7, sigma=1.5):
    """Add what a blur takes away."""
    return np.clip(image + amount * (image - gaussian_blur(image, sigma)), 0.0, 1.0)


def edges(image):
    """Return how steeply the luminance changes, (height, width), by Sobel's differences."""
    grey = np.pad(luminance(image), 1, mode="edge")
    right = shifted(grey, 1, -1, 1) + 2 * shifted(grey, 1, 0, 1) + shifted(grey, 1, 1, 1)
    left = shifted(grey, 1, -1, -1) + 2 * shifted(grey, 1, 0, -1) + shifted(grey, 1, 1, -1)
    below = shifted(grey, 1, 1, -1) + 2 * shifted(grey, 1, 1, 0) + shifted(grey, 1, 1, 1)
    above = shifted(grey, 1, -1, -1) + 2 * shifted(grey, 1, -1, 0) + shifted(grey, 1, -1, 1)
    return np.sqrt((right - left) ** 2 + (below - above) ** 2) / 4


def luminance(image):
    """Return how bright each point of an image is."""
    return sum(weight * image[..., channel] for channel, weight in enumerate(LUMINANCE))


def run(image, radius):
    """Return the smoothed image, the smoothed one sharpened, and the edges of that."""
    smooth = bilateral(image, radius)
    sharp = sharpen(smooth)
    return smooth, sharp, edges(sharp)


def main():
    """Filter the photograph, print what changed, and write it and its edges."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--size", type=int, default=0, help="repeat the photograph until its shorter edge is this long")
    parser.add_argument("--radius", type=int, default=3, help="of the bilateral filter (default: %(default)s)")
    parser.add_argument("--image", default="", help="a photograph of your own")
    parser.add_argument("--picture", default="photograph.png", help="PNG to write, '' for none (default: %(default)s)")
    options = parser.parse_args()
    if options.size < 0 or options.radius < 1:
        parser.error("a size below 0, or a radius below 1, means nothing")

    image = enlarge(photograph(options.image), options.size)
    began = time.perf_counter()
    smooth, sharp, steep = run(image, options.radius)
    changed, steepest = float(np.abs(smooth - image).max()), float(steep.max())
    seconds = time.perf_counter() - began
    height, width = steep.shape
    print(f"largest change by smoothing: {changed:.5f}, steepest edge: {steepest:.5f}")
    print(f"{width} x {height} points, radius {options.radius} in {seconds:.3f} s")
    across, down = Axis("column", 0, width), Axis("row", height, 0)
    write_picture(options.picture, sharp, "Smoothed and sharpened", across, down)
    edges_path = options.picture.replace(".png", "_edges.png")
    write_picture(edges_path, steep, "Edges", across, down, "change of luminance", GREY)


if __name__ == "__main__":
    main()
