"""Transforms of lengths that fit a block: registers, then mixed radix through shared memory.

Data layout: a tile is `columns` transforms next to each other along one loop of the batch, the column loop; source and
target have any strides. Who owns what: `threads` threads work on a transform, so that a block has ``threads * columns``
of them; in every stage a thread owns each `threads`-th butterfly. Algorithm (Stockham's, self-sorting): stage s takes
elements ``b + j * n / r``, multiplies them by roots of unity from a table of the module, transforms them in registers
and leaves them where the next stage's order wants them; stages exchange through shared memory, the first reads and the
last writes global memory. Lengths without codelets are transformed by Bluestein's convolution: forwards, times the
transform of a chirp, and backwards with the stages in reverse order, which begin where the others end. Neighbouring
threads go along the transform (`ROWS`) or along the column loop (`COLUMNS`), whichever lies side by side in memory;
where source and target differ in that, threads change at the last exchange. A transform backwards is one forwards of
conjugates: the signs are parameters, like the scale. Bytes per element: read and written once.

Source: L. I. Bluestein, A linear filtering approach to the computation of the discrete Fourier transform, NEREM 1968;
T. G. Stockham, High-speed convolution and correlation, AFIPS 1966; N. K. Govindaraju et al., High performance
discrete Fourier transforms on graphics processors, SC 2008.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp._kernels.elementwise.chain import Divisor, Splitter
from oxinp._kernels.fft.codelets import multiply, transform
from oxinp._kernels.fft.roots import Circle, roots_of_unity, table
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import f32, f64, i32, i64, pred, u32

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oxinp._kernels.fft.codelets import Number
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.types import Type
    from oxinp._ptx.value import Value

    Values = list[list[Number]]  # of the butterflies of a thread

ROWS, COLUMNS = "rows", "columns"
BY_COLUMN, BY_LOOP = "column", "loop"
SPLIT, MERGE = "split", "merge"
WARP = 32
BANK_WIDTH = 128  # bytes of shared memory that a wavefront reaches


class BlockSpec(Frozen):
    """One kernel of the family.

    Attributes
    ----------
    type : Type
        c64 or c128, in which everything is computed.
    source : Type
        Of elements that are read: any; real ones have an imaginary part of 0.
    target : Type
        Of elements that are written: `type`, or that of its parts for the real parts.
    radices : tuple of int
        Of the stages; their product is the length.
    threads, columns : int
        Threads of a transform, transforms of a block.
    loads, stores : str
        `ROWS` or `COLUMNS`.
    num_outer : int
        Loops of the batch outside the column loop, at least 1.
    is_unit_source, is_unit_target : bool
        Whether transforms lie side by side.
    is_padded, is_cropped : bool
        Whether elements from a position on are read as zeros, and whether they are not stored.
    is_half : bool
        Whether the source has the first half only of a sequence whose second half is its conjugate reversed.
    chirp : int
        Length of the transform that Bluestein computes by a convolution of length `length`; 0 for none.
    real : str
        `SPLIT` for a real source of twice the length and the first half of its transform, `MERGE` for the other way
        round, "" for what is complex; see `real`.
    is_paired : bool
        Whether two real elements are read or written at once.
    is_staged : bool
        Whether the transforms of a single stage go through shared memory on both ways, so that neighbouring threads
        read and write neighbouring elements.
    twiddle : str
        What results are multiplied by before they are stored, roots of unity of the element's number times the
        column's (`BY_COLUMN`), or times the innermost outer loop's (`BY_LOOP`); "" for none.
    bits : int
        32 where every distance in elements fits, else 64.
    padding : int
        Elements of shared memory after which one is left out; 0 for none.
    min_blocks : int
        Blocks that have to fit a multiprocessor.
    """

    type: Type
    source: Type
    target: Type
    radices: tuple[int, ...]
    threads: int
    columns: int
    loads: str
    stores: str
    num_outer: int
    is_unit_source: bool
    is_unit_target: bool
    is_padded: bool
    is_cropped: bool
    is_half: bool
    chirp: int
    real: str
    is_paired: bool
    is_staged: bool
    twiddle: str
    bits: int
    padding: int
    min_blocks: int

    @property
    def length(self) -> int:
        """Of the transform that the stages compute."""
        return math.prod(self.radices)

    @property
    def pitch(self) -> int:
        """Elements of shared memory from a transform to the next, where those lie one after the other."""
        return self.length | 1 if self.is_staged else self.length

    @property
    def shared_elements(self) -> int:
        """Of shared memory."""
        if self.is_staged:
            return self.pitch * self.columns
        if len(self.radices) == 1 and not self.real:
            return 0
        size = self.length * self.columns
        return size + (size // self.padding if self.padding else 0)


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: BlockSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return Block(spec).build()


def _name(spec: BlockSpec) -> str:
    if spec.real:
        return f"fft_{spec.real}_{2 * spec.length}"
    return f"fft_{spec.chirp}_by_{spec.length}" if spec.chirp else f"fft_{spec.length}"


class Thread:
    """Which column a thread has, and which butterfly is its first."""

    def __init__(self, column: Value, first: Value) -> None:
        self.column = column
        self.first = first


class Block:
    """The kernel while it is built; parameters are target, source, then as `constants` says."""

    def __init__(self, spec: BlockSpec) -> None:
        self.spec = spec
        block = spec.threads * spec.columns
        self.k = k = Builder(_name(spec), block=block, min_blocks=spec.min_blocks)
        self.part = spec.type.parts[0]
        self.index = i32 if spec.bits == 32 else i64
        self.target = k.pointer("target", spec.target, "w")
        self.source = k.pointer("source", spec.source, "r")
        self.tiles = Divisor(k, "num_tiles", self.index)
        self.num_columns = k.scalar("num_columns", self.index)
        self.outer = Splitter(k, "outer", spec.num_outer, self.index)
        self.steps = [
            [k.scalar(f"{name}_step{i}", self.index) for i in range(spec.num_outer + 2)]
            for name in ("source", "target")
        ]
        self.source_sign = k.scalar("source_sign", self.part)
        self.scales = [k.scalar(name, self.part) for name in ("real_scale", "imag_scale")]
        if spec.is_padded or spec.is_half:
            self.source_positions = [k.scalar(f"source_position{i}", self.index) for i in range(spec.num_outer + 2)]
            self.num_valid = k.scalar("num_valid", self.index)
        if spec.is_half:
            self.whole_length, self.half_step = (k.scalar(name, self.index) for name in ("whole_length", "half_step"))
        if spec.is_cropped:
            self.target_positions = [k.scalar(f"target_position{i}", self.index) for i in range(spec.num_outer + 2)]
            self.num_stored = k.scalar("num_stored", self.index)
        if spec.twiddle:
            self.circle = Circle(k, "circle", self.part)
        if spec.shared_elements:
            self.smem = k.dynamic_shared(spec.type, spec.shared_elements)
        self.is_exchanged = False
        self.radices = spec.radices
        self.tables = self._tables()
        if spec.chirp:
            # j * j modulo 2 * n in integers; what is n or more of it is half a turn and the rest.
            squares = np.arange(spec.chirp, dtype=np.int64) ** 2 % (2 * spec.chirp)
            chirp = roots_of_unity(squares, 2 * spec.chirp)
            self.chirp = k.table(chirp.astype(spec.type.dtype))
            self.filter = k.table(_filter(chirp, spec.length).astype(spec.type.dtype))

    def _tables(self) -> list[Pointer]:
        """Per stage but the first, root j * k of the elements behind the first, j outermost."""
        before = 1
        tables: list[Pointer] = []
        for radix, following in pairwise(self.radices):
            before *= radix
            numerators = np.multiply.outer(np.arange(1, following), np.arange(before)).ravel()
            tables.append(self.k.table(table(before * following, numerators, self.spec.type.dtype)))
        return tables

    # -- the tile

    def begin(self) -> Thread:
        """Find the tile of a block; return the threads in the order in which they load."""
        k, spec = self.k, self.spec
        outer, tile = self.tiles.divide(k.cast(k.ctaid, self.index))
        self.loops = self.outer.split(outer)
        self.first_column = tile * spec.columns
        return self.threads(spec.loads)

    def build(self) -> Kernel:
        k, spec = self.k, self.spec
        thread = self.begin()
        if spec.is_staged:
            return self._staged(thread)
        if len(spec.radices) == 1:  # without a barrier: nobody may read what its owner overwrites
            with k.when(self.first_column + k.cast(thread.column, self.index) < self.num_columns):
                self._store(thread, 1, [transform(k, each) for each in self._load(thread)])
            return k.build()
        thread, values = self.stages(thread, self._load(thread), is_last=not spec.chirp)
        if spec.chirp:
            values = self._filtered(thread, values)
            self.radices = spec.radices[::-1]
            if self.radices != spec.radices:
                self.tables = self._tables()
            thread, values = self.stages(thread, values, is_last=True)
        self._store(thread, spec.length // self.radices[-1], values)
        return k.build()

    def _staged(self, thread: Thread) -> Kernel:
        """A stage between two copies by way of shared memory."""
        k, spec = self.k, self.spec
        places = []
        for i in range(spec.length):
            element = k.tid + i * spec.columns if i else k.tid + 0
            places.append((element % spec.length, Thread(element / spec.length, element)))
        loaded = []
        for element, owner in places:
            moved = k.cast(element, self.index)
            place = self.origin(owner, self.steps[0]) + (moved if spec.is_unit_source else moved * self.steps[0][-1])
            loaded.append(self.element(self.source.at(place), None, self.source_sign, is_reused=False))
        for (element, owner), value in zip(places, loaded, strict=True):
            self.smem[owner.column * spec.pitch + element] = k.compound(spec.type, *value)
        k.barrier()
        own = thread.column * spec.pitch
        values = [(value[0], value[1]) for value in (self.smem[own + j].parts for j in range(spec.length))]
        for j, (real, imag) in enumerate(transform(k, values)):
            self.smem[own + j] = k.compound(spec.type, real * self.scales[0], imag * self.scales[1])
        k.barrier()
        for element, owner in places:
            moved = k.cast(element, self.index)
            place = self.origin(owner, self.steps[1]) + (moved if spec.is_unit_target else moved * self.steps[1][-1])
            result = self.smem[owner.column * spec.pitch + element]
            with k.when(self.first_column + k.cast(owner.column, self.index) < self.num_columns):
                self.target.at(place).store(0, (result if spec.target.is_complex else result.parts[0],))
        return k.build()

    def stages(self, thread: Thread, values: Values, *, is_last: bool) -> tuple[Thread, Values]:
        """All stages; if nothing follows, threads change to the order in which they store."""
        k, spec, before = self.k, self.spec, 1
        for stage in range(len(self.radices)):
            if stage:
                before *= self.radices[stage - 1]
                self.leave(thread, stage, before, values)
                if is_last and stage == len(self.radices) - 1 and spec.stores != spec.loads:
                    thread = self.threads(spec.stores)
                values = self._fetch(thread, stage, before)
            values = [transform(k, each) for each in values]
        return thread, values

    def _filtered(self, thread: Thread, values: Values) -> Values:
        """The conjugate of what the first transform gives times that of the chirp."""
        k, radix = self.k, self.radices[-1]
        filtered = []
        for (number, _), elements in zip(self.butterflies(thread, radix), values, strict=True):
            own = self.filter.at(number)
            products = []
            for j, value in enumerate(elements):
                (factor,) = own.load(j * (self.spec.length // radix), 1, "nc")
                real, imag = multiply(k, value, factor.parts)  # type: ignore[arg-type]
                products.append((real, -imag))
            filtered.append(products)
        return filtered

    def threads(self, order: str) -> Thread:
        """Threads in one of the two orders."""
        k, spec = self.k, self.spec
        if order == ROWS:
            column = k.tid / spec.threads if spec.columns > 1 else k.const(0, u32)
            return Thread(column, k.tid % spec.threads if spec.columns > 1 else k.tid)
        return Thread(k.tid % spec.columns, k.tid / spec.columns)

    def butterflies(self, thread: Thread, radix: int) -> list[tuple[Value, Value | None]]:
        """Numbers of a thread's butterflies, the last in place of those beyond it, and whether each is one."""
        k, spec = self.k, self.spec
        count = spec.length // radix
        rounds = -(-count // spec.threads)
        found: list[tuple[Value, Value | None]] = []
        for i in range(rounds):
            number = thread.first + i * spec.threads if i else thread.first
            if (i + 1) * spec.threads > count:
                found.append((k.min(number, count - 1), number < count))
            else:
                found.append((number, None))
        return found

    def origin(self, thread: Thread, steps: list[Value]) -> Value:
        """Elements from the pointer to a thread's transform."""
        k = self.k
        column = k.min(self.first_column + k.cast(thread.column, self.index), self.num_columns - 1)
        place = column * steps[-2]
        for loop, step in zip(self.loops, steps, strict=False):
            place = place + loop * step
        return place

    # -- global memory

    def _load(self, thread: Thread) -> Values:
        """What a thread's butterflies of the first stage take."""
        k, spec = self.k, self.spec
        radix = spec.radices[0]
        apart = spec.length // radix
        steps = self.steps[0]
        origin = self.origin(thread, steps)
        is_placed = spec.is_padded or spec.is_half
        position = self.origin(thread, self.source_positions) if is_placed else None
        loaded = []
        for number, _ in self.butterflies(thread, radix):
            first = k.cast(number, self.index)
            base = self.source.at(origin + (first if spec.is_unit_source else first * steps[-1]))
            stride = None if spec.is_unit_source else steps[-1] * apart
            elements = []
            for j in range(radix):
                if spec.chirp and apart * j >= spec.chirp:
                    elements.append((k.const(0, self.part), k.const(0, self.part)))
                    continue
                pointer = base.at(apart * j) if stride is None else base.at(stride * j if j else 0)
                is_valid, sign = None, self.source_sign
                if position is not None:
                    where = position + (first + apart * j) * self.source_positions[-1]
                    if spec.is_half:
                        # Elements of the second half are those at the mirrored place, conjugated.
                        mirrored = self.whole_length - where
                        is_mirrored = where > mirrored
                        sign = k.where(is_mirrored, -sign, sign)
                        moved = k.where(is_mirrored, mirrored - where, k.const(0, self.index))
                        pointer = pointer.at(moved * self.half_step)
                        where = k.min(where, mirrored)
                    is_valid = where < self.num_valid
                if spec.chirp and (apart * (j + 1) > spec.chirp or spec.threads * self._rounds(radix) > apart):
                    is_inside = number + apart * j < spec.chirp
                    is_valid = is_inside if is_valid is None else is_valid & is_inside
                value = self.element(pointer, is_valid, sign, is_reused=len(spec.radices) == 1)
                if spec.chirp:
                    place = k.min(number + apart * j, spec.chirp - 1)
                    value = multiply(k, value, self.chirp.load(place, 1, "nc")[0].parts)  # type: ignore[arg-type]
                elements.append(value)
            loaded.append(elements)
        return loaded

    def _rounds(self, radix: int) -> int:
        """Butterflies of a thread."""
        return -(-(self.spec.length // radix) // self.spec.threads)

    def element(self, pointer: Pointer, is_valid: Value | None, sign: Value, *, is_reused: bool) -> Number:
        """A number that is read, conjugated where the transform goes backwards."""
        k, spec = self.k, self.spec
        cache = "" if is_reused else "L1::no_allocate"
        if is_valid is None:
            (value,) = pointer.load(0, 1, cache)
        else:
            variable = k.var(k.const(False if spec.source is pred else 0, spec.source))
            with k.when(is_valid):
                variable.set(pointer.load(0, 1, cache)[0])
            value = variable.get()
        if not spec.source.is_complex:
            return k.cast(value, self.part), k.const(0, self.part)
        real, imag = (k.cast(part, self.part) for part in value.parts)
        return real, imag * sign

    def _store(self, thread: Thread, before: int, values: Values) -> None:
        """Store what the last stage gives: element b + j * before of butterfly b."""
        k, spec = self.k, self.spec
        radix = self.radices[-1]
        steps = self.steps[1]
        origin = self.origin(thread, steps)
        position = self.origin(thread, self.target_positions) if spec.is_cropped else None
        column = self.first_column + k.cast(thread.column, self.index)
        is_column = column < self.num_columns
        turn = column if spec.twiddle == BY_COLUMN else self.loops[-1]
        for (number, is_butterfly), elements in zip(self.butterflies(thread, radix), values, strict=True):
            first = k.cast(number, self.index)
            base = self.target.at(origin + (first if spec.is_unit_target else first * steps[-1]))
            stride = None if spec.is_unit_target else steps[-1] * before
            roots = self._twiddles(number, before, radix, k.cast(turn, u32)) if spec.twiddle else iter(())
            with k.when(is_column if is_butterfly is None else is_column & is_butterfly):
                for j, value in enumerate(elements):
                    if spec.chirp and before * j >= spec.chirp:
                        break
                    root = next(roots, None)
                    real, imag = value if root is None else multiply(k, value, root)
                    if spec.chirp:
                        place = k.min(number + before * j, spec.chirp - 1)
                        factor = self.chirp.load(place, 1, "nc")[0].parts
                        real, imag = multiply(k, (real, -imag), factor)  # type: ignore[arg-type]
                    pointer = base.at(before * j) if stride is None else base.at(stride * j if j else 0)
                    scaled = real * self.scales[0]
                    if spec.target.is_complex:
                        scaled = k.compound(spec.type, scaled, imag * self.scales[1])
                    is_stored = None
                    if spec.chirp:
                        is_stored = number + before * j < spec.chirp
                    if position is not None:
                        is_kept = position + (first + before * j) * self.target_positions[-1] < self.num_stored
                        is_stored = is_kept if is_stored is None else is_stored & is_kept
                    if is_stored is None:
                        pointer.store(0, (scaled,))
                        continue
                    with k.when(is_stored):
                        pointer.store(0, (scaled,))

    def _twiddles(self, number: Value, before: int, radix: int, turn: Value) -> Iterator[Number]:
        """Yield the roots that a butterfly of the last stage is multiplied by, each when it is asked for."""
        k = self.k
        if self.part is f64:
            for j in range(radix):
                yield self.circle.root((number + before * j) * turn)
            return
        # Doubles hold so many powers of one root that none is off by a bit that floats have.
        root, factor = self.circle.root(number * turn), self.circle.root(turn * before)
        for j in range(radix):
            if j:
                root = multiply(k, root, factor)
            yield k.cast(root[0], f32), k.cast(root[1], f32)

    # -- shared memory

    def _address(self, place: Value, offset: int, multiple: int) -> Value | int:
        """Where in shared memory an element lies, `offset` behind one whose place is divisible by `multiple`."""
        padding = self.spec.padding
        if not padding:
            return place + offset if offset else place
        if offset % padding == 0 or (multiple % padding == 0 and offset < padding):
            return (place + place / padding) + (offset + offset // padding)
        moved = place + offset
        return moved + moved / padding

    def _place(self, thread: Thread, element: Value) -> tuple[Value, int, int]:
        """An element's place before padding, how far apart neighbours are, a divisor of what columns add."""
        spec = self.spec
        if COLUMNS in (spec.loads, spec.stores):
            return element * spec.columns + thread.column, spec.columns, 1
        if spec.columns == 1:
            return element, 1, 0
        return element + thread.column * spec.pitch, 1, spec.pitch

    def place_of(self, thread: Thread, element: Value) -> Value | int:
        """Where in shared memory an element lies."""
        return self._address(self._place(thread, element)[0], 0, 1)

    def leave(self, thread: Thread, stage: int, before: int, values: Values) -> None:
        """Write what stage `stage - 1` gives; `before` is the length of transforms that it has finished."""
        k, spec = self.k, self.spec
        radix = self.radices[stage - 1]
        done = before // radix
        if self.is_exchanged:
            self.wait()
        self.is_exchanged = True
        for (number, is_valid), elements in zip(self.butterflies(thread, radix), values, strict=True):
            within = number % done if done > 1 else None
            first = number * radix if within is None else (number - within) * radix + within
            place, apart, _ = self._place(thread, first)
            multiple = radix if apart == 1 and done == 1 and spec.pitch % radix == 0 else 1
            stored = [
                (self._address(place, j * done * apart, multiple), k.compound(spec.type, *value))
                for j, value in enumerate(elements)
            ]
            if is_valid is None:
                for address, value in stored:
                    self.smem[address] = value
                continue
            with k.when(is_valid):
                for address, value in stored:
                    self.smem[address] = value
        self.wait()

    def wait(self) -> None:
        """Until everyone who shares memory with a thread is here."""
        spec = self.spec
        if spec.loads == spec.stores == ROWS and WARP % spec.threads == 0:
            self.k.warp_sync()
        else:
            self.k.barrier()

    def _fetch(self, thread: Thread, stage: int, before: int) -> Values:
        """What a thread's butterflies of a stage take, times roots of unity."""
        k, spec = self.k, self.spec
        radix = self.radices[stage]
        apart = spec.length // radix
        roots = self.tables[stage - 1]
        fetched = []
        for number, _ in self.butterflies(thread, radix):
            place, neighbour, _ = self._place(thread, number)
            loaded = [self.smem[self._address(place, j * apart * neighbour, 1)] for j in range(radix)]
            within = number % before if stage < len(self.radices) - 1 else number
            own = roots.at(within)
            factors = [own.load(j * before, 1, "nc")[0].parts for j in range(radix - 1)]
            rest = [multiply(k, value.parts, factor) for value, factor in zip(loaded[1:], factors, strict=True)]  # type: ignore[arg-type]
            fetched.append([loaded[0].parts, *rest])
        return fetched  # type: ignore[return-value]


def _filter(chirp: np.ndarray[Any, Any], length: int) -> np.ndarray[Any, Any]:
    """The transform of a chirp's conjugate to both sides, over the length."""
    both = np.zeros(length, np.clongdouble)
    both[: len(chirp)] = chirp.conj()
    both[length - len(chirp) + 1 :] = chirp[:0:-1].conj()
    return np.fft.fft(both) / length


def conflicts(spec: BlockSpec) -> int:
    """Return how many wavefronts the first warps' exchanges take, of all stages together."""
    nbytes = spec.type.nbytes
    lanes = np.arange(min(4 * WARP, -(-spec.threads * spec.columns // WARP) * WARP)) % (spec.threads * spec.columns)
    at_once = BANK_WIDTH // nbytes
    is_mixed = COLUMNS in (spec.loads, spec.stores)
    total, done = 0, 1
    for stage in range(1, len(spec.radices)):
        before, radix = spec.radices[stage - 1], spec.radices[stage]
        is_last = stage == len(spec.radices) - 1
        for order, length, is_write in (
            (spec.loads, before, True),
            (spec.stores if is_last else spec.loads, radix, False),
        ):
            if order == ROWS:
                column, first = lanes // spec.threads, lanes % spec.threads
            else:
                column, first = lanes % spec.columns, lanes // spec.columns
            first = np.minimum(first, spec.length // length - 1)
            element = first + np.arange(length)[:, None] * (spec.length // length)
            if is_write:
                element = first // done * done * length + first % done + np.arange(length)[:, None] * done
            place = element * spec.columns + column if is_mixed else column * spec.pitch + element
            if spec.padding:
                place = place + place // spec.padding
            # Lanes that want the same element share it.
            place = np.sort(place.reshape(-1, at_once), axis=1)
            is_new = np.diff(place, axis=1, prepend=-1) != 0
            counts = np.zeros(place.shape, np.int64)
            np.add.at(counts, (np.arange(len(place))[:, None], place % at_once), is_new)
            total += int(counts.max(1).sum())
        done *= before
    return total


__all__ = ["BY_COLUMN", "BY_LOOP", "COLUMNS", "MERGE", "ROWS", "SPLIT", "Block", "BlockSpec", "conflicts", "make"]
