"""The plan of divide and conquer: how matrices are torn, and the launches that put their eigenvectors together."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.gemm import select
from oxinp._kernels.gemm.operand import Matrices
from oxinp._kernels.gemm.variant import Variant
from oxinp._kernels.lapack import jacobi
from oxinp._kernels.lapack.divide import (
    LEAF,
    PREPARE,
    ROOTS,
    ROTATE,
    SPLIT,
    VECTORS,
    WEIGHTS,
    DivideSpec,
    make,
    most_rows,
)
from oxinp._kernels.lapack.secular import BLOCK, NUM_WARPS
from oxinp._kernels.plan import Argument, Fill, Launch, Plan, Scratch
from oxinp._ptx.types import Type

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device
    from oxinp._kernels.plan import Step


class Tree(NamedTuple):
    """How matrices are torn: `leaf` rows, doubled `levels` times, are as many as they have, or a few more."""

    leaf: int
    levels: int

    @property
    def padded(self) -> int:
        """Rows, with those that are added."""
        return self.leaf << self.levels


def tree(order: int, leaf: int = LEAF) -> Tree:
    """Return how matrices of an order are torn."""
    levels = max(0, math.ceil(math.log2(order / leaf)))
    return Tree(-(-order // (1 << levels)), levels)


def plan(type: Type, count: int, order: int, device: Device, leaf: int = LEAF) -> Plan:
    """Return the launches of the spectrum of tridiagonal matrices.

    Outputs are the values, ascending, and the vectors, (count, padded) and (count, padded, padded) with what
    `tree` says: those of the matrices in front; inputs are the diagonals and what lies beside them, (count, order).
    """
    shape, scratch = tree(order, leaf), Scratch()
    padded, nbytes = shape.padded, type.nbytes
    total = count * padded
    held = [scratch.take(total * padded * nbytes) for _ in range(3 if shape.levels else 1)]
    d, e = Argument("in0"), Argument("in1")
    values = [scratch.take(total * nbytes) for _ in range(2)]
    poles, weights, exact, shifts, rho = (scratch.take(total * nbytes) for _ in range(5))
    turns, places = scratch.take(2 * total * nbytes), scratch.take(2 * total * 4)
    sources, origins, counts = (scratch.take(2 * total * 4) for _ in range(3))
    status = scratch.take(16)
    at = {
        "leaves": held[0], "d": d, "e": e, "poles": poles, "z": weights, "weights": weights, "exact": exact,
        "shifts": shifts, "origins": origins, "sources": sources, "counts": counts, "turns": turns, "places": places,
        "rho": rho, "s": held[-1],
    }  # fmt: skip

    def launch(spec: DivideSpec, blocks: int, constants: tuple[int, ...], **others: Argument) -> Launch:
        kernel = make(spec)
        names = [param.name for param in kernel.params if param.is_pointer]
        arguments = tuple({**at, **others}[name] for name in names)
        return Launch(kernel, (blocks, 1, 1), arguments, constants)

    vectors, spare = (held[1], held[0]) if shape.levels else (Argument("out1"), held[0])
    values_in, values_out = values if shape.levels else (Argument("out0"), values[0])
    steps: list[Step] = [launch(DivideSpec(type, SPLIT), count, (order, padded, shape.leaf))]
    size = shape.leaf
    problem = jacobi.Problem(
        type, jacobi.EIGEN, total // size, size, size, (size, 1, size * size), (size, 1, size * size)
    )
    side = problem.side(device)
    assert side is not None
    steps += [Fill(status, 8, 0xFF), Fill(status.at(8), 8, 0)]
    arguments = {"a": held[0], "values": values_in, "left": vectors, "status": status}
    steps.append(jacobi.launch(problem, side, arguments))
    for level in range(shape.levels):
        size *= 2
        merges = total // size
        is_last = level + 1 == shape.levels
        steps.append(
            launch(
                DivideSpec(type, PREPARE, max(size, 2 * LEAF)), merges, (size, padded, order, padded // size),
                d=values_in, q=vectors,
            )
        )  # fmt: skip
        blocks = merges * -(-size // NUM_WARPS)
        steps += [
            Fill(held[2], total * size * nbytes, 0),
            launch(DivideSpec(type, ROOTS), blocks, (size,)),
            launch(DivideSpec(type, WEIGHTS), blocks, (size,)),
            launch(
                DivideSpec(type, VECTORS), blocks, (size,), z=exact,
                values=Argument("out0") if is_last else values_out,
            ),
            launch(DivideSpec(type, ROTATE), merges * -(-size // BLOCK), (size,)),
        ]  # fmt: skip
        target = Argument("out1") if is_last else spare
        product = _product(type, merges, size, device)
        more = scratch.take(product.scratch_nbytes)
        steps += product.on(out0=target, in0=vectors, in1=held[2], scratch=more)
        vectors, spare = target, vectors
        values_in, values_out = values_out, values_in
    return scratch.plan(steps)


def _product(type: Type, merges: int, size: int, device: Device) -> Plan:
    """Return the products of the vectors of two nodes, one block above the other, with the transpose of S."""
    half = size // 2
    left = Matrices(type, (2 * half * half, half * half, half, 1), math.gcd(256, half * half * type.nbytes))
    right = Matrices(type, (size * size, half, 1, size), math.gcd(256, half * type.nbytes))
    product = select.plan((merges, 2, half, size), half, left, right, type, type, device, Variant())
    assert product is not None
    return product


__all__ = ["Tree", "most_rows", "plan", "tree"]
