"""Plans of elementwise problems: which kernel family computes which layout, and its Spec.

Fused chains, fills, aranges, copies, casts, transposed copies, slices and stencils are all one thing: operands with
strides over one shape, and instructions between them.
"""

from __future__ import annotations

from itertools import starmap
from typing import TYPE_CHECKING, Any

from oxinp._kernels.choice import MIN_TUNED_NBYTES, Device
from oxinp._kernels.elementwise import linear, tile
from oxinp._kernels.elementwise.access import (
    classify,
    contiguous_strides,
    index_bits,
    nbytes_per_thread,
    unroll,
    vector_width,
)
from oxinp._kernels.elementwise.known import MIN_FILL, KnownChains, kinds_of, measured
from oxinp._kernels.elementwise.linear import LinearSpec
from oxinp._kernels.elementwise.planner import MAX_KEPT
from oxinp._kernels.elementwise.staging import (
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
    from oxinp._ptx.types import Type


class Elementwise(KnownChains):
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

    __slots__ = ("arguments",)

    def __init__(
        self, inputs: Sequence[tuple[Type, bool]], instrs: Sequence[Instr], outputs: Sequence[tuple[int, Type]]
    ) -> None:
        super().__init__(inputs, instrs, outputs)
        self.arguments = (*outputs_of(len(self.outputs)), *inputs_of(len(self.inputs)))

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

    def line_known(
        self, size: int, steps: tuple[int, ...], alignments: tuple[int, ...], device: Device
    ) -> Again | None:
        """Return the launch of `plan_line` for so many elements that its Spec is measured, if it has a kernel."""
        if size * self.nbytes < MIN_TUNED_NBYTES:
            return None  # whose plan `plan_again` is to know of
        types = [*[type_ for _, type_ in self.outputs], *self.types]
        operands = list(starmap(Operand, zip(types, [(step,) for step in steps], alignments, strict=True)))
        return self.plan_known((size,), operands, device)

    def _chosen(
        self, shape: tuple[int, ...], operands: Sequence[Operand], device: Device
    ) -> tuple[Any, LinearSpec | TileSpec, Nest, int]:
        """The family's module, the Spec that is run, the nest, and the bytes that are touched."""
        family, spec, nest = self.choose(shape, operands)
        nbytes = touched_nbytes(shape, operands)
        if nbytes >= MIN_TUNED_NBYTES:
            spec = measured(spec, nest, device)
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

    def _choose_in_line(self, nest: Nest, operands: Sequence[Operand]) -> LinearSpec:
        """Return the Spec of a nest of one loop, which depends on sizes through the width of indices alone."""
        kinds = kinds_of(tuple([steps[0] for steps in nest.strides]))
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


def choose(
    shape: tuple[int, ...],
    inputs: Sequence[Operand | ScalarOperand],
    instrs: Sequence[Instr],
    outputs: Sequence[Output],
) -> tuple[Any, LinearSpec | TileSpec, Nest]:
    """Return the family's module, the Spec, and the nest of the operands."""
    return _of(inputs, instrs, outputs).choose(shape, _operands(inputs, outputs))
