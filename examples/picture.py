"""Pictures: arrays as PNG files, by nothing but zlib."""

import struct
import zlib
from pathlib import Path

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


def write_picture(path, values, palette=INFERNO, lowest=None, highest=None):
    """Write an array as a PNG: two dimensions by a palette, or (height, width, 3) as red, green and blue from 0 to 1.

    Parameters
    ----------
    path : str
        The file; nothing is written if it is empty.
    values : array_like
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
    Path(path).write_bytes(png(levels, palette))
    print(f"wrote {path}")


def png(levels, palette=GREY):
    """Return the PNG file of bytes: (height, width) looked up in a palette, or (height, width, 3) colours."""
    height, width = levels.shape[:2]
    data = levels.tobytes()
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
