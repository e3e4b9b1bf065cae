"""Products and solutions with matrices of which one triangle counts: BLAS's syrk, herk, symm, hemm, trmm and trsm.

Products are `matmul`'s, with forms: tiles that are not wanted, or are all zeros, are not computed. A system is solved
by halves: blocks on the diagonal by `trsm`, and what they have to do with the others by products, so that
nearly all of the work is that of products.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.blas3 import symmetrize, trsm
from oxinp._kernels.gemm import select
from oxinp._kernels.gemm.epilogue import subtracted
from oxinp._kernels.gemm.multistage.panel import GENERAL, HERMITIAN, SYMMETRIC, TRIANGULAR, WHOLE, Form
from oxinp._kernels.gemm.operand import Matrices, contiguous
from oxinp._kernels.gemm.sm90_mma import plan as sm90_mma
from oxinp._kernels.gemm.variant import Variant
from oxinp._kernels.plan import ALIGNMENT, Argument, Plan, Scratch

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device
    from oxinp._kernels.gemm.epilogue import Finish
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
    finish: Finish | None = None,
    c_strides: tuple[int, ...] | None = None,
) -> Plan:
    """Return the launch that makes one triangle of A A^T (syrk), or of A A^H (herk).

    Parameters
    ----------
    shape : tuple of int
        Of C: the batch, and twice the rows of A.
    depth : int
        Columns of A.
    a : Matrices
        The input; those of the finish come behind it.
    device : Device
    is_lower : bool
        Which triangle, diagonal included.
    is_hermitian : bool
        The second factor is conjugated, and the diagonal real.
    is_mirrored : bool
        The other triangle is written too, as the mirror image; else nothing is written there.
    finish : Finish, optional
        What becomes of the sums.
    c_strides : tuple of int, optional
        Of C, in elements, the last one 1; in C order unless given.
    """
    *batch, rows, columns = a.strides
    turned = Matrices(a.type, (*batch, columns, rows), a.alignment)
    variant = Variant(
        b_form=Form(GENERAL, is_conjugated=is_hermitian and a.type.is_complex),
        c_form=Form(HERMITIAN if is_hermitian else SYMMETRIC, is_lower),
        is_mirrored_out=is_mirrored,
        finish=finish,
        c_strides=c_strides,
    )
    product = select.plan(shape, depth, a, turned, a.type, a.type, device, variant)
    assert product is not None
    others = finish.inputs if finish is not None else ()
    places = {f"in{2 + i}": Argument(f"in{1 + i}") for i in range(len(others))}
    return Plan(product.on(in1=Argument("in0"), **places))


def plan_product(
    shape: tuple[int, ...],
    square: Matrices,
    form: Form,
    other: Matrices,
    device: Device,
    *,
    is_left: bool = True,
    finish: Finish | None = None,
) -> Plan:
    """Return the launch of the product of a symmetric, Hermitian (symm, hemm) or triangular (trmm) matrix with another.

    Parameters
    ----------
    shape : tuple of int
        Of C and the other: the batch, rows, columns.
    square : Matrices
        The matrix of that form, and `other` what it is multiplied with.
    device : Device
    is_left : bool
        Whether it is the left factor. Inputs are in the order of the factors, then the finish's.
    finish : Finish, optional
        What becomes of the sums.
    """
    depth = shape[-2] if is_left else shape[-1]
    factors = (square, other) if is_left else (other, square)
    variant = Variant(a_form=form, finish=finish) if is_left else Variant(b_form=form, finish=finish)
    product = select.plan(shape, depth, *factors, square.type, square.type, device, variant)
    assert product is not None
    return product


def plan_by_whole(
    shape: tuple[int, ...],
    square: Matrices,
    form: Form,
    other: Matrices,
    device: Device,
    setting: str,
    workspace_nbytes: int,
    *,
    is_left: bool = True,
) -> Plan:
    """Return the launches of `plan_product` by way of the whole matrix, for which `matmul` may have faster units.

    A triangular matrix is only made whole for faster units that take any: its zeros would have guarded ones leave the
    work to those of its own type, which have half of it where the form is known.

    Parameters
    ----------
    shape, square, form, other, device, is_left
        As for `plan_product`.
    setting, workspace_nbytes
        As for `select.plan_steps`.
    """
    order, type_ = shape[-2] if is_left else shape[-1], square.type
    whole_shape = (*shape[:-2], order, order)
    matrices = Matrices(type_, contiguous(whole_shape), ALIGNMENT)
    factors = (matrices, other) if is_left else (other, matrices)
    plan = select.plan_steps(shape, order, *factors, type_, device, setting, workspace_nbytes)
    is_faster = plan is not None and not plan.is_guarded and (type_ not in sm90_mma.TILINGS or setting == "tf32")
    if form.kind == TRIANGULAR and not is_faster:
        return plan_product(shape, square, form, other, device, is_left=is_left)
    if plan is None:
        plan = select.plan(shape, order, *factors, type_, type_, device)
        assert plan is not None
    scratch, name = Scratch(), "in0" if is_left else "in1"
    whole = scratch.take(math.prod(whole_shape) * type_.nbytes)
    expanded = symmetrize.plan(whole_shape, square, form, device).on(out0=whole, in0=Argument(name))
    more = scratch.take(plan.scratch_nbytes)
    return scratch.plan((*expanded, *plan.on(**{name: whole, "scratch": more})))


class System(NamedTuple):
    """A X = B, or X A = B, with A triangular, of which X takes the place of B.

    Attributes
    ----------
    shape : tuple of int
        Of X: rows, columns; at least 1 each.
    a : Matrices
        Square; of its strides those of rows and columns count.
    form : Form
        Triangular.
    is_left : bool
        Whether A is the left factor.
    pitch : int
        Elements from one row of X to the next.
    alignment : int
        Of X's pointer.
    num_systems : int
        How many of such there are, and how far apart in elements their matrices are.
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


def plan_solve(system: System, device: Device) -> Plan:
    """Return the launches that solve a triangular system (trsm): the input is A, the output B that becomes X."""
    steps: list[Step] = []
    _solve(system, 0, system.order, device, steps)
    return Plan(tuple(steps))


def _solve(system: System, low: int, high: int, device: Device, steps: list[Step]) -> None:
    """Append what solves for the block of X that belongs to rows `low` to `high` of A."""
    length = trsm.length(system.a.type)
    if high - low <= length:
        steps += _substituted(system, low, high)
        return
    # As many blocks on either side, the first one no shorter.
    middle = low + -(-(high - low) // (2 * length)) * length
    # Rows of a lower matrix, columns of an upper one, need what comes before them.
    blocks = [(low, middle), (middle, high)]
    known, rest = blocks if system.is_left == system.form.is_lower else blocks[::-1]
    _solve(system, *known, device, steps)
    steps += _reduced(system, known, rest, device)
    _solve(system, *rest, device, steps)


def _reduced(system: System, known: tuple[int, int], rest: tuple[int, int], device: Device) -> tuple[Step, ...]:
    """Take the products with the part of X that is known off the rest."""
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
    conjugated = Form(GENERAL, is_conjugated=system.form.is_conjugated and type.is_complex)
    strides = (*x_batch, system.pitch, 1)
    forms = (conjugated, WHOLE) if system.is_left else (WHOLE, conjugated)
    variant = Variant(*forms, finish=subtracted(type, strides), c_strides=strides)
    factors = (block, x) if system.is_left else (x, block)
    plan = select.plan(shape, known[1] - known[0], *factors, type, type, device, variant)
    assert plan is not None
    target, source, matrix = Argument("out0", offsets[0]), Argument("out0", offsets[1]), Argument("in0", a_offset)
    left, right = (matrix, source) if system.is_left else (source, matrix)
    return plan.on(out0=target, in0=left, in1=right, in2=target)


def _substituted(system: System, low: int, high: int) -> tuple[Step, ...]:
    """Solve with a block on the diagonal: always as if it were lower and on the left."""
    rows, columns = system.a.strides[-2:]
    along, across = system.pitch, 1
    if not system.is_left:
        rows, columns, along, across = columns, rows, across, along
    is_forward = system.is_left == system.form.is_lower
    first, sign = (low, 1) if is_forward else (high - 1, -1)
    spec = trsm.SubstitutionSpec(
        system.a.type, system.form.has_unit_diagonal, system.form.is_conjugated, not system.is_left
    )
    plan = trsm.plan(
        spec,
        (high - low, system.shape[1] if system.is_left else system.shape[0]),
        (sign * rows, sign * columns),
        (sign * along, across),
        (system.num_systems, system.a_move, system.x_move),
    )
    nbytes = system.a.type.nbytes
    offsets = first * sum(system.a.strides[-2:]) * nbytes, first * along * nbytes
    return plan.on(out0=Argument("out0", offsets[1]), in0=Argument("in0", offsets[0]))


def _aligned(alignment: int, offset: int) -> int:
    """Alignment of a pointer moved by some bytes."""
    return math.gcd(alignment, offset) if offset else alignment


def transposed(matrices: Matrices, form: Form, *, is_conjugated: bool = False) -> tuple[Matrices, Form]:
    """Return the transpose, or conjugate transpose, of matrices of a form."""
    *batch, rows, columns = matrices.strides
    turned = Matrices(matrices.type, (*batch, columns, rows), matrices.alignment)
    is_flipped = is_conjugated and matrices.type.is_complex
    return turned, form._replace(is_lower=not form.is_lower, is_conjugated=form.is_conjugated != is_flipped)


__all__ = ["System", "plan_by_whole", "plan_product", "plan_rank_k", "plan_solve", "transposed"]
