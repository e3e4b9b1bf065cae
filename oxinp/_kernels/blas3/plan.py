"""Plans of level-3 BLAS with matrices of which a triangle counts: syrk, herk and trsm.

syrk and herk are products of the multistage kernels, which skip tiles that are not wanted. trsm is recursive: blocks on
the diagonal by substitution, the updates between them by products, so that nearly all of the work is in products.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.blas3 import trsm, trsm_dmma
from oxinp._kernels.gemm import select
from oxinp._kernels.gemm.operand import HERMITIAN, SYMMETRIC, Form, Matrices
from oxinp._kernels.gemm.variant import Variant
from oxinp._kernels.plan import Argument, Plan
from oxinp._ptx.types import f64

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device
    from oxinp._kernels.gemm.epilogue import Epilogue
    from oxinp._kernels.plan import Step


def plan_rank_k(
    shape: tuple[int, ...],
    depth: int,
    a: Matrices,
    device: Device,
    *,
    is_lower: bool,
    is_hermitian: bool = False,
    is_mirrored: bool = False,
    epilogue: Epilogue | None = None,
    c_strides: tuple[int, ...] | None = None,
) -> Plan:
    """Return the plan of one triangle of A A^T (syrk), or of A A^H (herk).

    Parameters
    ----------
    shape : tuple of int
        Of C: the batch, and twice the rows of A.
    depth : int
        Columns of A.
    a : Matrices
        The first input; those of the epilogue come behind it.
    device : Device
    is_lower : bool
        Which triangle is computed, diagonal included.
    is_hermitian : bool
        The second factor is conjugated, and the diagonal real.
    is_mirrored : bool
        The other triangle is stored too, as the mirror image; else nothing is stored there.
    epilogue : Epilogue, optional
    c_strides : tuple of int, optional
        Of C, in elements, the last one 1; in C order unless given.
    """
    *batch, rows, columns = a.strides
    transpose = Matrices(a.type, (*batch, columns, rows), a.alignment)
    variant = Variant(
        is_b_conjugated=is_hermitian and a.type.is_complex,
        c_form=Form(HERMITIAN if is_hermitian else SYMMETRIC, is_lower),
        is_mirrored_out=is_mirrored,
        epilogue=epilogue,
        c_strides=c_strides,
    )
    product = select.plan(shape, depth, a, transpose, a.type, a.type, device, variant)
    assert product is not None
    others = epilogue.inputs if epilogue is not None else ()
    places = {f"in{2 + i}": Argument(f"in{1 + i}") for i in range(len(others))}
    return Plan(product.on(in1=Argument("in0"), **places))


class TriangularSystem(NamedTuple):
    """A X = B, or X A = B, with A triangular; X overwrites B.

    Attributes
    ----------
    shape : tuple of int
        Of X: rows, columns; at least 1 each.
    a : Matrices
        Square; only the strides of rows and columns are used.
    form : Form
        Triangular.
    is_left : bool
        Whether A is the left factor.
    pitch : int
        Elements from one row of X to the next.
    alignment : int
        Of X's pointer.
    num_systems : int
        Batch of systems, and distances of their matrices in elements.
    a_move, x_move : int
    """

    shape: tuple[int, int]
    a: Matrices
    form: Form
    is_left: bool
    pitch: int
    alignment: int
    num_systems: int = 1
    a_move: int = 0
    x_move: int = 0

    @property
    def order(self) -> int:
        """Rows and columns of A."""
        return self.shape[0] if self.is_left else self.shape[1]


def plan_solve(system: TriangularSystem, device: Device) -> Plan:
    """Return the plan that solves a triangular system (trsm): the input is A, the output B, which X overwrites."""
    steps: list[Step] = []
    _solve(system, 0, system.order, device, steps)
    return Plan(tuple(steps))


def _solve(system: TriangularSystem, low: int, high: int, device: Device, steps: list[Step]) -> None:
    """Append the steps that solve for the block of X that belongs to rows `low` to `high` of A."""
    length = trsm.length(system.a.type)
    if high - low <= length:
        steps += _solve_diagonal(system, low, high, device)
        return
    # The same number of blocks on either side, the first side no shorter.
    middle = low + -(-(high - low) // (2 * length)) * length
    # Rows of a lower matrix, and columns of an upper one, depend on those before them.
    blocks = [(low, middle), (middle, high)]
    known, rest = blocks if system.is_left == system.form.is_lower else blocks[::-1]
    _solve(system, *known, device, steps)
    steps += _update(system, known, rest, device)
    _solve(system, *rest, device, steps)


def _update(
    system: TriangularSystem, known: tuple[int, int], rest: tuple[int, int], device: Device
) -> tuple[Step, ...]:
    """Subtract the products with the known part of X from the rest of B."""
    a, type = system.a, system.a.type
    batch = (system.num_systems,) if system.num_systems > 1 else ()
    a_batch, x_batch = ((system.a_move,), (system.x_move,)) if batch else ((), ())
    line, place = a.strides[-2:]
    row, column = (rest[0], known[0]) if system.is_left else (known[0], rest[0])
    a_offset = (row * line + column * place) * type.nbytes
    block = Matrices(type, (*a_batch, line, place), _aligned(a.alignment, a_offset))
    along = system.pitch if system.is_left else 1
    offsets = [part[0] * along * type.nbytes for part in (rest, known)]
    x = Matrices(type, (*x_batch, system.pitch, 1), _aligned(system.alignment, offsets[1]))
    height, width = rest[1] - rest[0], system.shape[1] if system.is_left else system.shape[0]
    shape = (*batch, *((height, width) if system.is_left else (width, height)))
    is_conjugated = system.form.is_conjugated and type.is_complex
    strides = (*x_batch, system.pitch, 1)
    variant = Variant(is_conjugated, False) if system.is_left else Variant(False, is_conjugated)
    factors = (block, x) if system.is_left else (x, block)
    c = Matrices(type, strides, _aligned(system.alignment, offsets[0]))
    plan = select.plan_update(shape, known[1] - known[0], *factors, c, device, variant)
    target, source, matrix = Argument("out0", offsets[0]), Argument("out0", offsets[1]), Argument("in0", a_offset)
    left, right = (matrix, source) if system.is_left else (source, matrix)
    return plan.on(out0=target, in0=left, in1=right, in2=target)


def _solve_diagonal(system: TriangularSystem, low: int, high: int, device: Device) -> tuple[Step, ...]:
    """Solve for a block of X by substitution, as if A were lower triangular and on the left."""
    rows, columns = system.a.strides[-2:]
    along, across = system.pitch, 1
    if not system.is_left:
        rows, columns, along, across = columns, rows, across, along
    is_forward = system.is_left == system.form.is_lower
    first, sign = (low, 1) if is_forward else (high - 1, -1)
    shape = (high - low, system.shape[1] if system.is_left else system.shape[0])
    strides, batch = (sign * rows, sign * columns), (system.num_systems, system.a_move, system.x_move)
    form = system.form
    if system.a.type is f64 and system.is_left and trsm_dmma.is_possible(device):
        has_unit_diagonal = form.has_unit_diagonal
        plan = trsm_dmma.plan(shape, strides, sign * along, batch, device, has_unit_diagonal=has_unit_diagonal)
    else:
        spec = trsm.TrsmSpec(system.a.type, form.has_unit_diagonal, form.is_conjugated, not system.is_left)
        plan = trsm.plan(spec, shape, strides, (sign * along, across), batch)
    nbytes = system.a.type.nbytes
    offsets = first * sum(system.a.strides[-2:]) * nbytes, first * along * nbytes
    return plan.on(out0=Argument("out0", offsets[1]), in0=Argument("in0", offsets[0]))


def _aligned(alignment: int, offset: int) -> int:
    """Alignment of a pointer that is moved by `offset` bytes."""
    return math.gcd(alignment, offset) if offset else alignment


def transposed(matrices: Matrices, form: Form, *, is_conjugated: bool = False) -> tuple[Matrices, Form]:
    """Return the transpose, or conjugate transpose, of a matrix of some form."""
    *batch, rows, columns = matrices.strides
    transpose = Matrices(matrices.type, (*batch, columns, rows), matrices.alignment)
    is_flipped = is_conjugated and matrices.type.is_complex
    return transpose, form._replace(is_lower=not form.is_lower, is_conjugated=form.is_conjugated != is_flipped)


__all__ = ["TriangularSystem", "plan_rank_k", "plan_solve", "transposed"]
