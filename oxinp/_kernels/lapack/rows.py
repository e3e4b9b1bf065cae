"""Rows of matrices that change places: exchanges of a panel, and a permutation of all.

Data layout: matrices row by row in memory with any pitch, one or many. A panel's exchanges are three lists of `width`
rows, see `lu_panel`. A permutation says for every row which one it was, u32.

Who owns what: of exchanges a block has 32 columns, a lane each, and its warps have rows; one more block per matrix
has the permutation. Of permutations some threads have a line.

Algorithm: what moves is read, then, behind a barrier, written. Exchanges move up to 2 * width elements per column. In
some columns right of the panel the first warp then solves with the panel's unit lower triangle, by substitution: the
panel's rows of U. Of two panels it does so twice; between, all warps take off what the second one's rows lose.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.gemm.multistage.warp_mma import multiply_add
from oxinp._kernels.lapack.panel_kernel import NOWHERE, WIDTHS
from oxinp._kernels.plan import Argument, Launch, Work
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.synchronize import follow
from oxinp._ptx.types import Type, i64, u32

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oxinp._kernels.plan import Grid
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

BLOCK, WARP = 256, 32
NUM_WARPS = BLOCK // WARP
UNROLL = 4  # elements of a thread at a time
FEWEST_KEPT = 4  # panels from which a block has all their lists in shared memory before it moves anything


class ExchangeSpec(NamedTuple):
    """One kernel that exchanges rows.

    Attributes
    ----------
    type : Type
    columns : int
        Of a panel, but for the last one.
    follows : bool
        It may begin before the kernel before it has ended (sm_90).
    num_panels : int
        Panels whose rows of U are computed together.
    num_lists : int
        Panels whose lists shared memory has room for; 0 where lists are read as rows change places.
    """

    type: Type
    columns: int
    follows: bool = False
    num_panels: int = 1
    num_lists: int = 0


@cache
@retraceable
def make_exchange(spec: ExchangeSpec) -> Kernel:
    """The kernel that does a panel's exchanges in the columns beside it, and solves for some; see `exchange`."""
    type, columns, length = spec.type, spec.columns, 3 * WIDTHS[spec.type.nbytes]
    k = Builder("exchange_rows", block=BLOCK, target="sm_90" if spec.follows else "sm_80")
    a, permutation = k.pointer("a", type), k.pointer("permutation", u32)
    lists = k.pointer("lists", u32, "r")
    names = ("strips", "num_columns", "skipped", "width_skipped", "first", "num_panels", "order", "num_solved")
    strips, num_columns, skipped, width_skipped, first, num_panels, order, num_solved = (
        k.scalar(name, u32) for name in names
    )
    pitch, move = k.scalar("pitch", i64), k.scalar("move", i64)
    matrix = k.ctaid / (strips + 1)
    strip = k.ctaid - matrix * (strips + 1)
    lists = lists.at(matrix * length)
    side = columns * spec.num_panels
    triangle = k.shared(type, side * side)  # the panels', column by column
    above = k.shared(type, columns * WARP) if spec.num_panels > 1 else None  # rows of U, of the first panel
    if spec.follows:
        follow(k)
    if spec.num_lists:
        kept = k.shared(u32, spec.num_lists * length)
        with k.range(k.tid, num_panels * length, BLOCK) as place:
            kept[place] = lists[place]
        k.barrier()
        lists = kept
    with k.when(strip < strips):
        number = strip * WARP + k.lane
        column = k.where(number < skipped, number, number + width_skipped)
        own = a.at(k.cast(matrix, i64) * move)
        base = own.at(k.cast(column, i64))
        is_solved = (number >= skipped) & (number < skipped + num_solved)
        is_solving = (num_solved != 0) & (strip * WARP + WARP > skipped) & (strip * WARP < skipped + num_solved)
        with k.when(is_solving):
            for start in range(0, side * side, BLOCK):
                entry = k.tid + start if start else k.tid
                row, place = entry / side, entry % side
                triangle[place * side + row] = own[k.cast(first + row, i64) * pitch + k.cast(skipped + place, i64)]
        with k.range(0, num_panels) as panel:
            _exchange(
                k, length // 3, base, pitch, first + panel * columns, lists.at(panel * length), number < num_columns
            )
            k.barrier()
        upper = base.at(k.cast(first, i64) * pitch)
        if above is None:
            with k.when(is_solving & (k.warp == 0) & is_solved):
                _substitute(k, columns, triangle, columns, upper, pitch)
        else:
            with k.when(is_solving), k.range(k.const(0, u32), spec.num_panels) as panel:
                with k.when(panel > 0):
                    _reduce(k, columns, triangle, above, upper, pitch, is_solved)
                    k.barrier()
                with k.when((k.warp == 0) & is_solved):
                    diagonal = triangle.at(panel * (columns * (side + 1)))
                    own = upper.at(k.cast(panel * columns, i64) * pitch)
                    _substitute(k, columns, diagonal, side, own, pitch, above)
                k.barrier()
    with k.otherwise():
        own = permutation.at(k.cast(matrix, i64) * k.cast(order, i64))
        with k.range(0, num_panels) as panel:
            _permute(k, length // 3, own, first + panel * columns, lists.at(panel * length))
            k.barrier()
    return k.build()


def _exchange(
    k: Builder, width: int, column: Pointer, pitch: Value, first: Value, lists: Pointer, is_there: Value
) -> None:
    """Exchange the elements of a thread's column, if it is there, as a panel's lists, each of `width`, say."""
    nowhere = k.const(NOWHERE, u32)
    moved = []
    for i in range(0, 2 * width, NUM_WARPS):
        entry = k.warp + i
        source = lists[entry] if i < width else lists[entry + width]
        target = entry if i < width else lists[entry]
        is_moved = is_there & (target != nowhere) & (source != target)
        value = k.var(k.const(0, column.type))
        with k.when(is_moved):
            value.set(column[k.cast(first + source, i64) * pitch])
        moved.append((is_moved, target, value))
    k.barrier()
    for is_moved, target, value in moved:
        with k.when(is_moved):
            column[k.cast(first + target, i64) * pitch] = value.get()


def _permute(k: Builder, width: int, permutation: Pointer, first: Value, lists: Pointer) -> None:
    """Exchange entries of a matrix's permutation, a thread each, as a panel's lists say."""
    entry = k.tid
    is_top = entry < width
    inside = entry < 2 * width
    place = k.where(inside, entry, k.const(0, u32))
    source = lists[k.where(is_top, place, place + k.where(inside, k.const(width, u32), 0))]
    target = k.where(is_top, entry, lists[place])
    is_moved = inside & (target != k.const(NOWHERE, u32)) & (source != target)
    held = k.var(0, u32)
    with k.when(is_moved):
        held.set(permutation[k.cast(first + source, i64)])
    k.barrier()
    with k.when(is_moved):
        permutation[k.cast(first + target, i64)] = held.get()


def _reduce(
    k: Builder, width: int, triangle: Pointer, above: Pointer, column: Pointer, pitch: Value, is_there: Value
) -> None:
    """Take the product of a panel's rows below its triangle and its rows of U off the next panel's, some per warp."""
    per_warp = width // NUM_WARPS
    rows = [k.warp * per_warp + (width + i) for i in range(per_warp)]
    with k.when(is_there):
        places = [column.at(k.cast(row, i64) * pitch) for row in rows]
        values = [k.var(place[0]) for place in places]
        with k.range(k.const(0, u32), width) as before:
            factor = -above[before * WARP + k.lane]
            for row, value in zip(rows, values, strict=True):
                value.set(multiply_add(k, triangle[before * (2 * width) + row], factor, value.get()))
        for place, value in zip(places, values, strict=True):
            place[0] = value.get()


def _substitute(
    k: Builder,
    width: int,
    triangle: Pointer,
    side: int,
    column: Pointer,
    pitch: Value,
    kept: Pointer | None = None,
) -> None:
    """Solve for a thread's column, of which the first rows are in memory, with a unit lower triangle.

    The triangle's columns are `side` elements apart. What is found is kept in shared memory too, if there is a place.
    """
    type_ = column.type
    vector = max(1, 16 // type_.nbytes)
    values = [k.var(column[k.const(i, i64) * pitch]) for i in range(width)]
    for i, value in enumerate(values[:-1]):
        factor = -value.get()
        for start in range((i + 1) // vector * vector, width, vector):
            for m, element in enumerate(triangle.load(i * side + start, vector), start):
                if m > i:
                    values[m].set(multiply_add(k, element, factor, values[m].get()))
    for i, value in enumerate(values):
        if i:
            column[k.const(i, i64) * pitch] = value.get()
        if kept is not None:
            kept[k.lane + i * WARP] = value.get()


@cache
@retraceable
def make_start() -> Kernel:
    """The kernel that writes permutations that leave every row where it is."""
    k = Builder("identity_permutation", block=BLOCK, target="sm_80")
    permutation = k.pointer("permutation", u32, "w")
    total, order = k.scalar("total", u32), k.scalar("order", u32)
    with k.grid_stride(total) as number:
        permutation[number] = number % order
    return k.build()


class PermuteSpec(NamedTuple):
    """One kernel that permutes.

    Attributes
    ----------
    type : Type
    is_identity : bool
        What is permuted is the identity, and not read.
    is_inverse : bool
        Columns are put where the permutation says, instead of rows taken from there.
    """

    type: Type
    is_identity: bool = False
    is_inverse: bool = False


def each_element(k: Builder) -> Iterator[tuple[Value, Value]]:
    """Yield lines and columns of a thread's elements, unrolled; takes the parameters that `spread` gives.

    Blocks that follow each other have parts of one line: what is stored at random in it comes together in the L2 cache.
    """
    names = ("tasks", "segments", "lines", "columns", "shift")
    tasks, segments, lines, columns, shift = (k.scalar(name, u32) for name in names)
    lanes = k.const(1, u32) << shift
    with k.range(k.ctaid + 0, tasks, k.nctaid + 0) as task:
        group = task / segments
        line = group * (k.const(BLOCK, u32) >> shift) + (k.tid >> shift)
        first = (task - group * segments) * (lanes * UNROLL) + (k.tid & (lanes - 1))
        for i in range(UNROLL):
            column = first + lanes * i if i else first
            with k.when((line < lines) & (column < columns)):
                yield line, column


def spread(lines: int, columns: int) -> tuple[Grid, tuple[int, ...]]:
    """Return the grid and the constants of kernels for `each_element`."""
    shift = min(columns - 1, BLOCK - 1).bit_length()
    segments = -(-columns // (UNROLL << shift))
    tasks = -(-lines // (BLOCK >> shift)) * segments
    return (min(tasks, 1 << 16), 1, 1), (tasks, segments, lines, columns, shift)


@cache
@retraceable
def make_permute(spec: PermuteSpec) -> Kernel:
    """The kernel of a Spec; see `permute`."""
    type_ = spec.type
    k = Builder("permute_rows", block=BLOCK, target="sm_80")
    x, permutation = k.pointer("x", type_, "w"), k.pointer("permutation", u32, "r")
    b = None if spec.is_identity else k.pointer("b", type_, "r")
    order, width = k.scalar("order", u32), k.scalar("width", i64)
    b_pitch, b_step, b_move = (k.scalar(name, i64) for name in ("b_pitch", "b_step", "b_move"))
    for line, column in each_element(k):
        matrix = line / order
        row, own = line - matrix * order, x.at(k.cast(line, i64) * width)
        there = None if b is None else b.at(k.cast(matrix, i64) * b_move).at(k.cast(column, i64) * b_step)
        if spec.is_inverse:
            assert there is not None
            own[permutation[matrix * order + column]] = there[k.cast(row, i64) * b_pitch]
        else:
            source = permutation[line]
            if there is None:
                own[column] = k.where(source == column, k.const(1, type_), k.const(0, type_))
            else:
                own[column] = there[k.cast(source, i64) * b_pitch]
    return k.build()


class Exchange(NamedTuple):
    """Exchanges in the columns beside a panel, or beside several that follow each other.

    Attributes
    ----------
    type : Type
    columns : (int, int)
        The first column and the one behind the last.
    panel : (int, int)
        First column and number of columns of the panels, in which the rows have changed places already.
    each : int
        Columns of each panel, but for the last one.
    order : int
        Rows of the matrix.
    pitch, move, count : int
        See `lu_panel.Panel`.
    num_solved : int
        Columns right of panels of full width, one or two, of which their rows of U are computed.
    follows : bool
        See `ExchangeSpec`.
    permutes : bool
        The permutation has its entries exchanged, too. Without, there is one matrix.
    """

    type: Type
    columns: tuple[int, int]
    panel: tuple[int, int]
    each: int
    order: int
    pitch: int
    move: int = 0
    count: int = 1  # type: ignore[assignment]  # instead of the method of tuples
    num_solved: int = 0
    follows: bool = False
    permutes: bool = True


def exchange(given: Exchange, a: Argument, permutation: Argument, lists: Argument) -> Launch:
    """Return the launch that exchanges rows: `a` is the matrix's first element."""
    (start, end), (first, width) = given.columns, given.panel
    others = end - start - width
    strips = -(-others // WARP)
    num_panels = -(-width // given.each)
    constants = (
        strips,
        others,
        first - start,
        width,
        first,
        num_panels,
        given.order,
        given.num_solved,
        given.pitch,
        given.move,
    )
    work = Work(0, 4 * width * others * given.type.nbytes * given.count)
    grid = ((strips + 1) * given.count if given.permutes else strips, 1, 1)
    places = (a.at(start * given.type.nbytes), permutation, lists)
    is_kept = num_panels >= FEWEST_KEPT and not given.num_solved and given.count == 1
    num_lists = 1 << (num_panels - 1).bit_length() if is_kept else 0
    spec = ExchangeSpec(given.type, given.each, given.follows, num_panels if given.num_solved else 1, num_lists)
    return Launch(make_exchange(spec), grid, places, constants, work)


def start(permutation: Argument, order: int, count: int) -> Launch:
    """Return the launch that writes permutations of rows that all stay."""
    total = order * count
    return Launch(make_start(), (_num_blocks(total), 1, 1), (permutation,), (total, order))


def permute(
    type: Type,
    shape: tuple[int, int, int],
    x: Argument,
    permutation: Argument,
    b: Argument | None,
    b_strides: tuple[int, int, int] = (0, 0, 0),
    *,
    is_inverse: bool = False,
) -> Launch:
    """Return the launch that writes X, in C order: B with rows, or columns, permuted.

    Parameters
    ----------
    type : Type
    shape : (int, int, int)
        How many matrices, rows, columns.
    x, permutation : Argument
    b : Argument or None
        None for the identity.
    b_strides : (int, int, int)
        Elements from one matrix, row and column of B to the next.
    is_inverse : bool
        Column j of B becomes the one that the permutation says of j; rows stay.
    """
    count, rows, columns = shape
    grid, constants = spread(count * rows, columns)
    kernel = make_permute(PermuteSpec(type, b is None, is_inverse))
    arguments = (x, permutation) if b is None else (x, permutation, b)
    move, pitch, step = b_strides
    work = Work(nbytes=(1 if b is None else 2) * count * rows * columns * type.nbytes)
    return Launch(kernel, grid, arguments, (rows, columns, pitch, step, move, *constants), work)


def _num_blocks(total: int) -> int:
    return min(-(-total // BLOCK), 1 << 16)


__all__ = [
    "Exchange",
    "ExchangeSpec",
    "PermuteSpec",
    "each_element",
    "exchange",
    "make_exchange",
    "make_permute",
    "make_start",
    "permute",
    "spread",
    "start",
]
