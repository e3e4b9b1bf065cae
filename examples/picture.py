"""Pictures: arrays as PNG files, by matplotlib where it is installed, else by nothing but zlib."""

import importlib
import struct
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

# Red, green and blue at even distances from the lowest value to the highest.
INFERNO = (
    (0, 0, 4),
    (40, 11, 84),
    (101, 21, 110),
    (159, 42, 99),
    (212, 72, 66),
    (245, 125, 21),
    (250, 193, 39),
    (252, 255, 164),
)
GREY = ((0, 0, 0), (255, 255, 255))
LARGEST = 1600


class Axis(NamedTuple):
    """What an edge of a picture shows: from left to right, or from below to above."""

    label: str
    first: float
    last: float


def write_picture(path, values, title, x, y, label="", palette=INFERNO, lowest=None, highest=None):
    """Write an array as a PNG: two dimensions by a palette, or (height, width, 3) as red, green and blue from 0 to 1.

    With a title, axes and a scale of its values where matplotlib is installed; without it the points alone.

    Parameters
    ----------
    path : str
        The file; nothing is written if it is empty.
    values : array_like
        The first row is the uppermost.
    title : str
    x, y : Axis
    label : str
        What the values are.
    palette : tuple of (int, int, int)
    lowest, highest : float or None
        What the ends of the palette stand for; None for the values' own.
    """
    if not path:
        return
    every = max(1, -(-max(values.shape[:2]) // LARGEST))
    values = values[::every, ::every]
    if values.ndim == 3:
        lowest, highest = 0.0, 1.0
    lowest = float(values.min()) if lowest is None else lowest
    highest = float(values.max()) if highest is None else highest
    levels = (values - lowest) * (255 / ((highest - lowest) or 1.0)) + 0.5
    levels = np.where(levels > 255, 255, np.where(levels < 0, 0, levels)).astype(np.uint8)
    try:
        drawn = figure(levels, title, x, y, label, palette, lowest, highest)
    except ImportError:
        Path(path).write_bytes(png(levels, palette))
        print(f"wrote {path}, without axes: matplotlib draws them where it is installed")
        return
    drawn.savefig(path, format="png")
    print(f"wrote {path}")


def figure(levels, title, x, y, label, palette, lowest, highest):
    """Return a figure of matplotlib's that shows levels from 0 to 255, which stand for `lowest` to `highest`.

    Raises
    ------
    ImportError
        There is no matplotlib.
    """
    canvas = importlib.import_module("matplotlib.figure").Figure(figsize=(8, 6.5), layout="constrained")
    colours = importlib.import_module("matplotlib.colors")
    axes = canvas.add_subplot(title=title, xlabel=x.label, ylabel=y.label)
    points = np.frombuffer(bytes(levels.ravel().tolist()), np.uint8).reshape(levels.shape)
    shown = axes.imshow(points, extent=(x.first, x.last, y.first, y.last), aspect="auto", vmin=0, vmax=255)
    if levels.ndim == 2:
        shades = [tuple(part / 255 for part in colour) for colour in palette]
        shown.set_cmap(colours.LinearSegmentedColormap.from_list("palette", shades))
        scale = canvas.colorbar(shown, ax=axes, label=label)
        ticks = [0, 51, 102, 153, 204, 255]
        scale.set_ticks(ticks, labels=[f"{lowest + tick / 255 * (highest - lowest):.3g}" for tick in ticks])
    return canvas


def png(levels, palette=GREY):
    """Return the PNG file of bytes: (height, width) looked up in a palette, or (height, width, 3) colours."""
    height, width = levels.shape[:2]
    data = bytes(levels.ravel().tolist())
    stride = len(data) // height
    rows = b"".join(b"\0" + data[i : i + stride] for i in range(0, len(data), stride))
    colours = [] if levels.ndim == 3 else [_chunk(b"PLTE", _interpolated(palette))]
    kind = 2 if levels.ndim == 3 else 3
    header = _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0))
    return b"".join(
        [b"\x89PNG\r\n\x1a\n", header, *colours, _chunk(b"IDAT", zlib.compress(rows)), _chunk(b"IEND", b"")]
    )


def _chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def _interpolated(palette):
    """Return 256 colours between those of a palette."""
    colours = bytearray()
    for level in range(256):
        place = level / 255 * (len(palette) - 1)
        i = min(int(place), len(palette) - 2)
        colours += bytes(round(a + (b - a) * (place - i)) for a, b in zip(palette[i], palette[i + 1], strict=True))
    return bytes(colours)
