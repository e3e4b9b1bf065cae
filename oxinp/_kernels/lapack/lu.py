"""LU with partial pivoting.

Matrices are factored block column by block column. A block column is factored by halves down to panels, whose rows
change places in all columns at once; then a triangular system gives the rows beside it, and a product, which has nearly
all of the work, what is left.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from itertools import pairwise, product
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.blas3 import plan as blas3
from oxinp._kernels.blas3.plan import TriangularSystem
from oxinp._kernels.choice import Choice, decide
from oxinp._kernels.gemm import select
from oxinp._kernels.gemm.operand import TRIANGULAR, Form, Matrices
from oxinp._kernels.lapack import cluster, lu_cluster, lu_panel, rows
from oxinp._kernels.lapack.diagonal import STATUS_NBYTES
from oxinp._kernels.lapack.lu_panel import Panel
from oxinp._kernels.lapack.panel_kernel import WIDTHS
from oxinp._kernels.plan import Argument, Fill, Plan, Scratch, beside
from oxinp._ptx.types import c64

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from oxinp._kernels.choice import Device
    from oxinp._kernels.lapack.lu_cluster import ClusterSpec
    from oxinp._kernels.plan import Launch, Step
    from oxinp._ptx.types import Type

    Fills = Callable[[int, int], Sequence[Step]]

OUTER_WIDTHS = (64, 128, 256, 512, 1024)  # of block columns
GROUPS = (32, 128, 256, 512)
LOOKS_AHEAD = True  # where that was measured to be faster, see `outer`
AHEAD = 2048  # rows above which it is; with fewer, panels take longer than all that may run beside them
FILLS_AHEAD = 8192  # rows from which what is right of the first block column is copied in while that is factored
NARROW_ROWS, NARROW_WIDTH = 6144, 256  # rows that are left from which on block columns are narrower, which look ahead
UNIT_LOWER = Form(TRIANGULAR, is_lower=True, has_unit_diagonal=True)


class Stack(NamedTuple):
    """Matrices that follow each other, row by row.

    Attributes
    ----------
    type : Type
    count, num_rows, num_columns : int
        At least 1 each.
    pitch, move : int
        Elements from one row, one matrix to the next.
    alignment : int
        Of the pointer.
    """

    type: Type
    count: int  # type: ignore[assignment]  # instead of the method of tuples
    num_rows: int
    num_columns: int
    pitch: int
    move: int
    alignment: int = 256

    @property
    def matrices(self) -> Matrices:
        """As an operand of products and systems."""
        batch = (self.move,) if self.count > 1 else ()
        return Matrices(self.type, (*batch, self.pitch, 1), self.alignment)

    @property
    def aligned(self) -> int:
        """Alignment that every row and matrix has, whatever its element."""
        steps = [step * self.type.nbytes for step in (self.pitch, self.move)]
        return math.gcd(self.alignment, *steps)

    def at(self, row: int, column: int) -> int:
        """Bytes from the first element to another one."""
        return (row * self.pitch + column) * self.type.nbytes

    def part(self, row: int, column: int) -> Matrices:
        """Matrices from an element on."""
        offset = self.at(row, column)
        alignment = math.gcd(self.alignment, offset) if offset else self.alignment
        batch = (self.move,) if self.count > 1 else ()
        return Matrices(self.type, (*batch, self.pitch, 1), alignment)


def contiguous(type: Type, count: int, num_rows: int, num_columns: int) -> Stack:
    """Return matrices in C order."""
    return Stack(type, count, num_rows, num_columns, num_columns, num_rows * num_columns)


class Outer(NamedTuple):
    """How block columns are factored.

    Attributes
    ----------
    width : int
        Of block columns, after each of which the rest of the matrix is brought up to date.
    group : int
        Columns among which every panel brings all to its right up to date; beyond, halves do.
    looks_ahead : bool
        The next block column is factored while the rest of the matrix is brought up to date.
    """

    width: int
    group: int = GROUPS[0]
    looks_ahead: bool = False


def outer(stack: Stack, device: Device) -> Outer:
    """Return what was measured to be best; else a width that leaves products enough to do with what they read."""
    ahead = (False,) if stack.count > 1 else (False, True)
    ways = product(OUTER_WIDTHS, GROUPS, ahead)
    legal = tuple(Outer(width, group, ahead) for width, group, ahead in ways if group <= width)
    width = 128 if stack.num_rows <= 1024 else 256 if stack.num_rows <= 4096 else 512
    has_cluster = stack.type is not c64 and lu_cluster.choose(stack.type, stack.num_rows, device) is not None
    looks_ahead = LOOKS_AHEAD and stack.num_rows > AHEAD and has_cluster
    default = Outer(128) if stack.count > 1 else Outer(width, width if stack.num_rows <= 4096 else 128, looks_ahead)
    choice = Choice(
        "lu/outer",
        (stack.type.name,),
        (),
        (stack.count, stack.num_rows, stack.num_columns),
        Outer,
        legal.__contains__,
        lambda: default,
        lambda: [default, *legal],
    )
    found: Outer = decide(choice, device)
    return found


def plan_factor(stack: Stack, device: Device, fill: Fills | None = None, *, keeps_lower: bool = True) -> Plan:
    """Return the launches that factor matrices in place: P A = L U, the unit diagonal of L not stored.

    Outputs are the matrices; the pivots, min(rows, columns) u32 per matrix: the row that changed places with each; the
    permutation, u32: the row of A that each row is; the status, see `diagonal`.

    Parameters
    ----------
    stack : Stack
    device : Device
    fill : callable, optional
        ``fill(low, high)`` returns the steps that write columns `low` to `high` of the matrices, the first output;
        without, these are there.
    keeps_lower : bool
        L is asked for. Without, its rows are no longer exchanged once the products with them are done, and what is left
        of L is of no use.
    """
    return _Factor(stack, device, fill, keeps_lower=keeps_lower).plan()


class _Factor:
    """A factorisation while it is planned."""

    def __init__(self, stack: Stack, device: Device, fill: Fills | None, *, keeps_lower: bool) -> None:
        self.stack, self.device = stack, device
        self.fill: Fills = fill or (lambda low, high: ())  # noqa: ARG005 - the signature of `Fills`
        self.keeps_lower = keeps_lower
        self.a, self.pivots, self.permutation, self.status = (Argument(f"out{i}") for i in range(4))
        self.width = WIDTHS[stack.type.nbytes]
        self.depth = min(stack.num_rows, stack.num_columns)
        self.scratch = Scratch()
        are_many = stack.count > 1
        self.height = lu_panel.block_height(stack.type, stack.num_rows, device, are_many=are_many)
        most = -(-stack.num_rows // self.height)
        self.block = outer(stack, device)
        self.lows = self.block_columns()
        self.columns = 0, 0  # in which a panel's exchanges are made at once
        num_lists = (
            max(stack.count, lu_cluster.MOST_PANELS)
            if not self.block.looks_ahead
            else 2 * -(-self.block.width // self.panel_width(0))
        )
        self.exchanges = self.scratch.take(3 * self.width * 4 * num_lists)
        self.board = lu_panel.board(self.scratch, stack.type, most, stack.count)
        # Blocks of a panel wait for each other: of many panels only so many at a time that all are resident.
        self.at_once = stack.count if most == 1 else max(1, device.num_sms // most)
        self.steps: list[Step] = []

    def plan(self) -> Plan:
        stack = self.stack
        self.steps += [
            Fill(self.status, STATUS_NBYTES, 0xFF),
            Fill(self.board.flags, self.board.flags_nbytes, 0),
            rows.start(self.permutation, stack.num_rows, stack.count),
        ]
        blocks = list(pairwise([*self.lows, self.depth]))
        if self.block.looks_ahead:
            self.look_ahead(blocks)
        else:
            self.steps += self.fill(0, stack.num_columns)
            for low, high in blocks:
                self.columns = self.kept_from(low), stack.num_columns
                self.factor(low, high)
                self.extend(low, high, (high, stack.num_columns))
        return self.scratch.plan(self.steps)

    def block_columns(self) -> list[int]:
        """Return where block columns begin: near the end narrower ones, beside which less is to be done."""
        lows = [0]
        while lows[-1] < self.depth:
            lows.append(lows[-1] + (NARROW_WIDTH if self.is_narrow(lows[-1]) else self.block.width))
        return lows[:-1]

    def is_narrow(self, low: int) -> bool:
        """Whether the block column that begins at a column is one of the narrower ones."""
        is_late = self.stack.num_rows - low <= NARROW_ROWS
        return is_late and self.block.looks_ahead and self.block.width > NARROW_WIDTH

    def group(self, low: int) -> int:
        """Return among how many columns a panel brings all to its right up to date."""
        return NARROW_WIDTH if self.is_narrow(self.lows[self.block_of(low)]) else max(self.block.group, self.width)

    def block_of(self, low: int) -> int:
        """Return the number of the block column that has a column."""
        return bisect_right(self.lows, low) - 1

    def look_ahead(self, blocks: list[tuple[int, int]]) -> None:
        """Factor every block column while what is right of it is brought up to date with the one before.

        Only then rows change places there, and in the block columns before, which the products read. The largest
        product begins with the first panel of the next block column, so that a cluster has its multiprocessors first.
        Beside the first block column, what is right of it is copied in.
        """
        end, first = self.stack.num_columns, blocks[0]
        middle = first[1] if self.stack.num_rows >= FILLS_AHEAD else end
        self.steps += self.fill(0, middle)
        rest = self.fill(middle, end) if middle < end else ()
        self.steps += beside(self.apart(self.factor_block, *first), rest)
        for own, following in pairwise(blocks):
            (low, high), right = own, (following[1], end)
            self.steps.append(self.exchange((low, end), own, 0, permutes=True))
            urgent, rest = self.apart(self.extend, low, high, following), self.apart(self.solve, low, high, right)
            self.steps += beside(urgent, rest)
            urgent, rest = self.apart(self.factor_block, *following), self.apart(self.reduce_rest, own, right)
            self.steps += beside(urgent, rest)
        low, high = blocks[-1]
        self.steps.append(self.exchange((self.kept_from(low), end), (low, high), 0, permutes=True))
        self.extend(low, high, (high, end))

    def kept_from(self, low: int) -> int:
        """Return the first column that is exchanged with the block column that begins at a column."""
        return 0 if self.keeps_lower else low

    def apart(self, append: Callable[..., None], *given: object) -> list[Step]:
        """Return the steps that a call appends, without appending them."""
        before, self.steps = self.steps, []
        append(*given)
        made, self.steps = self.steps, before
        return made

    def factor_block(self, low: int, high: int) -> None:
        """Factor a block column, whose exchanges are made in no other column."""
        self.columns = low, high
        self.factor(low, high)

    def reduce_rest(self, own: tuple[int, int], columns: tuple[int, int]) -> None:
        """Take the product with a block column off what is below in some columns; exchange rows left of it, of L."""
        (low, high), stack = own, self.stack
        spec = lu_cluster.choose(stack.type, stack.num_rows - high, self.device)
        device = cluster.remainder(self.device, spec)
        if columns[0] < columns[1]:
            self.steps += reduced(stack, (high, stack.num_rows), columns, own, device, self.a)
        if self.kept_from(low) < low:
            self.steps.append(self.exchange((0, high), own, 0))

    def factor(self, low: int, high: int) -> None:
        """Factor some columns below the diagonal."""
        if high - low <= self.group(low):
            end = low
            while end < high:
                start, end = end, min(end + self.launch_width(end), high)
                self.factor_panel(start, end, high)
                if end < high:
                    lines, columns = (end, self.stack.num_rows), (end, high)
                    self.steps += reduced(self.stack, lines, columns, (start, end), self.device, self.a)
            return
        middle = low + -(-(high - low) // (2 * self.width)) * self.width
        self.factor(low, middle)
        self.extend(low, middle, (middle, high))
        self.factor(middle, high)

    def factor_panel(self, low: int, high: int, end: int) -> None:
        """Factor a panel, and compute its rows of U up to column `end`."""
        stack, nbytes = self.stack, self.stack.type.nbytes
        shape = (stack.num_rows - low, high - low)
        place = self.lists(low)
        for start in range(0, stack.count, self.at_once):
            count = min(self.at_once, stack.count - start)
            panel = Panel(
                stack.type, shape, low, stack.num_rows, low, stack.pitch, stack.move, self.depth, count, start
            )
            places = (
                self.a.at(stack.at(low, low) + start * stack.move * nbytes),
                self.pivots.at(4 * (low + start * self.depth)),
                place.at(4 * 3 * self.width * start),
                self.status,
            )
            spec = self.cluster(low)
            if spec is not None:
                self.steps.append(lu_cluster.launch(spec, panel, places))
            else:
                self.steps.append(lu_panel.launch(panel, self.height, *places, self.board))
        if self.columns != (low, high) or not self.block.looks_ahead:
            exchanged = self.exchange(self.columns, (low, high), end - high, permutes=not self.block.looks_ahead)
            self.steps.append(exchanged)

    def cluster(self, low: int) -> ClusterSpec | None:
        """Return the cluster that factors the panel from a column on; None where there is none."""
        stack = self.stack
        if stack.count > 1:
            return None
        num_panels = lu_cluster.MOST_PANELS if self.block.looks_ahead else 1  # of 2048 rows, pairs take longer
        return lu_cluster.choose(stack.type, stack.num_rows - low, self.device, num_panels)

    def panel_width(self, low: int) -> int:
        """Return how many columns panels have in the block column that has a column."""
        spec = self.cluster(self.lows[self.block_of(low)])
        return self.width if spec is None else spec.width

    def launch_width(self, low: int) -> int:
        """Return how many columns are factored at once from a column on."""
        spec, width = self.cluster(low), self.panel_width(low)
        return width if spec is None or spec.width != width else width * spec.num_panels

    def lists(self, low: int) -> Argument:
        """Where the exchanges of the panel from a column on are kept: of all of two block columns, or of a panel."""
        number = 0
        if self.block.looks_ahead:
            most, own = -(-self.block.width // self.panel_width(0)), self.block_of(low)
            number = own % 2 * most + (low - self.lows[own]) // self.panel_width(low)
        return self.exchanges.at(4 * 3 * self.width * number)

    def exchange(
        self, columns: tuple[int, int], panel: tuple[int, int], num_solved: int, *, permutes: bool = False
    ) -> Launch:
        """Exchange rows in some columns as the panels from one column to another have."""
        stack, (low, high) = self.stack, panel
        given = rows.Exchange(
            stack.type,
            columns,
            (low, high - low),
            self.panel_width(low),
            stack.num_rows,
            stack.pitch,
            stack.move,
            stack.count,
            num_solved,
            self.device.cc >= (9, 0),
            permutes,
        )
        return rows.exchange(given, self.a, self.permutation, self.lists(low))

    def solve(self, low: int, high: int, columns: tuple[int, int]) -> None:
        """Compute rows `low` to `high` of U in some columns."""
        stack, (start, end) = self.stack, columns
        if start < end:
            upper = solved(stack, low, high, columns, UNIT_LOWER, self.device)
            self.steps += upper.on(in0=self.a.at(stack.at(low, low)), out0=self.a.at(stack.at(low, start)))

    def extend(self, low: int, high: int, columns: tuple[int, int]) -> None:
        """Compute rows `low` to `high` of U in some columns, and take the products off what is below."""
        stack = self.stack
        self.solve(low, high, columns)
        if high < stack.num_rows and columns[0] < columns[1]:
            self.steps += reduced(stack, (high, stack.num_rows), columns, (low, high), self.device, self.a)


def solved(stack: Stack, low: int, high: int, columns: tuple[int, int], form: Form, device: Device) -> Plan:
    """Return the launches that solve with the block on the diagonal for others of the same rows, in place."""
    x = stack.part(low, columns[0])
    system = TriangularSystem(
        (high - low, columns[1] - columns[0]),
        stack.part(low, low),
        form,
        True,
        stack.pitch,
        x.alignment,
        stack.count,
        stack.move,
        stack.move,
    )
    return blas3.plan_solve(system, device)


def reduced(
    stack: Stack,
    lines: tuple[int, int],
    columns: tuple[int, int],
    along: tuple[int, int],
    device: Device,
    a: Argument,
) -> tuple[Step, ...]:
    """Take the product of a block on the left and one above off the block of some rows and columns."""
    left, above, target = (
        stack.part(lines[0], along[0]),
        stack.part(along[0], columns[0]),
        stack.part(lines[0], columns[0]),
    )
    batch = (stack.count,) if stack.count > 1 else ()
    shape = (*batch, lines[1] - lines[0], columns[1] - columns[0])
    plan = select.plan_update(shape, along[1] - along[0], left, above, target, device)
    c = a.at(stack.at(lines[0], columns[0]))
    return plan.on(out0=c, in0=a.at(stack.at(lines[0], along[0])), in1=a.at(stack.at(along[0], columns[0])), in2=c)


__all__ = ["Stack", "contiguous", "plan_factor", "reduced", "solved"]
