"""Plans of elementwise problems: which kernel family computes which layout, and its Spec.

Fused chains, fills, aranges, copies, casts, transposed copies, slices and stencils are all one thing: operands with
strides over one shape, and instructions between them.
"""

from __future__ import annotations

from itertools import product, starmap
from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp._kernels.choice import MIN_TUNED_NBYTES, Choice, Device, decide, unrolled
from oxinp._kernels.elementwise import linear, tile
from oxinp._kernels.elementwise.access import (
    MAX_INDEX_32,
    MAX_UNROLL,
    MAX_VECTOR,
    classify,
    contiguous_strides,
    index_bits,
    nbytes_per_thread,
    unroll,
    vector_width,
)
from oxinp._kernels.elementwise.chain import MAX_GATHERED, STAGED
from oxinp._kernels.elementwise.linear import LinearSpec
from oxinp._kernels.elementwise.planner import MAX_KEPT, Planner
from oxinp._kernels.elementwise.staging import (
    MAX_STATIC_SHARED,
    fill,
    longest_loop,
    repeated_loop,
    tile_units,
    transposed_loop,
    with_outermost,
    with_rows,
    with_transposed,
)
from oxinp._kernels.elementwise.tile import TileSpec
from oxinp._kernels.nest import Nest, collapse, shifted_alignment
from oxinp._kernels.plan import Launch, Plan, Work
from oxinp._kernels.plan import inputs as inputs_of
from oxinp._kernels.plan import outputs as outputs_of
from oxinp._kernels.problem import Instr, Operand, Output, ScalarOperand, touched_nbytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.plan import Again
    from oxinp._ptx import Kernel
    from oxinp._ptx.types import Type


MIN_FILL = 0.7  # share of the tiles' elements that have to be inside the problem


class Elementwise(Planner):
    """Instructions and the values that are written, to be planned for any shape and any layouts.

    Sizes, strides and grids are arithmetic of each call; Specs and kernels are kept by how operands move, so that a
    shape that is new finds those of the shapes before it.

    Parameters
    ----------
    inputs : sequence of (Type, bool)
        Of every input, and whether it is an array.
    instrs : sequence of Instr
        May be empty: outputs then copy inputs.
    outputs : sequence of (int, Type)
        Numbers and types of the values that are written.
    """

    __slots__ = ("_lines", "_matrices", "_met", "arguments", "nbytes")

    def __init__(
        self, inputs: Sequence[tuple[Type, bool]], instrs: Sequence[Instr], outputs: Sequence[tuple[int, Type]]
    ) -> None:
        super().__init__(inputs, instrs, outputs)
        self.arguments = (*outputs_of(len(self.outputs)), *inputs_of(len(self.inputs)))
        self.nbytes = sum(type_.nbytes for type_ in (*[t for _, t in self.outputs], *self.types))
        self._lines: dict[Any, tuple[LinearSpec, Kernel, tuple[Any, ...]]] = {}
        # How the elements of matrices lie -> the Spec of tiles, and that without, where it was asked for.
        self._matrices: dict[Any, tuple[TileSpec, LinearSpec]] = {}
        # Strides and alignments -> up to which size they have a kernel, that, its constants before those of the size,
        # and the elements of a unit, and of a block's units.
        self._met: dict[Any, tuple[int, Kernel, tuple[int, ...], int, int]] = {}

    def plan(self, shape: tuple[int, ...], operands: Sequence[Operand], device: Device) -> Plan:
        """Return the plan for operands, the outputs before the input arrays, over a shape."""
        if 0 in shape:
            return Plan(())
        family, spec, nest, nbytes = self._chosen(shape, operands, device)
        grid, constants = family.geometry(spec, nest)
        return Plan((Launch(self.kernel(family, spec), grid, self.arguments, constants, Work(0, nbytes)),))

    def plan_known(self, shape: tuple[int, ...], operands: Sequence[Operand], device: Device) -> Again | None:
        """Return the launch of `plan` if its kernel has been made for other sizes: it takes arithmetic alone."""
        if 0 in shape:
            return None
        family, spec, nest, _ = self._chosen(shape, operands, device)
        kernel = self.known_kernel(family, spec)
        return None if kernel is None else (kernel, *family.geometry(spec, nest))

    def _chosen(
        self, shape: tuple[int, ...], operands: Sequence[Operand], device: Device
    ) -> tuple[Any, LinearSpec | TileSpec, Nest, int]:
        """The family's module, the Spec that is run, the nest, and the bytes that are touched."""
        family, spec, nest = self.choose(shape, operands)
        nbytes = touched_nbytes(shape, operands)
        if nbytes >= MIN_TUNED_NBYTES:
            spec = _measured(spec, nest, device)
            if isinstance(spec, LinearSpec):
                spec = linear.fetching(spec, device)
        return family, spec, nest, nbytes

    def plan_line(self, size: int, steps: tuple[int, ...], alignments: tuple[int, ...], device: Device) -> Plan:
        """Return the plan for operands of one dimension of `size` elements, the outputs' strides first."""
        types = [*[type_ for _, type_ in self.outputs], *self.types]
        again = self.plan_again(size, steps, alignments)
        if again is not None:
            kernel, grid, constants = again
            touched = [type_.nbytes * (size if step else 1) for type_, step in zip(types, steps, strict=True)]
            return Plan((Launch(kernel, grid, self.arguments, constants, Work(0, sum(touched))),))
        operands = list(starmap(Operand, zip(types, [(step,) for step in steps], alignments, strict=True)))
        plan = self.plan((size,), operands, device)
        if self._is_like_others(size, steps):
            _, chosen, _ = self.choose((size,), operands)
            assert isinstance(chosen, LinearSpec)
            if len(self._lines) >= MAX_KEPT:
                self._lines.clear()
                self._met.clear()
            _, _, key = self._line(size, steps, alignments)
            self._lines[key] = chosen, plan.launch.kernel, chosen.chain.moves
        return plan

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

    def line_known(
        self, size: int, steps: tuple[int, ...], alignments: tuple[int, ...], device: Device
    ) -> Again | None:
        """Return the launch of `plan_line` for so many elements that its Spec is measured, if it has a kernel."""
        if size * self.nbytes < MIN_TUNED_NBYTES:
            return None  # whose plan `plan_again` is to know of
        types = [*[type_ for _, type_ in self.outputs], *self.types]
        operands = list(starmap(Operand, zip(types, [(step,) for step in steps], alignments, strict=True)))
        return self.plan_known((size,), operands, device)

    def matrix_again(
        self, shape: tuple[int, int], steps: tuple[tuple[int, int], ...], alignments: tuple[int, ...]
    ) -> Again | None:
        """Return the launch of `plan` for matrices that are two loops, if its kernel has been made for other sizes.

        It is what `choose` comes to where lanes go along the rows of all operands, with 32-bit indices and no measured
        Spec; None for others.

        Parameters
        ----------
        shape : (int, int)
        steps : tuple of (int, int)
            Strides of the outputs and the input arrays.
        alignments : tuple of int
        """
        num_rows, num_columns = shape
        down, along = steps[0]
        if self.wants_index or num_rows < 2 or num_columns < 2 or down <= along:
            return None
        nbytes, farthest, place = 0, 0, -len(self.outputs)
        key: list[int] = [num_columns % MAX_VECTOR]
        is_repeated = is_one = True
        for down, along in steps:
            if down < 0 or not 0 <= along <= 1:
                return None
            farthest = max(farthest, down * num_rows + along * num_columns)
            is_one = is_one and down == along * num_columns
            is_repeated = is_repeated and (place < 0 or not down)
            key += (along, down % MAX_VECTOR or (down and MAX_VECTOR))
            place += 1
        for (down, along), type_ in zip(steps, (*[type_ for _, type_ in self.outputs], *self.types), strict=True):
            nbytes += type_.nbytes * (num_rows if down else 1) * (num_columns if along else 1)
        if is_one or is_repeated or nbytes >= MIN_TUNED_NBYTES or max(farthest, num_rows * num_columns) >= MAX_INDEX_32:
            return None
        nest = Nest(shape, steps, (0,) * len(steps))
        found = self._matrices.get((*key, *alignments))
        if found is None:
            if len(self._matrices) >= MAX_KEPT:
                self._matrices.clear()
            found = self._matrices[(*key, *alignments)] = self._specs_of_rows(nest, alignments)
        spec: TileSpec | LinearSpec
        spec, other = found
        family: Any = tile
        if fill(num_columns, spec.width) * fill(num_rows, spec.height) < MIN_FILL:
            family, spec = linear, other
        kernel = self._kernels.get(spec)
        return None if kernel is None else (kernel, *family.geometry(spec, nest))

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
        return steps, last, (_kinds(steps), alignments, last > 0)

    def _is_like_others(self, size: int, steps: tuple[int, ...]) -> bool:
        """Whether a problem of one dimension is a single loop, with 32-bit indices and no measured Spec."""
        return (
            1 < size < MAX_INDEX_32
            and steps[0] != 0
            and size * self.nbytes < MIN_TUNED_NBYTES
            and not self.wants_index
            and max(*steps, -min(steps)) * (size - 1) < MAX_INDEX_32
        )

    def _choose_in_line(self, nest: Nest, operands: Sequence[Operand]) -> LinearSpec:
        """Return the Spec of a nest of one loop, which depends on sizes through the width of indices alone."""
        kinds = _kinds(tuple([steps[0] for steps in nest.strides]))
        alignments = [shifted_alignment(x, shift) for x, shift in zip(operands, nest.shifts, strict=False)]
        key = (kinds, tuple([shift != 0 for shift in nest.shifts]), *alignments, index_bits(nest))
        spec = self._specs.get(key)
        if spec is None:
            chain = self.chain(classify(operands, nest), 1, index_bits(nest))
            vector = vector_width(operands, nest, takes_rest=True)
            spec = self.spec(LinearSpec, chain, vector, unroll(chain, vector, nbytes_per_thread(chain)))
            self._specs[key] = spec
        assert isinstance(spec, LinearSpec)
        return spec

    def choose(self, shape: tuple[int, ...], operands: Sequence[Operand]) -> tuple[Any, LinearSpec | TileSpec, Nest]:
        """Return the family's module, the Spec, and the nest of the operands."""
        strides = [operand.strides for operand in operands]
        if self.wants_index:
            strides.append(contiguous_strides(shape))
        nest = collapse(shape, strides)
        if len(nest.shape) == 1:
            line = self._choose_in_line(nest, operands)
            return linear, line, nest
        specs = classify(operands, nest)
        loop = transposed_loop(operands, nest, len(self.outputs))
        if loop is not None:
            tiled = with_rows(nest, loop)
            specs, units, rows = with_transposed(specs, tiled, len(self.outputs))
            chain = self.chain(specs, len(nest.shape), index_bits(nest))
            return tile, self.spec(TileSpec, chain, 1, units, rows), tiled
        repeated = None if self.wants_index else repeated_loop(nest, len(self.outputs))
        if repeated is not None:
            nest = with_outermost(nest, repeated)
            specs = classify(operands, nest)
        chain = self.chain(specs, len(nest.shape), index_bits(nest))
        vector = vector_width(operands, nest, takes_rest=False)
        if repeated is not None:
            in_flight = unroll(chain, vector, nbytes_per_thread(chain))
            return linear, self.spec(LinearSpec, chain, vector, in_flight, True), nest
        tiled = with_rows(nest, longest_loop(nest))
        spec = self.spec(TileSpec, chain, vector, tile_units(chain, vector), 1)
        if fill(nest.shape[-1], spec.width) * fill(tiled.shape[-2], spec.height) >= MIN_FILL:
            return tile, spec, tiled
        spec = self.spec(LinearSpec, chain, vector, unroll(chain, vector, nbytes_per_thread(chain)))
        return linear, spec, nest


def _kinds(steps: tuple[int, ...]) -> tuple[int, ...]:
    """What of strides along one loop decides on a kernel: whether they are 0, 1 or anything else."""
    return tuple([step if 0 <= step <= 1 else 2 for step in steps])


def plan(
    shape: tuple[int, ...],
    inputs: Sequence[Operand | ScalarOperand],
    instrs: Sequence[Instr],
    outputs: Sequence[Output],
    device: Device,
) -> Plan:
    """Return the launch that computes `outputs` over `shape`.

    Parameters
    ----------
    shape : tuple of int
        Of every operand; broadcast ones have strides of 0. With no elements there is no launch.
    inputs : sequence of Operand or ScalarOperand
    instrs : sequence of Instr
        May be empty: outputs then copy inputs.
    outputs : sequence of Output
        The first decides the order of traversal. None may overlap an input, unless both are read and written at the
        same index only.
    device : Device

    Returns
    -------
    Plan
        One launch; its arguments are the outputs, then the inputs.
    """
    return _of(inputs, instrs, outputs).plan(shape, _operands(inputs, outputs), device)


def _of(inputs: Sequence[Operand | ScalarOperand], instrs: Sequence[Instr], outputs: Sequence[Output]) -> Elementwise:
    return Elementwise(
        [(x.type, isinstance(x, Operand)) for x in inputs],
        instrs,
        [(output.value, output.operand.type) for output in outputs],
    )


def _operands(inputs: Sequence[Operand | ScalarOperand], outputs: Sequence[Output]) -> list[Operand]:
    return [output.operand for output in outputs] + [x for x in inputs if isinstance(x, Operand)]


class Extents(NamedTuple):
    """The shape of a tile with transposed inputs; see `TileSpec`."""

    units: int
    rows: int


def _measured(spec: LinearSpec | TileSpec, nest: Nest, device: Device) -> LinearSpec | TileSpec:
    """The Spec, with the sizes that were measured to be best near this problem."""
    chain = spec.chain
    key = chain.kinds
    if isinstance(spec, LinearSpec):
        most = min(MAX_UNROLL, max(spec.unroll, MAX_GATHERED // (spec.vector * max(1, chain.words))))
        layout = (f"{chain.ndim} loops", f"{spec.vector} elements")
        measured: LinearSpec = unrolled(spec, "elementwise/linear", key, layout, (nest.size,), most, device)
        return measured
    staged = [operand for operand in chain.inputs if operand.kind in STAGED]
    if not staged:
        return spec

    def is_legal(extents: Extents) -> bool:
        units, rows = extents
        if units not in {1, 2, 4, 8} or rows not in {4, 8, 16}:
            return False
        nbytes = sum(tile.shared_nbytes(tile.WARP * units, tile.NUM_WARPS * rows, x.type) for x in staged)
        return nbytes <= MAX_STATIC_SHARED and units * rows * chain.words <= MAX_GATHERED

    default = Extents(spec.units, spec.rows)
    candidates = [default, *filter(is_legal, starmap(Extents, product((1, 2, 4, 8), (4, 8, 16))))]
    choice = Choice("transpose/tile", key, (), nest.shape[-2:], Extents, is_legal, lambda: default, lambda: candidates)
    answer = decide(choice, device)
    return spec if answer == default else spec.replace(**answer._asdict())


def choose(
    shape: tuple[int, ...],
    inputs: Sequence[Operand | ScalarOperand],
    instrs: Sequence[Instr],
    outputs: Sequence[Output],
) -> tuple[Any, LinearSpec | TileSpec, Nest]:
    """Return the family's module, the Spec, and the nest of the operands."""
    return _of(inputs, instrs, outputs).choose(shape, _operands(inputs, outputs))
