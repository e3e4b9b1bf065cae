"""Launches of chains whose kernels have been made for other sizes, by arithmetic, and what was measured of them."""

from __future__ import annotations

from functools import lru_cache
from itertools import product, starmap
from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp._kernels.choice import MIN_TUNED_NBYTES, Choice, Device, decide, unrolled, unrolling
from oxinp._kernels.elementwise import linear, tile
from oxinp._kernels.elementwise.access import (
    MAX_UNROLL,
    MAX_VECTOR,
    classify,
    nbytes_per_thread,
    unroll,
    vector_width,
)
from oxinp._kernels.elementwise.chain import MAX_GATHERED, STAGED
from oxinp._kernels.elementwise.linear import LinearSpec
from oxinp._kernels.elementwise.planner import MAX_KEPT, Planner
from oxinp._kernels.elementwise.staging import MAX_REPEATS, MAX_STATIC_SHARED, MIN_REPEATED, tile_units
from oxinp._kernels.elementwise.tile import TileSpec
from oxinp._kernels.nest import MAX_INDEX_32, Nest, magic
from oxinp._kernels.problem import MAX_KERNELS, Operand

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.plan import Again
    from oxinp._kernels.problem import Instr
    from oxinp._ptx import Kernel
    from oxinp._ptx.types import Type

MIN_FILL = 0.7  # share of the tiles' elements that have to be inside the problem


class _Alike(NamedTuple):
    """What `Elementwise.matrix_again` keeps of matrices whose elements move alike, whatever their pitches and extents.

    Attributes
    ----------
    tile, linear : Spec
        Between which the extents decide.
    num_kernels : int
        How many there were when the two were looked for.
    kernel : Kernel or None
        That of the tiles, if it has been made.
    extents : (int, int)
        Columns and rows of a tile.
    nbytes : (int, int, int, int)
        Bytes of what there is an element of at each place, in each row, in each column, and one of.
    plain : Kernel or None
        That without tiles, if it has been made.
    units : (int, int)
        Elements of a unit of that, and units of a block.
    is_row : bool
        The inputs are the same in each row: few long ones are computed by a kernel that this does not know.
    """

    tile: TileSpec
    linear: LinearSpec
    num_kernels: int
    kernel: Kernel | None
    extents: tuple[int, int]
    nbytes: tuple[int, int, int, int]
    plain: Kernel | None
    units: tuple[int, int]
    is_row: bool


class _Loops(NamedTuple):
    """What `Elementwise.matrix_again` keeps of matrices that lie alike, whatever their extents.

    Attributes
    ----------
    alike : _Alike
    values : tuple of int
        Constants before those of the extents.
    down, along : int
        The largest strides.
    whole : int
        Columns of which all matrices are a single loop; 0 where there are none.
    """

    alike: _Alike
    values: tuple[int, ...]
    down: int
    along: int
    whole: int


class KnownChains(Planner):
    """Instructions and the values that are written, and their launches where operands move as others did.

    Parameters are those of `plan.Elementwise`.
    """

    __slots__ = ("_lines", "_loops", "_matrices", "_met", "nbytes")

    def __init__(
        self, inputs: Sequence[tuple[Type, bool]], instrs: Sequence[Instr], outputs: Sequence[tuple[int, Type]]
    ) -> None:
        super().__init__(inputs, instrs, outputs)
        self.nbytes = sum(type_.nbytes for type_ in (*[t for _, t in self.outputs], *self.types))
        self._lines: dict[Any, tuple[LinearSpec, Kernel, tuple[Any, ...]]] = {}
        # By steps along rows, and by pitches, alignments and columns as far as accesses depend on them.
        self._matrices: dict[Any, _Alike] = {}
        # By strides, alignments, and columns beyond a multiple of the widest access.
        self._loops: dict[Any, _Loops] = {}
        # Strides and alignments -> up to which size they have a kernel, that, its constants before those of the size,
        # and the elements of a unit, and of a block's units.
        self._met: dict[Any, tuple[int, Kernel, tuple[int, ...], int, int]] = {}

    def plan_again(self, size: int, steps: tuple[int, ...], alignments: tuple[int, ...]) -> Again | None:
        """Return the launch of `plan_line` for operands that move like others before; None where that has to be asked.

        It holds for the sizes and strides of `_is_like_others`, among which a kernel depends on nothing but which
        strides are 0 and 1 in the direction of the first, and on alignments there.
        """
        known = self._met.get((steps, alignments))
        if known is not None:  # `flat_geometry`, spelled out
            most, kernel, values, vector, length = known
            if 1 < size <= most:
                num_units = size // vector
                grid = (-(-num_units // length) or 1, 1, 1)
                return kernel, grid, (*values, num_units, size - num_units * vector)
        if not self._is_like_others(size, steps):
            return None
        moved, last, key = self._line(size, steps, alignments)
        found = self._lines.get(key)
        if found is None:
            return None
        spec, kernel, moves = found
        grid, constants = linear.flat_geometry(spec, size)
        values = ()
        if last or 2 in key[0]:
            for (loops, is_shifted), step in zip(moves, moved, strict=True):
                if loops:
                    values += (step,)
                if is_shifted:
                    values += (-step * last,)
        if not last:
            farthest = max(*steps, -min(steps), 1)
            most = min((MIN_TUNED_NBYTES - 1) // self.nbytes, (MAX_INDEX_32 - 1) // farthest)
            if len(self._met) >= MAX_KEPT:
                self._met.clear()
            self._met[steps, alignments] = most, kernel, values, spec.vector, linear.BLOCK * spec.unroll
        return kernel, grid, (*values, *constants)

    def matrix_again(
        self, shape: tuple[int, int], steps: tuple[tuple[int, int], ...], alignments: tuple[int, ...], device: Device
    ) -> Again | None:
        """Return the launch of `plan` for matrices that are two loops, if its kernel has been made for other sizes.

        It is what `choose` comes to where lanes go along the rows of all operands, with 32-bit indices; None for
        others.

        Parameters
        ----------
        shape : (int, int)
        steps : tuple of (int, int)
            Strides of the outputs and the input arrays.
        alignments : tuple of int
        device : Device
        """
        num_rows, num_columns = shape
        loops = self._loops.get((steps, alignments, num_columns % MAX_VECTOR))
        if loops is None or loops.alike.num_kernels != len(self._kernels):
            loops = self._meet_loops(steps, alignments, num_columns)
        if loops is None or num_rows < 2 or num_columns < 2 or num_columns == loops.whole:
            return None
        if max(loops.down * num_rows + loops.along * num_columns, num_rows * num_columns) >= MAX_INDEX_32:
            return None
        alike, values = loops.alike, loops.values
        if alike.is_row and num_rows <= MAX_REPEATS and num_columns >= MIN_REPEATED:  # `repeated_loop`, spelled out
            return None
        width, height = alike.extents
        across, below = -(-num_columns // width), -(-num_rows // height)
        if num_columns / (across * width) * (num_rows / (below * height)) >= MIN_FILL:  # `fill`, spelled out
            kernel = alike.kernel
            if kernel is None:
                return None
            # `tile.geometry`, spelled out
            values = *values, num_columns, num_rows, across, *magic(across), below, *magic(below)
            return kernel, (across * below, 1, 1), values
        other: Any = alike.linear
        elements, rows, columns, others = alike.nbytes
        if num_rows * (elements * num_columns + rows) + columns * num_columns + others >= MIN_TUNED_NBYTES:
            other = measured(other, Nest(shape, steps, (0,) * len(steps)), device)
        kernel = alike.plain if other is alike.linear else self._kernels.get(other)
        if kernel is None:
            return None
        vector = other.vector  # `linear.geometry`, spelled out
        units, per_row = num_rows * num_columns // vector, num_columns // vector
        values = *values, units, num_rows * num_columns - units * vector, per_row, *magic(per_row)
        return kernel, (-(-units // (linear.BLOCK * other.unroll)) or 1, 1, 1), values

    def _meet_loops(
        self, steps: tuple[tuple[int, int], ...], alignments: tuple[int, ...], num_columns: int
    ) -> _Loops | None:
        """Return what `matrix_again` needs of matrices that lie like this, and keep it if their kernel is made."""
        down, along = steps[0]
        if self.wants_index or down <= along or num_columns < 2:
            return None
        key, values, wholes = [num_columns % MAX_VECTOR], [], set()
        farthest = widest = 0
        for down, along in steps:
            if down < 0 or not 0 <= along <= 1:
                return None
            key += (along, down % MAX_VECTOR or (down and MAX_VECTOR))
            if down or along:
                values.append(down)
                wholes.add(down if along else -down)
            farthest, widest = max(farthest, down), max(widest, along)
        kept = (*key, *alignments)
        alike = self._matrices.get(kept)
        if alike is None or alike.num_kernels != len(self._kernels):
            if len(self._matrices) >= MAX_KEPT:
                self._matrices.clear()
            alike = self._matrices[kept] = self._alike(Nest((2, num_columns), steps, (0,) * len(steps)), alignments)
        whole = wholes.pop() if len(wholes) == 1 else 0
        loops = _Loops(alike, tuple(values), farthest, widest, whole)
        if alike.kernel is not None or alike.plain is not None:
            if len(self._loops) >= MAX_KEPT:
                self._loops.clear()
            self._loops[steps, alignments, num_columns % MAX_VECTOR] = loops
        return loops

    def _alike(self, nest: Nest, alignments: tuple[int, ...]) -> _Alike:
        """Return what `matrix_again` needs of matrices that lie like two rows of some."""
        spec, other = self._specs_of_rows(nest, alignments)
        nbytes = [0, 0, 0, 0]
        for (down, along), type_ in zip(nest.strides, (*[t for _, t in self.outputs], *self.types), strict=True):
            nbytes[(not along) + 2 * (not down)] += type_.nbytes
        inputs = nest.strides[len(self.outputs) :]
        return _Alike(
            spec,
            other,
            len(self._kernels),
            self._kernels.get(spec),
            (spec.width, spec.height),
            (nbytes[0], nbytes[1], nbytes[2], nbytes[3]),
            self._kernels.get(other),
            (other.vector, linear.BLOCK * other.unroll),
            len(inputs) > 0 and not any(down for down, _ in inputs),
        )

    def _specs_of_rows(self, nest: Nest, alignments: tuple[int, ...]) -> tuple[TileSpec, LinearSpec]:
        """Return the Specs between which `choose` decides for two loops, the inner of which lanes go along."""
        types = (*[type_ for _, type_ in self.outputs], *self.types)
        operands = list(starmap(Operand, zip(types, nest.strides, alignments, strict=True)))
        chain = self.chain(classify(operands, nest), 2, 32)
        vector = vector_width(operands, nest, takes_rest=False)
        return (
            self.spec(TileSpec, chain, vector, tile_units(chain, vector), 1),
            self.spec(LinearSpec, chain, vector, unroll(chain, vector, nbytes_per_thread(chain))),
        )

    def _line(
        self, size: int, steps: tuple[int, ...], alignments: tuple[int, ...]
    ) -> tuple[tuple[int, ...], int, tuple[tuple[int, ...], tuple[int, ...], bool]]:
        """Strides in the direction of the first, the number of the element that this begins at, and what is alike."""
        last = 0
        if steps[0] < 0:  # as `collapse` reverses a loop
            last = size - 1
            types = [*[type_ for _, type_ in self.outputs], *self.types]
            offsets = [step * last * type_.nbytes for step, type_ in zip(steps, types, strict=True)]
            alignments = tuple([min(a, x & -x) if x else a for a, x in zip(alignments, offsets, strict=True)])
            steps = tuple([-step for step in steps])
        return steps, last, (kinds_of(steps), tuple(map(_ACCESSED.__getitem__, alignments)), last > 0)

    def _is_like_others(self, size: int, steps: tuple[int, ...]) -> bool:
        """Whether a problem of one dimension is a single loop, with 32-bit indices and no measured Spec."""
        return (
            1 < size < MAX_INDEX_32
            and steps[0] != 0
            and size * self.nbytes < MIN_TUNED_NBYTES
            and not self.wants_index
            and max(*steps, -min(steps)) * (size - 1) < MAX_INDEX_32
        )


_ACCESSED = {1 << i: min(1 << i, 16) for i in range(9)}
"""What alignments come to where no access takes more than 16 bytes; none is more than 256."""


def kinds_of(steps: tuple[int, ...]) -> tuple[int, ...]:
    """What of strides along one loop decides on a kernel: whether they are 0, 1 or anything else."""
    return tuple([step if 0 <= step <= 1 else 2 for step in steps])


class Extents(NamedTuple):
    """The shape of a tile with transposed inputs; see `TileSpec`."""

    units: int
    rows: int


def measured(spec: LinearSpec | TileSpec, nest: Nest, device: Device) -> LinearSpec | TileSpec:
    """The Spec, with the sizes that were measured to be best near this problem."""
    chain = spec.chain
    key = chain.kinds
    if isinstance(spec, LinearSpec):
        chosen: LinearSpec = unrolled(spec, _asked(spec), (nest.size,), device)
        return chosen
    staged = [operand for operand in chain.inputs if operand.kind in STAGED]
    if not staged:
        return spec

    def is_legal(extents: Extents) -> bool:
        units, rows = extents
        if units not in {1, 2, 4, 8} or rows not in {4, 8, 16}:
            return False
        nbytes = sum(tile.shared_nbytes(tile.WARP * units, tile.NUM_WARPS * rows, x.type) for x in staged)
        return nbytes <= MAX_STATIC_SHARED and units * rows * chain.words <= MAX_GATHERED

    def candidates() -> list[Extents]:
        return [default, *filter(is_legal, starmap(Extents, product((1, 2, 4, 8), (4, 8, 16))))]

    default = Extents(spec.units, spec.rows)
    choice = Choice("transpose/tile", key, (), nest.shape[-2:], Extents, is_legal, lambda: default, candidates)
    answer = decide(choice, device)
    return spec if answer == default else spec.replace(**answer._asdict())


@lru_cache(MAX_KERNELS)
def _asked(spec: LinearSpec) -> Choice:
    """The choice that a Spec leaves, but for the size."""
    chain = spec.chain
    most = min(MAX_UNROLL, max(spec.unroll, MAX_GATHERED // (spec.vector * max(1, chain.words))))
    layout = (f"{chain.ndim} loops", f"{spec.vector} elements")
    return unrolling(spec, "elementwise/linear", chain.kinds, layout, most)


__all__ = ["MIN_FILL", "Extents", "KnownChains", "kinds_of", "measured"]
