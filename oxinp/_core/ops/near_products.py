"""Products of vectors like ones that have run: launched by a few integers, with no plan made of them.

A loop over the parts of a matrix multiplies vectors and matrices of ever other extents that lie alike. What these have
in common is kept by how they lie and by how many bits their extents have, see `_kernels.reduce.nearby`, with what
launches it. There is one device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oxinp._config import config
from oxinp._core.lazy.executor import loaded
from oxinp._core.lazy.placement import device
from oxinp._core.memory.layout import accessed
from oxinp._kernels.nest import magic

if TYPE_CHECKING:
    from oxinp._core.memory.layout import Layout
    from oxinp._runtime.memory import Buffer

MAX_KEPT = 1024
_ONE_BLOCK = 1, 1, 1
_REST = 3  # columns beyond a multiple of the widest access, of which there is a power of two

_Near = tuple[Any, ...]
"""What nearby products have in common, None where that is nothing, the version of the settings, what launches them, and
the backend."""
_columns: dict[Any, _Near] = {}
_rows: dict[Any, _Near] = {}
_lines: dict[Any, _Near] = {}


def run_columns(left: Layout, right: Layout, leaves: tuple[Any, ...], nbytes: int) -> Buffer | None:
    """Multiply a vector and a matrix whose rows are contiguous as others before; None where there were none like it.

    Parameters
    ----------
    left, right : Layout
        Of the vector and the matrix.
    leaves : tuple
        Where they lie.
    nbytes : int
        Of the result.
    """
    length, width = right.shape
    bits = length.bit_length(), width.bit_length(), width & _REST
    near = _columns.get((left.strides, right.strides, left.alignment, right.alignment, left.dtype, bits))
    if near is None or near[0] is None:
        return None
    (fewest, largest, most, whole, _, per_tile, chunk, acc_nbytes, values), version, launch, backend = near
    if not fewest <= length <= largest or width > most or width == whole or version != config.version:
        return None
    vector, matrix = leaves
    first, second = vector.ptr, matrix.ptr  # which may run what they wait for
    num_tiles = -(-width // per_tile)
    buffer: Buffer = backend.allocate(nbytes)
    if not chunk:
        launch((num_tiles, 1, 1), buffer.ptr, first, second, *values, width, length, num_tiles, *magic(num_tiles))
        return buffer
    num_chunks = -(-length // chunk)
    scratch = backend.allocate(num_chunks * width * acc_nbytes)  # held while the launch is queued
    shared = buffer.ptr, scratch.ptr, backend.flags
    extents = width, length, num_tiles, *magic(num_tiles)
    chunks = chunk, width, num_chunks, *magic(num_chunks)
    launch((num_tiles * num_chunks, 1, 1), *shared, first, second, *values, *extents, *chunks)
    return buffer


def keep_columns(left: Layout, right: Layout, planner: Any) -> None:
    """Keep what others have in common with such a product that has just run."""
    length, width = right.shape
    bits = length.bit_length(), width.bit_length(), width & _REST
    key = left.strides, right.strides, left.alignment, right.alignment, left.dtype, bits
    itemsize = left.dtype.itemsize
    steps = (left.strides[0] // itemsize, 0), (right.strides[0] // itemsize, 1)
    alignments = accessed(left), accessed(right)
    _keep(_columns, key, lambda: planner.near_columns(right.shape, steps, alignments, device().capability))


def run_rows(left: Layout, right: Layout, leaves: tuple[Any, ...], nbytes: int) -> Buffer | None:
    """Multiply a matrix whose rows are contiguous and a vector as others before; parameters are as of `run_columns`."""
    num_rows, length = left.shape
    bits = num_rows.bit_length(), length.bit_length()
    near = _rows.get((left.strides, right.strides, left.alignment, right.alignment, left.dtype, bits))
    if near is None or near[0] is None:
        return None
    (fewest, largest, least, most, whole, _, per_block, unit, values), version, launch, backend = near
    if not (fewest <= num_rows <= largest and least <= length <= most) or length == whole or version != config.version:
        return None
    matrix, vector = leaves
    first, second = matrix.ptr, vector.ptr
    num_units = length // unit
    buffer: Buffer = backend.allocate(nbytes)
    extents = num_rows, num_units, length - num_units * unit
    launch((-(-num_rows // per_block), 1, 1), buffer.ptr, first, second, *values, *extents)
    return buffer


def keep_rows(left: Layout, right: Layout, planner: Any) -> None:
    """Keep what others have in common with such a product that has just run."""
    num_rows, length = left.shape
    bits = num_rows.bit_length(), length.bit_length()
    key = left.strides, right.strides, left.alignment, right.alignment, left.dtype, bits
    itemsize = left.dtype.itemsize
    steps = (left.strides[0] // itemsize, 1), (0, right.strides[0] // itemsize)
    alignments = accessed(left), accessed(right)
    _keep(_rows, key, lambda: planner.near_rows(left.shape, steps, alignments, device().capability))


def run_line(left: Layout, right: Layout, leaves: tuple[Any, ...], nbytes: int) -> Buffer | None:
    """Multiply two vectors as others before; parameters are as of `run_columns`."""
    (size,) = left.shape
    near = _lines.get((left.strides, right.strides, left.alignment, right.alignment, left.dtype, size.bit_length()))
    if near is None or near[0] is None:
        return None
    (least, most, _, values, _, unit), version, launch, backend = near
    if not least <= size <= most or version != config.version:
        return None
    u, v = leaves
    first, second = u.ptr, v.ptr
    num_units = size // unit
    buffer: Buffer = backend.allocate(nbytes)
    launch(_ONE_BLOCK, buffer.ptr, first, second, *values, 1, 0, 1, num_units, size - num_units * unit)
    return buffer


def keep_line(left: Layout, right: Layout, planner: Any) -> None:
    """Keep what others have in common with such a product that has just run."""
    (size,) = left.shape
    key = left.strides, right.strides, left.alignment, right.alignment, left.dtype, size.bit_length()
    itemsize = left.dtype.itemsize
    steps = left.strides[0] // itemsize, right.strides[0] // itemsize
    alignments = accessed(left), accessed(right)
    _keep(_lines, key, lambda: planner.near_line(size, steps, alignments, device().capability.num_sms))


def _keep(table: dict[Any, _Near], key: Any, find: Any) -> None:
    """Keep what products by a key have in common, unless something is kept under the present settings."""
    kept, version = table.get(key), config.version
    if kept is not None and kept[1] == version:
        return
    near = find()
    launch, backend = (None, None) if near is None else loaded(near.kernel)
    if len(table) >= MAX_KEPT:
        table.clear()
    table[key] = None if launch is None else near, version, launch, backend


__all__ = ["keep_columns", "keep_line", "keep_rows", "run_columns", "run_line", "run_rows"]
