"""One pass of a plan: transforms along one loop nest, which loop is the column loop, how blocks are cut."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.elementwise.chain import Divisor, Splitter
from oxinp._kernels.fft.bluestein import num_pieces
from oxinp._kernels.fft.kernel import make
from oxinp._kernels.fft.prefetch import is_fetched
from oxinp._kernels.fft.prime import cut_of_sums
from oxinp._kernels.fft.radices import LINE, MAX_HELD, Cut, cut, even_at
from oxinp._kernels.fft.roots import Circle
from oxinp._kernels.fft.shapes import shape_of
from oxinp._kernels.fft.sides import Between, Chained, Loop, Positions, Side, joined
from oxinp._kernels.fft.spec import (
    BY_BOTH,
    BY_COLUMN,
    BY_LOOP,
    COLUMNS,
    MERGE,
    RADER,
    ROWS,
    SPLIT,
    SPLIT_MERGE,
    SUMMED,
    TRIGONOMETRIC,
    TWINS,
    TransformSpec,
)
from oxinp._kernels.fft.tiling import is_large, resident, with_padding
from oxinp._kernels.nest import MAX_INDEX_32
from oxinp._kernels.plan import Argument, Launch, Work
from oxinp._ptx.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.choice import Device
    from oxinp._kernels.fft.bluestein import Chirp
    from oxinp._ptx.types import Type

# Bytes of a row up to which threads of a transform would read pieces much shorter than a warp's, and where rows begin
# within lines.
MAX_STAGED, MAX_STAGED_RAGGED = 1152, 2048


class Fitted(NamedTuple):
    """A kernel, its grid, arguments and constants, the bytes that it moves, and how many numbers a thread holds."""

    spec: TransformSpec
    grid: tuple[int, int, int]
    arguments: tuple[Argument, ...]
    constants: tuple[float, ...]
    nbytes: int
    held: int


class Batch(Frozen):
    """A pass before its kernel is built: transforms along one loop, for every index of the others.

    Attributes
    ----------
    length : int
    type, source_type, target_type : Type
    source, target : Side
    loops : tuple of Loop
    twiddle : Loop or None
        One of the loops, whose index times an element's number is the exponent of the root of unity, of order `order`,
        by which the result is multiplied.
    order : int
    sign : int
        Of the imaginary parts that are read.
    scales : tuple of float
        Of real and imaginary parts that are written.
    valid, stored : Positions or None
        Elements beyond which there are zeros in the source, and which are not stored.
    whole : int
        Length of the sequence of which the source has the first half; 0 where it has all.
    real : str
        As of `TransformSpec`; `length` is half of the transform's then.
    chirp : Chirp or None
        Of the transform that is computed by a convolution; `length` is the convolution's. None for none.
    first_scale : float
        Of cosine and sine transforms: what the element of frequency 0 is multiplied by as well.
    prologue, epilogue : Chained or None
        What the source's elements are made of, and what is made of the results.
    is_rotated, is_source_rotated : bool
        As of `TransformSpec`; the length is even.
    twins : tuple of int
        Elements from a sequence to its twin, in source and target, of `TWINS`.
    filter : Argument or None
        What transforms are multiplied by before they are transformed again, a row after the other, one for every index
        of the twiddle loop.
    shape : tuple of int or None
        Threads of a transform, and columns, where those are given.
    slabs : int
        How often all of it is computed in a launch of several passes; see `slabs`.
    between : Between or None
        What is made of transforms before they are transformed again.
    is_signed, is_scaled : bool
        Whether `sign` and `scales` may be others than 1.
    is_streaming : bool
        As of `TransformSpec`.
    column : Loop or None
        The column loop, where it is given. If the twiddle loop is another one, both count in the exponent of roots, as
        one loop whose inner one the column loop is.
    """

    length: int
    type: Type
    source_type: Type
    target_type: Type
    source: Side
    target: Side
    loops: tuple[Loop, ...]
    twiddle: Loop | None = None
    order: int = 1
    sign: int = 1
    scales: tuple[float, float] = (1.0, 1.0)
    valid: Positions | None = None
    stored: Positions | None = None
    whole: int = 0
    chirp: Chirp | None = None
    real: str = ""
    first_scale: float = 1.0
    prologue: Chained | None = None
    epilogue: Chained | None = None
    is_rotated: bool = False
    is_source_rotated: bool = False
    twins: tuple[int, int] = (0, 0)
    filter: Argument | None = None
    shape: tuple[int, int] | None = None
    slabs: int = 1
    between: Between | None = None
    column: Loop | None = None
    is_signed: bool = True
    is_scaled: bool = True
    is_streaming: bool = False

    @property
    def is_convolved(self) -> bool:
        """Whether transforms go there and back, and have radices of their own."""
        is_twice = self.filter is not None or self.between is not None
        return self.chirp is not None or (is_twice and is_large(self.length, self.type.nbytes))

    @property
    def size(self) -> int:
        """Number of transforms."""
        return math.prod(loop.extent for loop in self.loops)

    def launch(self, device: Device) -> Launch:
        """The launch of its kernel."""
        fitted = self.fit(device)
        work = Work(nbytes=fitted.nbytes)
        return Launch(make(fitted.spec), fitted.grid, fitted.arguments, fitted.constants, work)  # type: ignore[arg-type]

    def fit(self, device: Device) -> Fitted:
        """What its kernel is and takes."""
        column, outer, *orders = self._order()
        spec, grid = self._spec(column, outer, orders, device)
        loops = (*outer, column)
        constants: list[float] = [
            *Divisor.constants(-(-column.extent // spec.columns), spec.bits),
            column.extent,
            *Splitter.constants([loop.extent for loop in outer], spec.bits),
            *self._steps(loops),
            float(self.sign),
            *self.scales,
        ]
        if self.between is not None:
            constants += self.between.constants
        if self.valid is not None:
            constants += self.valid.constants(loops)
            constants += [self.whole, self.source.step // self.valid.step] if self.whole else []
        if self.stored is not None:
            constants += self.stored.constants(loops)
        if self.chirp is not None:
            constants.append(self.chirp.length)
        if self.real in TWINS:
            constants += self.twins
        if self.real in TRIGONOMETRIC:
            constants.append(self.first_scale)
        if self.twiddle is not None:
            constants += Circle.constants(self.order)
        if spec.is_fetching:
            constants += [device.num_sms * spec.min_blocks, grid[0]]
        widths = self.source_type.nbytes if self.prologue is None else self.prologue.nbytes
        widths += self.target_type.nbytes if self.epilogue is None else self.epilogue.nbytes + self.epilogue.made.nbytes
        if self.real not in ("", SUMMED, RADER):  # two real elements beside a complex one
            widths += min(self.source_type.nbytes, self.target_type.nbytes)
        widths += 0 if self.between is None else self.between.chain.nbytes
        nbytes = self.size * self.row * widths
        sources = (self.source.buffer,) if self.prologue is None else self.prologue.arguments
        arguments = (self.target.buffer, *sources, *(() if self.epilogue is None else self.epilogue.arguments))
        arguments += () if self.between is None else self.between.chain.arguments
        if self.filter is not None:
            arguments += (self.filter,)
        if self.chirp is not None:
            arguments += (self.chirp.chirp, self.chirp.filter)
        return Fitted(spec, grid, arguments, tuple(constants), nbytes, self._cut().held)

    def _steps(self, loops: Sequence[Loop]) -> list[int]:
        """Steps along loops and transform of all arrays in the order of `Tile`'s parameters."""
        columns = [[loop.source, loop.target, loop.reads, loop.writes, loop.between] for loop in loops]
        between = () if self.between is None else self.between.steps
        columns.append([self.source.step, self.target.step, self.source.steps, self.target.steps, between])
        steps: list[int] = []
        if self.prologue is None:
            steps += [column[0] for column in columns]  # type: ignore[misc]
        for i in range(len(self.source.steps)):
            steps += [column[2][i] for column in columns]  # type: ignore[index]
        steps += [column[1] for column in columns]  # type: ignore[misc]
        for i in range(len(self.target.steps)):
            steps += [column[3][i] for column in columns]  # type: ignore[index]
        for i in range(len(between)):
            steps += [column[4][i] for column in columns]  # type: ignore[index]
        return steps

    @property
    def column_extent(self) -> int:
        """Transforms that lie next to each other in the column loop."""
        return self._order()[0].extent

    @property
    def is_stageable(self) -> bool:
        """Whether whole rows are read, transformed and stored, in their order, and nothing more."""
        return not self.real and self._has_whole_rows

    @property
    def _has_whole_rows(self) -> bool:
        """Whether whole rows are read, and stored in their order."""
        _, _, loads, stores, _ = self._order()
        is_part = self.between or self.valid or self.stored or self.whole or self.is_rotated or self.is_source_rotated
        return loads == stores == ROWS and not (is_part or self.is_convolved or self.twiddle)

    @property
    def is_staged(self) -> bool:
        """Whether its kernel, if it is one of registers and exchanges, is staged."""
        if self.real == RADER:
            return True
        nbytes = self.type.nbytes
        most = MAX_STAGED_RAGGED if self.row * nbytes % LINE else MAX_STAGED
        if not (1 < self.length <= most // nbytes and self.is_stageable):
            return False
        found = cut(self.length, nbytes)
        assert found is not None, f"no pass of length {self.length}"
        return self.is_dense or found.held <= MAX_HELD[nbytes]  # many numbers leave few registers for addresses

    @property
    def is_dense(self) -> bool:
        """Whether neighbouring rows that are read are one piece of memory, and those that are stored, unfused."""
        column, *_ = self._order()
        sides = enumerate((self.source, self.target), 1)
        is_fused = self.prologue is not None or self.epilogue is not None
        return not is_fused and all(
            side.step == 1 and (column.extent == 1 or column.step(i) == self.row) for i, side in sides
        )

    @property
    def is_ragged(self) -> bool:
        """Whether rows that are not staged begin within lines."""
        is_whole = self.is_stageable and not self.is_staged
        return is_whole and self.row * self.type.nbytes % LINE > 0

    @property
    def row(self) -> int:
        """Elements of a transform."""
        return self.chirp.length if self.chirp else self.length + (self.real == RADER)

    def _is_paired(self) -> bool:
        """Whether two real elements lie together at a multiple of their size."""
        ends = [
            (1, self.source, self.source_type, self.prologue),
            (2, self.target, self.target_type, self.epilogue),
        ]
        ends = {SPLIT: ends[:1], MERGE: ends[1:], SPLIT_MERGE: ends}.get(self.real, [])
        return bool(ends) and all(
            chain is None
            and all(loop.step(index) % 2 == 0 for loop in self.loops if loop.extent > 1)
            and side.step == 1
            and side.alignment % (2 * type_.nbytes) == 0
            for index, side, type_, chain in ends
        )

    def _order(self) -> tuple[Loop, tuple[Loop, ...], str, str, str]:
        """The column loop, the others with the twiddle loop innermost, and how threads go when they load and store.

        Last, how they go when they read what a chain between takes; "" without one.
        """
        along = () if self.between is None else self.between.steps
        none = Loop(1, 0, 0, (0,) * len(self.source.steps), (0,) * len(self.target.steps), (0,) * len(along))
        loops = [loop for loop in self.loops if loop.extent > 1] or [none]

        def best(steps: Sequence[int], own: int) -> tuple[str, int]:
            nearest = min(range(len(loops)), key=lambda i: (loops[i].extent == 1, abs(steps[i]) or math.inf))
            step = abs(steps[nearest])
            is_row = self.length > 1 and (abs(own) <= step or step == 0 or loops[nearest].extent == 1)
            return (ROWS, -1) if is_row else (COLUMNS, nearest)

        loads, by_source = best([loop.source for loop in loops], self.source.step)
        stores, by_target = best([loop.target for loop in loops], self.target.step)
        between, by_between = "", -1
        if self.between is not None:
            between = loads
        if along:  # by the array that has most elements
            largest = max(range(len(along)), key=lambda i: sum(loop.between[i] != 0 for loop in loops))
            between, by_between = best([loop.between[largest] for loop in loops], along[largest])
        chosen = next((each for each in (by_target, by_source, by_between) if each >= 0), -1)
        if self.column is not None:
            chosen = loops.index(self.column)
        if chosen < 0:  # the loop along which most transforms lie one after the other
            if self.valid is None and self.stored is None:  # whose positions go along the loops that there are
                loops = joined(loops, self.twiddle)
            chosen = max(range(len(loops)), key=lambda i: (loops[i] is not self.twiddle, loops[i].extent))
        if by_source >= 0 and by_source != chosen:
            loads = ROWS
        if by_between >= 0 and by_between != chosen:
            between = ROWS
        column = loops.pop(chosen)
        loops.sort(key=lambda loop: (loop is self.twiddle, -abs(loop.target)))
        return column, tuple(loops) or (none,), loads, stores, between

    def _cut(self) -> Cut:
        """How the transforms are computed in a block."""
        nbytes = self.type.nbytes
        if self.real == SUMMED:
            return cut_of_sums(self.length, nbytes)
        found = cut(self.length, nbytes, is_convolved=self.is_convolved, is_ragged=self.is_ragged)
        assert found is not None, f"no pass of length {self.length}"
        if (self.is_rotated and found.radices[-1] % 2) or (self.is_source_rotated and found.radices[0] % 2):
            found = found._replace(radices=even_at(found.radices, self.is_source_rotated, self.is_rotated))
        return found

    def _spec(
        self, column: Loop, outer: tuple[Loop, ...], orders: list[str], device: Device
    ) -> tuple[TransformSpec, tuple[int, int, int]]:
        """The Spec, and the grid."""
        nbytes = self.type.nbytes
        found = self._cut()
        radices, is_staged = found.radices, self.is_staged
        loads, stores, between = orders
        if len(radices) == 1 and not self.real:  # threads stay with their transforms, whatever the order
            stores = loads = COLUMNS
            between = between and COLUMNS
        outer_size = math.prod(loop.extent for loop in outer)
        threads, columns, cluster = shape_of(self, found, column.extent, outer_size, (loads, stores, between), device)
        loops = (*outer, column)
        spans, steps = (*(loop.extent - 1 for loop in loops), 2 * self.length), self._steps(loops)
        reaches = [
            sum(span * abs(step) for span, step in zip(spans, steps[start : start + len(spans)], strict=True))
            for start in range(0, len(steps), len(spans))
        ]
        tiles = -(-column.extent // columns)
        num_blocks = tiles * outer_size
        other = BY_LOOP if self.column is None else BY_BOTH
        twiddle = "" if self.twiddle is None else BY_COLUMN if self.twiddle is column else other
        is_far = (
            max(
                max(reaches) + max(map(abs, self.twins)),
                num_blocks * cluster,
                tiles * columns,
                self.valid.number if self.valid else 0,
                self.whole,
            )
            >= MAX_INDEX_32
        )
        spec = TransformSpec(
            self.type,
            self.source_type,
            self.target_type,
            tuple(radices),
            threads,
            columns,
            loads,
            stores,
            len(outer),
            self.source.step == 1,
            self.target.step == 1,
            self.valid is not None,
            self.stored is not None,
            self.whole > 0,
            num_pieces(self.chirp.length, radices) if self.chirp else 0,
            self.real,
            bool(self.real) and self._is_paired(),
            is_staged,
            twiddle,
            64 if is_far else 32,
            0,
            1,
            None if self.prologue is None else self.prologue.fused(self.source.steps),
            None if self.epilogue is None else self.epilogue.fused(self.target.steps),
            None if self.epilogue is None else self.epilogue.made,
            self.is_rotated,
            self.is_source_rotated,
            cluster,
            self.is_convolved and nbytes == 8 and is_large(self.length, nbytes, is_chirp=self.chirp is not None),
            self.filter is not None,
            (is_staged or (self.real == SUMMED and self._has_whole_rows)) and self.is_dense,
            None if self.between is None else self.between.chain.fused(self.between.steps),
            between,
        )
        spec = with_padding(spec, device.max_shared_nbytes)
        spec = spec.replace(min_blocks=resident(spec, found.held, device.max_shared_nbytes))
        if not (self.real or is_staged or self.chirp):
            spec = spec.replace(is_signed=self.is_signed, is_scaled=self.is_scaled, is_streaming=self.is_streaming)
        if self.slabs == 1 and device.cc >= (9, 0):
            spec = spec.replace(is_fetching=is_fetched(spec, self.source), is_following=self.chirp is not None)
        return spec, (num_blocks * cluster, 1, 1)


__all__ = ["Batch", "Fitted"]
