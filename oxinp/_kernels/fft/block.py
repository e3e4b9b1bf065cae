"""Transforms of lengths that fit a block: registers, then mixed radix through shared memory.

Data layout: a tile is `columns` transforms next to each other along one loop of the batch, the column loop; source and
target have any strides. Who owns what: `threads` threads work on a transform, so that a block has ``threads * columns``
of them; in every stage a thread owns each `threads`-th butterfly. Algorithm (Stockham's, self-sorting): stage s takes
elements ``b + j * n / r``, multiplies them by roots of unity from a table of the module, transforms them in registers
and leaves them where the next stage's order wants them; stages exchange through shared memory, the first reads and the
last writes global memory. Lengths without codelets are transformed by Bluestein's convolution: forwards, times the
transform of a chirp, and backwards with the stages in reverse order, which begin where the others end. Neighbouring
threads go along the transform (`ROWS`) or along the column loop (`COLUMNS`), whichever lies side by side in memory;
where source and target differ in that, threads change at the last exchange. Blocks of a cluster (sm_90) share a tile
where segments of neighbouring columns would be short in one block: each has consecutive butterflies of the first stage,
writes their results into the shared memory of the blocks that go on with them, of every butterfly as many, and has an
own shorter transform from there on. Results of a pass of a longer transform are multiplied by roots of unity: products
of one that a butterfly has and one that the butterflies of a column share. A transform backwards is one forwards of
conjugates: the signs are parameters, like the scale. Bytes per element: read and written once.

Source: L. I. Bluestein, A linear filtering approach to the computation of the discrete Fourier transform, NEREM 1968;
T. G. Stockham, High-speed convolution and correlation, AFIPS 1966; N. K. Govindaraju et al., High performance
discrete Fourier transforms on graphics processors, SC 2008.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from oxinp._kernels.fft.bluestein import mirrored_from
from oxinp._kernels.fft.codelets import multiply, transform
from oxinp._kernels.fft.exchange import Exchange
from oxinp._kernels.fft.spec import BY_COLUMN, ROWS, SCALAR
from oxinp._kernels.fft.tile import Thread, divided
from oxinp._ptx import Kernel
from oxinp._ptx.types import c128, f64, i32, u32

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oxinp._kernels.fft.codelets import Number
    from oxinp._kernels.fft.tile import Place, Values
    from oxinp._ptx.value import Value


SECTOR = 32
AT_ONCE = 8  # elements that are stored behind loads of what lies beside them


class Block(Exchange):
    """The kernel of complex transforms while it is built."""

    def build(self) -> Kernel:
        """Build the kernel."""
        self.compute(self.begin())
        return self.k.build()

    def compute(self, thread: Thread) -> None:
        """Transform the tile that has begun."""
        k, spec = self.k, self.spec
        if len(spec.radices) == 1 and self.host is None:  # no barrier: nobody may read what its owner overwrites
            with k.when(self.is_column(thread)):
                values = [transform(k, each) for each in self._load(thread)]
                if spec.between is not None:
                    values = [transform(k, each) for each in self.changed(thread, values)]
                self._store(thread, 1, values)
            return
        values = self._load(thread)
        if spec.num_factors:
            self._share_factors()
        if self.host is not None:
            self.host.loaded()
            if len(spec.radices) == 1:
                k.barrier()
                self.host.exchanged()
        order = spec.between_order or spec.loads
        thread, values = self.stages(thread, values, order if spec.is_convolved else spec.stores)
        if spec.is_convolved:
            values = self.filtered(thread, values) if spec.between is None else self.changed(thread, values)
            self.turn_back()
            thread, values = self.stages(thread, values, spec.stores)
        self._store(thread, spec.length // self.radices[-1], values)

    @property
    def rolls_last(self) -> bool:
        """See `Exchange`: results are stored in the order of their numbers alone, and as they are."""
        spec = self.spec
        return not (spec.real or spec.twiddle or spec.is_rotated or spec.is_convolved or spec.epilogue)

    def filtered(self, thread: Thread, values: Values) -> Values:
        """The conjugate of what the first transform gives times that of the chirp."""
        k, spec, radix = self.k, self.spec, self.radices[-1]
        factors = self.filter
        if spec.is_filtered:
            turn = self.turn(thread)
            if spec.twiddle == BY_COLUMN:
                turn = k.min(turn, k.cast(self.num_columns - 1, u32))
            factors = factors.at(turn * spec.length)
        middle = mirrored_from(spec.radices, spec.type.nbytes) if spec.chirp else radix
        filtered = []
        for (number, _), elements in zip(self.butterflies(thread, radix), values, strict=True):
            own, mirrored, apart = factors.at(number), factors, spec.length // radix
            if middle < radix:
                mirrored = factors.at(-k.cast(number, i32))
            products = []
            for j, value in enumerate(elements):
                is_mirrored = j >= middle
                (factor,) = (mirrored if is_mirrored else own).load((radix - j if is_mirrored else j) * apart, 1, "nc")
                real, imag = multiply(k, value, factor.parts)  # type: ignore[arg-type]
                products.append((real, -imag))
            filtered.append(products)
        return filtered

    def changed(self, thread: Thread, values: Values) -> Values:
        """What the chain between two transforms makes of the first, conjugated where the second goes backwards."""
        k, spec, radix = self.k, self.spec, self.radices[-1]
        real_scale, imag_scale, sign = self.between_scales
        start, made = self.start(self.between, thread), []
        for (number, _), elements in zip(self.butterflies(thread, radix), values, strict=True):
            first = self.place(self.between, start, k.cast(number, self.index))
            own = []
            for j, (real, imag) in enumerate(elements):
                place = first.moved(j * (spec.length // radix))
                value = self.between_value((real * real_scale, imag * imag_scale), place)
                if value.type.is_complex:
                    again, turned = (k.cast(part, self.part) for part in value.parts)
                    own.append((again, turned * sign))
                else:
                    own.append((k.cast(value, self.part), k.const(0, self.part)))
            made.append(own)
        return made

    # -- global memory

    def _load(self, thread: Thread) -> Values:
        """What a thread's butterflies of the first stage take."""
        k, spec = self.k, self.spec
        radix = spec.radices[0]
        apart = spec.length // radix
        start = self.start(self.source, thread)
        is_placed = spec.is_padded or spec.is_half
        position = self.origin(thread, self.source_positions) if is_placed else None
        loaded = []
        for number, _ in self.butterflies(thread, radix):
            first = k.cast(self.first_number(number), self.index)
            base = self.place(self.source, start, first)
            elements = []
            for j in range(radix):
                if spec.chirp and j >= spec.chirp:
                    elements.append((k.const(0, self.part), k.const(0, self.part)))
                    continue
                place = base.moved(apart * ((j + radix // 2) % radix if spec.is_source_rotated else j))
                is_valid, sign = None, self.source_sign
                if position is not None:
                    where = position + (first + apart * j) * self.source_positions[-1]
                    if spec.is_half:
                        place, where, sign = self.halved(place, where)
                    is_valid = where < self.num_valid
                if j + 1 == spec.chirp:
                    is_inside = number + apart * j < self.chirp_length
                    is_valid = is_inside if is_valid is None else is_valid & is_inside
                value = self.element(place, is_valid, sign, is_reused=len(spec.radices) == 1 or self._is_ragged())
                if spec.chirp:
                    value = multiply(k, value, self._chirp(number, apart * j))
                elements.append(value)
            loaded.append(elements)
        return loaded

    def _is_ragged(self) -> bool:
        """Whether neighbouring pieces of rows that a stage reads share sectors of memory."""
        spec = self.spec
        pieces = spec.length, spec.threads, spec.length // spec.radices[0]
        return spec.loads == ROWS and any(piece * spec.source.nbytes % SECTOR for piece in pieces)

    def _store(self, thread: Thread, before: int, values: Values) -> None:
        """Store what the last stage gives: element b + j * before of butterfly b."""
        k, spec = self.k, self.spec
        radix = self.radices[-1]
        starts = [self.start(end, thread) for end in (self.target, self.beside)]
        position = self.origin(thread, self.target_positions) if spec.is_cropped else None
        column = self.first_column + k.cast(thread.column, self.index)
        is_column = column < self.num_columns
        turn = self.turn(thread)
        # What lies beside several elements is asked for before the first one is stored: it might be the same memory.
        at_once = AT_ONCE if any(kind != SCALAR for kind in self.beside.kinds) else 1
        for (own_number, is_butterfly), elements in zip(self.butterflies(thread, radix), values, strict=True):
            number = self.later_number(own_number)
            first = k.cast(number, self.index)
            base, own = self.place(self.target, starts[0], first), self.place(self.beside, starts[1], first)
            roots = self._twiddles(thread, number, before, turn) if spec.twiddle else iter(())
            with k.when(is_column if is_butterfly is None else is_column & is_butterfly):
                if self.is_rolled(len(self.radices) - 1):
                    self._store_rolled(before, base, own, position, first, elements)
                    continue
                stored = []
                for j, value in enumerate(elements):
                    if spec.chirp and j >= spec.chirp:
                        break
                    root = next(roots, None)
                    real, imag = value if root is None else multiply(k, value, root)
                    if spec.chirp:
                        real, imag = multiply(k, (real, -imag), self._chirp(number, before * j))
                    to = (j + radix // 2) % radix if spec.is_rotated else j
                    place = base.moved(before * to), own.moved(before * to)
                    scaled = self._scaled(real, imag)
                    is_stored = number + before * j < self.chirp_length if j + 1 == spec.chirp else None
                    if position is not None:
                        is_kept = position + (first + before * j) * self.target_positions[-1] < self.num_stored
                        is_stored = is_kept if is_stored is None else is_stored & is_kept
                    stored.append((place, scaled, is_stored, place[1].load_where(is_stored)))
                    if len(stored) == at_once:
                        self._write(stored)
                        stored = []
                self._write(stored)

    def _scaled(self, real: Value, imag: Value) -> Value:
        """What is stored of a result: both parts, or the real one, times their scales."""
        spec = self.spec
        if spec.is_scaled:
            real = real * self.scales[0]
        if not spec.target.is_complex:
            return real
        return self.k.compound(spec.type, real, imag * self.scales[1] if spec.is_scaled else imag)

    def _store_rolled(
        self, before: int, base: Place, beside: Place, position: Value | None, first: Value, elements: list[Number]
    ) -> None:
        """Store the results of a butterfly of the last stage, which lie `before` elements apart, by a loop."""

        def store(place: Value, result: Number) -> None:
            moved = self.k.cast(place, self.index)
            is_stored = None
            if position is not None:
                is_stored = position + (first + moved) * self.target_positions[-1] < self.num_stored
            self._write([((base.moved(moved), beside), self._scaled(*result), is_stored, [])])

        self.rolled(self.radices[-1], before, elements, store)

    def _write(self, stored: list[tuple[tuple[Place, Place], Value, Value | None, list[Value]]]) -> None:
        """Store elements, each with its places, whether it is stored, and what lies beside it."""
        for place, value, is_stored, loaded in stored:
            if is_stored is None:
                self.write(*place, value, loaded)
                continue
            with self.k.when(is_stored):
                self.write(*place, value, loaded)

    def _chirp(self, number: Value, offset: int) -> Number:
        """The chirp at an element, `offset` behind one."""
        real, imag = self.chirp.at(number).load(offset, 1, "nc")[0].parts
        return real, imag

    def _share_factors(self) -> None:
        """Leave roots that the elements of a column's butterflies have in common, j * before times the column's."""
        k, spec = self.k, self.spec
        block = spec.threads * spec.columns
        radix = spec.num_factors // spec.columns
        for start in range(0, spec.num_factors, block):
            place = k.tid + start if start else k.tid
            is_last = start + block > spec.num_factors
            with k.when(place < spec.num_factors) if is_last else nullcontext():
                j, column = divided(k, place, spec.columns)
                root = self.circle.root(j * (spec.length // radix) * self.turn(Thread(column, j)))
                self.factors[place] = k.compound(c128, *root)
        if spec.cluster > 1:  # whose blocks wait for bytes
            k.barrier()

    def _twiddles(self, thread: Thread, number: Value, before: int, turn: Value) -> Iterator[Number]:
        """Yield the roots that a butterfly of the last stage is multiplied by, each when it is asked for.

        Those that threads share are multiplied by one of the butterfly's own.
        """
        k, radix = self.k, self.radices[-1]
        if self.part is f64 and not self.spec.num_factors:
            for j in range(radix):
                yield self.circle.root((number + before * j) * turn)
            return
        root = self.circle.root(number * turn)
        factor = None if self.spec.num_factors else self.circle.root(turn * before)
        for j in range(radix):
            product = root
            if j and factor is None:
                shared = self.factors[thread.column + j * self.spec.columns].parts
                product = multiply(k, root, shared)  # type: ignore[arg-type]
            elif j and factor is not None:
                # Doubles hold so many powers of one root that none is off by a bit that floats have.
                product = root = multiply(k, root, factor)
            yield k.cast(product[0], self.part), k.cast(product[1], self.part)


__all__ = ["Block"]
