"""What a chain of operations makes of a product, as the epilogue of the product's own kernel."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from oxinp._core.lazy.chains import inputs
from oxinp._core.lazy.expr import cast
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._kernels.problem import Instr, Operand

if TYPE_CHECKING:
    from oxinp._core.lazy.expr import Graph
    from oxinp._kernels.gemm.epilogue import Epilogue
    from oxinp._ptx.types import Type


def epilogue_of(graph: Graph, place: int, type: Type, acc: Type) -> Epilogue | None:
    """Return what a graph makes of the sums of a product; None if that reads arrays across rows.

    Parameters
    ----------
    graph : Graph
    place : int
        Its leaf that is the product.
    type, acc : Type
        Of the product, to which sums are rounded first, and of the sums.
    """
    operands = inputs(graph)
    others = (*operands[:place], *operands[place + 1 :])
    if any(isinstance(x, Operand) and x.strides[-1] not in (0, 1) for x in others):
        return None
    instrs = []
    product, first = 0, 1 + len(others)
    if acc is not type:
        instrs.append(Instr(cast(acc.dtype, type.dtype), type, (0,)))
        product, first = first, first + 1
    numbers = [*range(1, place + 1), product, *range(place + 1, len(operands))]
    numbers += range(first, first + len(graph.nodes))
    instrs += [
        Instr(node.lower, DEVICE_TYPES[node.dtype], tuple(numbers[a] for a in node.args)) for node in graph.nodes
    ]
    module = importlib.import_module("oxinp._kernels.gemm.epilogue")
    made: Epilogue = module.Epilogue(others, tuple(instrs), numbers[graph.result])
    return made
