"""Products of vectors like ones that have run: launched by a few integers, with no plan made of them.

A loop over the parts of a matrix multiplies vectors and matrices of ever other extents that lie alike. What these have
in common is kept by how they lie, see `_kernels.reduce.nearby`, with what launches it. There is one device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oxinp._config import config
from oxinp._core.lazy.executor import loaded, run_joined
from oxinp._core.lazy.placement import device
from oxinp._core.memory.layout import ACCESS_NBYTES, accessed
from oxinp._kernels.choice import MIN_TUNED_NBYTES, may_be_unrolled, unrolled
from oxinp._kernels.nest import MAX_INDEX_32, magic
from oxinp._kernels.plan import NUM_FLAGS
from oxinp._kernels.problem import MIN_COLUMNS

if TYPE_CHECKING:
    from oxinp._core.memory.layout import Layout
    from oxinp._runtime.memory import Buffer

MAX_KEPT = 1024
WRITTEN, ASKED, LOOKS = "written", "asked", 16
"""By which is kept, with the launches of a kind of product, that its results go into parts of arrays, and how often it
was asked for at once; see `columns_read`."""
_ONE_BLOCK = 1, 1, 1
_NO_KERNEL = None, None, None, None

_Near = tuple[Any, ...]
"""The version of the settings, the backend, what launches such products, by how their elements are gone through, and
what they have in common; None for all of that where it is nothing."""
_columns: dict[Any, _Near] = {}
_rows: dict[Any, _Near] = {}
_lines: dict[Any, _Near] = {}
_UNKNOWN: _Near = (-1,)


def run_columns(left: Layout, right: Layout, leaves: tuple[Any, ...], nbytes: int, ptr: int | None = None) -> Any:
    """Multiply a vector and a matrix whose rows are contiguous as others before; None where there were none like it.

    Parameters
    ----------
    left, right : Layout
        Of the vector and the matrix.
    leaves : tuple
        Where they lie.
    nbytes : int
        Of the result.
    ptr : int, optional
        Address of the result, whose elements lie next to each other, if it is not to be a new Buffer, which is
        returned; else True is.
    """
    near = _columns.get(_key(left, right, right.strides, right.shape[1]), _UNKNOWN)
    if near[0] != config.version or near[1] is None:
        return None
    if ptr is not None:
        near[2][WRITTEN] = True
    return run_columns_by(near, right.shape, leaves, nbytes, ptr)


def columns_read(left: Layout, right: Layout) -> tuple[_Near, tuple[int, ...]] | None:
    """Return what products of a vector and a matrix have in common which are read by who asks for them next.

    None of others, and where there are no kernels for the rows: they are to be contiguous, or the columns where the
    matrix comes first. Those that are written where they are wanted, or into a part of an array with more done to them,
    wait for that. One in so many waits anyway, for it may have become so.

    Returns
    -------
    near : tuple
    shape : (int, int)
        Of the matrix whose rows are contiguous.
    """
    vector, matrix, strides = left, right, right.strides
    if left.ndim == 2:
        vector, matrix, strides = right, left, left.strides[::-1]
    dtype = matrix.dtype
    if vector.ndim != 1 or matrix.ndim != 2 or vector.dtype is not dtype or strides[1] != dtype.itemsize:
        return None
    shape = matrix.shape if matrix is right else matrix.shape[::-1]
    length, width = shape
    if vector.size != length or length < 2:
        return None
    near = _columns.get(_key(vector, matrix, strides, width), _UNKNOWN)
    if near[0] != config.version or near[1] is None or WRITTEN in near[2]:
        return None
    known = near[2]
    known[ASKED] = asked = known.get(ASKED, 0) + 1
    return (near, shape) if asked % LOOKS else None


def note_columns_written(left: Layout, right: Layout) -> None:
    """Note that a product goes into a part of an array: the like is not to be launched before it does."""
    near = _columns.get(_key(left, right, right.strides, right.shape[1]), _UNKNOWN)
    if near[0] == config.version and near[1] is not None:
        near[2][WRITTEN] = True


def run_columns_by(
    near: _Near, shape: tuple[int, ...], leaves: tuple[Any, ...], nbytes: int, ptr: int | None = None
) -> Any:
    """Do what `run_columns` does by what products of that kind have in common, of a matrix of a shape."""
    found = columns_launch(near, shape)
    if found is None:
        return None
    launch, backend, grid, scratch_nbytes, constants = found
    vector, matrix = leaves
    first, second = vector.ptr, matrix.ptr  # which may run what they wait for
    buffer: Buffer | None = backend.allocate(nbytes) if ptr is None else None
    out = ptr if buffer is None else buffer.ptr
    if not scratch_nbytes:
        launch(grid, out, first, second, *constants)
        return buffer or True
    scratch = backend.allocate(scratch_nbytes)  # held while the launch is queued
    launch(grid, out, scratch.ptr, backend.flags, first, second, *constants)
    return buffer or True


def columns_launch(near: _Near, shape: tuple[int, ...]) -> tuple[Any, Any, Any, int, tuple[int, ...]] | None:
    """Return how a product is launched by what those of its kind have in common; None where it is to be planned.

    Returns
    -------
    launch : callable
    backend : Backend
    grid : tuple of int
    scratch_nbytes : int
        Of the workspace that the kernel is given, with the backend's flags, after the result; 0 where it is not.
    constants : tuple of int
        What it is given after the operands.
    """
    length, width = shape
    if width < MIN_COLUMNS:
        return None
    _, backend, _, alike, acc_nbytes, step, most, serial, per_tile, num_blocks, most_serial, kinds = near
    one, kind, chunked = kinds
    num_tiles, num_chunks = -(-width // per_tile), 1
    if length <= most_serial:
        kind, num_tiles = one, -(-width // serial)
    elif length > most and (wanted := num_blocks // num_tiles) > 1:  # as `Passes._chunk` has it
        chunk = max(2, -(-length // (wanted * step))) * step
        if chunk < length:
            kind, num_chunks = chunked, -(-length // chunk)
    launch = _launch_of(near, kind, shape, (width, length))
    if launch is None or (num_chunks > 1 and num_tiles > NUM_FLAGS):
        return None
    constants = *alike.values, 1, 0, width, length, num_tiles, *magic(num_tiles)
    if num_chunks == 1:
        return launch, backend, (num_tiles, 1, 1), 0, constants
    chunks = chunk, width, num_chunks, *magic(num_chunks)
    return launch, backend, (num_tiles * num_chunks, 1, 1), num_chunks * width * acc_nbytes, (*constants, *chunks)


def keep_columns(left: Layout, right: Layout, planner: Any) -> None:
    """Keep what others have in common with such a product that has just run."""
    width = right.shape[1]
    if width < MIN_COLUMNS:
        return
    itemsize = left.dtype.itemsize
    steps = (left.strides[0] // itemsize, 0), (right.strides[0] // itemsize, 1)
    alignments = accessed(left), accessed(right)
    num_sms = device().capability.num_sms
    _keep(_columns, _key(left, right, right.strides, width), planner.near_columns(width, steps, alignments, num_sms))


def run_rows(left: Layout, right: Layout, leaves: tuple[Any, ...], nbytes: int, ptr: int | None = None) -> Any:
    """Multiply a matrix whose rows are contiguous and a vector as others before; see `run_columns`."""
    num_rows, length = left.shape
    near = _rows.get(_key(left, right, right.strides), _UNKNOWN)
    if near[0] != config.version or near[1] is None:
        return None
    _, backend, _, alike, planner = near
    walk, capability = alike.walk, backend.capability
    num_units = length // walk.vector
    group, count, at_once, chunk = planner.group_rows(num_rows, num_units, walk.unroll, capability.num_sms)
    num_chunks = -(-num_units // chunk) if chunk < num_units else 1
    kind = group, count, at_once, num_chunks > 1
    launch = _launch_of(near, kind, left.shape, None if at_once else left.shape)
    if launch is None:
        return None
    values = *alike.values, 1, 0, num_rows, num_units, length - num_units * walk.vector
    num_blocks = -(-num_rows // (max(1, at_once) * max(group, planner.block) // group))  # as `RowsSpec.block` has it
    if num_chunks > 1:
        if num_rows < MIN_COLUMNS:  # lanes go along the chunks then
            return None
        values = *values, chunk, num_chunks, *magic(num_chunks)
        first = near[2][kind][1], (num_blocks * num_chunks, 1, 1), values
        joined = planner.in_two((first, num_chunks), num_rows, 1, capability)
        return None if joined is None else run_joined(joined, nbytes, leaves, ptr)
    matrix, vector = leaves
    operands = matrix.ptr, vector.ptr  # which may run what they wait for
    buffer: Buffer | None = backend.allocate(nbytes) if ptr is None else None
    launch((num_blocks, 1, 1), ptr if buffer is None else buffer.ptr, *operands, *values)
    return buffer or True


def keep_rows(left: Layout, right: Layout, planner: Any) -> None:
    """Keep what others have in common with such a product that has just run."""
    itemsize = left.dtype.itemsize
    steps = (left.strides[0] // itemsize, 1), (0, right.strides[0] // itemsize)
    alike = planner.near_rows(steps, (accessed(left), accessed(right)))
    _keep(_rows, _key(left, right, right.strides), None if alike is None else (alike, planner))


def run_line(left: Layout, right: Layout, leaves: tuple[Any, ...], nbytes: int, ptr: int | None = None) -> Any:
    """Multiply two vectors as others before; see `run_columns`."""
    (size,) = left.shape
    near = _lines.get((left.strides, right.strides, left.alignment, right.alignment, left.dtype, size.bit_length()))
    if near is None or near[0] != config.version or near[1] is None:
        return None
    _, backend, _, launch, (least, most, _, values, _, unit) = near
    if not least <= size <= most:
        return None
    u, v = leaves
    first, second = u.ptr, v.ptr
    num_units = size // unit
    buffer: Buffer | None = backend.allocate(nbytes) if ptr is None else None
    out = ptr if buffer is None else buffer.ptr
    launch(_ONE_BLOCK, out, first, second, *values, 1, 0, 1, num_units, size - num_units * unit)
    return buffer or True


def keep_line(left: Layout, right: Layout, planner: Any) -> None:
    """Keep what others have in common with such a product that has just run."""
    (size,) = left.shape
    itemsize = left.dtype.itemsize
    steps = left.strides[0] // itemsize, right.strides[0] // itemsize
    near = planner.near_line(size, steps, (accessed(left), accessed(right)), device().capability.num_sms)
    launch = None if near is None else loaded(near.kernel)[0]
    key = left.strides, right.strides, left.alignment, right.alignment, left.dtype, size.bit_length()
    _near_of(_lines, key, None if launch is None else (launch, near))


def _key(left: Layout, right: Layout, strides: tuple[int, ...], width: int = 0) -> tuple[Any, ...]:
    """Return what products have in common that go through their elements alike, the second operand's by strides.

    Of columns that is how many there are beyond a multiple of the widest access, too, see `vector_width`.
    """
    one, other, dtype = left.alignment, right.alignment, left.dtype
    if one > ACCESS_NBYTES and left.offset:  # `accessed`, spelled out
        one = ACCESS_NBYTES
    if other > ACCESS_NBYTES and right.offset:
        other = ACCESS_NBYTES
    return left.strides, strides, one, other, dtype, width & 15 // dtype.itemsize


def _launch_of(near: _Near, kind: Any, shape: tuple[int, ...], asked: tuple[int, ...] | None) -> Any:
    """Return what launches the kernel of a kind for a matrix of a shape; None where one is to be planned.

    That is where indices need more than 32 bits, it has not been made, or another one has been measured to be faster,
    for what is asked of such a kind: kept and reduced extents.
    """
    _, backend, launches, alike, *_ = near
    m, n = shape
    _, _, down, across, _, (elements, rows, columns, others), _ = alike
    if down * m + across * n >= MAX_INDEX_32 or m * n >= MAX_INDEX_32:
        return None
    launch, _, spec, choice = launches.get(kind, _NO_KERNEL)
    if (
        choice is not None
        and asked is not None
        and m * (elements * n + rows) + columns * n + others >= MIN_TUNED_NBYTES
        and unrolled(spec, choice, asked, backend.capability) is not spec
    ):
        return None
    return launch


def _keep(table: dict[Any, _Near], key: Any, found: tuple[Any, ...] | None) -> None:
    """Keep what products by a key have in common, and what launches those that have been planned."""
    near = _near_of(table, key, found)
    if found is None or near[1] is None:
        return
    launches, walk = near[2], found[0].walk
    for kind, (spec, kernel, choice) in walk.kernels.items():
        launch = None if kind in launches else loaded(kernel)[0]
        if launch is not None:
            is_asked = may_be_unrolled(choice, near[1].capability)
            launches[kind] = launch, kernel, spec, choice if is_asked else None


def _near_of(table: dict[Any, _Near], key: Any, found: tuple[Any, ...] | None) -> _Near:
    """Return what a table has by a key under the present settings, which may be what has been found just now."""
    version, backend = config.version, device()
    near = table.get(key, _UNKNOWN)
    if near[0] != version:
        if len(table) >= MAX_KEPT:
            table.clear()
        near = table[key] = (version, None) if found is None else (version, backend, {}, *found)
    return near


__all__ = [
    "columns_launch",
    "columns_read",
    "keep_columns",
    "keep_line",
    "keep_rows",
    "note_columns_written",
    "run_columns",
    "run_columns_by",
    "run_line",
    "run_rows",
]
