"""Random problems for the planners of factorisations as programs of kernels ask for them: of any layout and memory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from oxinp._kernels import workspace
from oxinp._kernels.choice import Choice
from oxinp._kernels.gemm.operand import Matrices
from oxinp._kernels.lapack import (
    banded_cholesky,
    conquer,
    exponential,
    hessenberg,
    inner_products,
    ldl,
    pivoted,
    spectrum,
    symmetric,
)
from oxinp._kernels.lapack import plan as lapack
from oxinp._kernels.lapack.diagonal import STATUS_NBYTES
from oxinp._kernels.lapack.jacobi import EIGEN, SINGULAR
from oxinp._kernels.plan import ALIGNMENT, Plan
from oxinp._kernels.problem import Operand
from oxinp._ptx.types import Type, c64, c128, f32, f64, u32
from tests.fuzz import planning
from tests.fuzz.operand import matrices_of, perform, reach_of, type_of
from tests.fuzz.problem import Problem

ORDERS = (
    1, 2, 3, 4, 5, 8, 16, 17, 31, 32, 33, 48, 64, 65, 100, 127, 128, 129, 200, 256, 300, 512, 513, 700, 1024,
    1500, 2048, 2500, 4096, 4500, 6000, 8192, 10000,
)  # fmt: skip
MODES = ("reduced", "complete", "r", "raw")


ROWS, COLUMNS, APART, SLICES = "rows", "columns", "apart", "slices"  # how matrices lie


class _Case(NamedTuple):
    """Matrices that a planner has a way of its own for; of systems `m` are the columns of the right-hand sides."""

    planner: str
    type: Type
    m: int
    n: int
    batch: tuple[int, ...] = ()
    lie: str = ROWS
    mode: str = "reduced"
    is_short: bool = False
    has_vectors: bool = True


CASES = (
    _Case("cholesky", f32, 1, 4500, is_short=True),
    _Case("cholesky", f32, 1, 4500),
    _Case("cholesky", f32, 1, 300, (3,)),
    _Case("cholesky", f32, 1, 300),
    _Case("cholesky", f64, 1, 300, (3,)),
    _Case("cholesky", c64, 1, 9000),
    _Case("cholesky", f64, 1, 1500),
    _Case("cholesky", f64, 1, 1500, lie=COLUMNS),
    _Case("cholesky", f64, 1, 5000),
    _Case("cholesky", f64, 1, 513, lie=SLICES),
    _Case("cholesky", f64, 1, 64),
    _Case("cholesky", f64, 1, 20),
    _Case("cholesky", c128, 1, 48, lie=COLUMNS),
    _Case("cholesky", c64, 1, 31, lie=COLUMNS),
    _Case("cholesky", c128, 1, 4, (1,)),
    _Case("cholesky", c128, 1, 20, (2, 3), lie=APART),
    _Case("invert", f64, 1, 20),
    _Case("invert", f64, 1, 20, lie=COLUMNS),
    _Case("invert", c64, 1, 20),
    _Case("invert", c64, 1, 32),
    _Case("invert", f64, 1, 300),
    _Case("invert", f64, 1, 300, (3,)),
    _Case("solve", f64, 1, 100),
    _Case("solve", f64, 40, 300, is_short=True),
    _Case("solve", c64, 5, 300, (3,), is_short=True),
    _Case("solve", c128, 2, 300),
    _Case("solve", c128, 300, 64, (3,)),
    _Case("solve", c128, 48, 64, lie=COLUMNS, is_short=True),
    _Case("solve", f64, 3, 16, (100,), lie=COLUMNS, is_short=True),
    _Case("solve", f64, 3, 2, lie=COLUMNS),
    _Case("solve", f32, 2, 7000),
    _Case("solve", f32, 1, 8200),
    _Case("solve", f64, 1, 1500),
    _Case("solve", f64, 5, 8192),
    _Case("lu", f32, 10_000, 10_000),
    _Case("lu", f64, 3000, 3000),
    _Case("slogdet", c128, 1, 8192, is_short=True),
    _Case("ldl", f64, 1, 10_000, mode="hermitian"),
    _Case("ldl", c128, 1, 300, mode="hermitian"),
    _Case("ldl", c128, 1, 300, mode="symmetric"),
    *[_Case("pivoted", f64, 300, 100, mode=mode) for mode in MODES],
    _Case("pivoted", c128, 200, 300),
    _Case("qr", c128, 127, 16, mode="raw"),
    _Case("qr", f64, 4500, 4500, mode="r"),
    _Case("qr", c128, 3_000_000, 2),
    _Case("eigh", f32, 1, 8, (1, 3), has_vectors=False),
    _Case("eigh", f32, 1, 8, (2, 3), lie=APART),
    _Case("svd", c128, 32, 32),
    _Case("svd", f64, 8, 20),
    _Case("symmetric", c128, 1, 8000),
    _Case("symmetric", f64, 1, 100, (100,)),
    _Case("symmetric", f32, 1, 32, (3,)),
    _Case("eigh", f64, 1, 300, has_vectors=False),
    _Case("symmetric", c128, 1, 512, (3,)),
)


class _Factorised:
    """Matrices that are factored: their sizes, a device, and what each planner makes of them.

    Each method returns a plan and the bytes of its outputs and its inputs.
    """

    def __init__(self, p: Problem, device: Any) -> None:
        self.p, self.device, self.type = p, device, type_of(p, ("f4", "f8", "c8", "c16"))
        largest = p.choice((5, 33, 130, 700, 3000, 10_000))
        least = p.choice((1, largest // 8))
        self.m, self.n = (p.choice([each for each in ORDERS if least <= each <= largest]) for _ in range(2))
        self.batch = p.choice(((), (), (1,), (3,), (2, 3), (100,)) if largest <= 700 else ((), (), (3,)))
        self.mode, self.has_vectors, self.lie = p.choice(MODES), p.chance(50), ""

    @property
    def count(self) -> int:
        """How many matrices there are."""
        return math.prod(self.batch)

    def names(self) -> tuple[str, ...]:
        """Return the planners that take these."""
        found = ["cholesky", "solve", "invert", "lu", "slogdet", "qr"]
        for name, what, shape in (("eigh", EIGEN, (self.n, self.n)), ("svd", SINGULAR, (self.m, self.n))):
            whole = (*self.batch, *shape)
            if spectrum.is_possible(self.type, whole, what, self.device, has_vectors=self.has_vectors):
                found.append(name)
        if symmetric.is_possible(self.type, self.count, self.n, self.device):
            found.append("symmetric")
        if not self.batch:
            found.append("ldl")
            found += ["pivoted"] * pivoted.is_possible(self.type, (self.m, self.n), self.device)
        return tuple(found)

    def become(self, case: _Case) -> None:
        """Take the matrices of a case."""
        _, self.type, self.m, self.n, self.batch, self.lie, self.mode, _, self.has_vectors = case

    def operand(self, *shape: int) -> tuple[Operand, int]:
        """Return an operand, of any layout unless a case has one, and its bytes."""
        matrices = matrices_of(self.p, self.type, (*self.batch, *shape)) if not self.lie else self._lying(shape)
        reach = reach_of((*self.batch, *shape), matrices.strides)
        return Operand(self.type, matrices.strides, matrices.alignment), reach * self.type.nbytes

    def _lying(self, shape: tuple[int, ...]) -> Matrices:
        rows, columns = shape
        pitch = columns + 7 * (self.lie == SLICES)
        own = (1, rows) if self.lie == COLUMNS else (pitch, 1)
        moves, move = [], rows * pitch
        for n in reversed(self.batch):
            moves.insert(0, move)
            move = (n + (self.lie == APART)) * move
        return Matrices(self.type, (*moves, *own), self.type.parts[0].nbytes if self.lie == SLICES else ALIGNMENT)

    def nbytes(self, *shape: int, type: Type | None = None) -> int:
        """Return the bytes of as many arrays of a shape as there are matrices."""
        return self.count * math.prod(shape) * (type or self.type).nbytes

    def plan(self, name: str) -> tuple[Plan, list[int], list[int]]:
        made: tuple[Plan, list[int], list[int]] = getattr(self, name)()
        return made

    def _of_square(self, planner: Any, *outputs: int) -> tuple[Plan, list[int], list[int]]:
        a, held = self.operand(self.n, self.n)
        return planner((*self.batch, self.n, self.n), a, self.device), list(outputs), [held]

    def cholesky(self) -> Any:
        return self._of_square(lapack.plan_cholesky, self.nbytes(self.n, self.n), STATUS_NBYTES)

    def invert(self) -> Any:
        return self._of_square(lapack.plan_invert, self.nbytes(self.n, self.n), STATUS_NBYTES)

    def slogdet(self) -> Any:
        return self._of_square(lapack.plan_slogdet, self.nbytes(), self.nbytes(type=self.type.parts[0]))

    def solve(self) -> Any:
        (a, held), (b, others) = self.operand(self.n, self.n), self.operand(self.n, self.m)
        plan = lapack.plan_solve((*self.batch, self.n, self.m), a, b, self.device)
        return plan, [self.nbytes(self.n, self.m), STATUS_NBYTES], [held, others]

    def lu(self) -> Any:
        a, held = self.operand(self.m, self.n)
        pivots, places = self.nbytes(min(self.m, self.n), type=u32), self.nbytes(self.m, type=u32)
        plan = lapack.plan_lu((*self.batch, self.m, self.n), a, self.device)
        return plan, [self.nbytes(self.m, self.n), pivots, places, STATUS_NBYTES], [held]

    def qr(self) -> Any:
        a, held = self.operand(self.m, self.n)
        return lapack.plan_qr((*self.batch, self.m, self.n), a, self.device, self.mode), self._factors(), [held]

    def _factors(self) -> list[int]:
        """Return the bytes of what QR leaves."""
        depth = min(self.m, self.n)
        if self.mode == "raw":
            return [self.nbytes(self.m, self.n), self.nbytes(depth)]
        height = self.m if self.mode == "complete" else depth
        r = self.nbytes(height, self.n)
        return [r] if self.mode == "r" else [self.nbytes(self.m, height), r]

    def pivoted(self) -> Any:
        a, held = self.operand(self.m, self.n)
        factors = [self.nbytes(self.m, self.n)] if self.mode == "r" else self._factors()
        plan = pivoted.plan((self.m, self.n), a, self.device, self.mode)
        return plan, [self.nbytes(self.n, type=u32), *factors], [held]

    def ldl(self) -> Any:
        a, held = self.operand(self.n, self.n)
        problem = ldl.Problem(self.n, is_hermitian=self.mode in ("hermitian", "r"), is_reversed=self.p.chance(50))
        outputs = [self.nbytes(self.n, self.n), self.nbytes(self.n), self.nbytes(self.n), self.nbytes(self.n, type=u32)]
        return ldl.plan(problem, a, self.device), outputs, [held]

    def _spectrum(self, planner: Any, *status: int) -> Any:
        a, held = self.operand(self.n, self.n)
        plan = planner((*self.batch, self.n, self.n), a, self.device, has_vectors=self.has_vectors)
        vectors = [self.nbytes(self.n, self.n)] if self.has_vectors else []
        return plan, [self.nbytes(self.n, type=self.type.parts[0]), *vectors, *status], [held]

    def eigh(self) -> Any:
        return self._spectrum(spectrum.plan_eigh, 2 * STATUS_NBYTES)

    def symmetric(self) -> Any:
        return self._spectrum(symmetric.plan, 2 * STATUS_NBYTES)

    def svd(self) -> Any:
        a, held = self.operand(self.m, self.n)
        plan = spectrum.plan_svd((*self.batch, self.m, self.n), a, self.device, has_vectors=self.has_vectors)
        depth = min(self.m, self.n)
        values, status = self.nbytes(depth, type=self.type.parts[0]), 2 * STATUS_NBYTES
        if not self.has_vectors:
            return plan, [values, status], [held]
        return plan, [self.nbytes(self.m, depth), values, self.nbytes(depth, self.n), status], [held]


def _looking_ahead(choice: Choice) -> Mapping[str, Any] | None:
    """Answer that block columns of LU are factored beside the update before them."""
    return {"width": 256, "group": 128, "looks_ahead": True} if choice.family == "lu/outer" else None


def strided_factorisations(p: Problem) -> Any:
    """Factorisations of matrices of any layout, some where memory is short."""
    capability, is_short = planning.backend().capability, p.chance(35)
    made = _Factorised(p, workspace.Sparing(capability) if is_short else capability)
    _factorise(p, made, p.choice(made.names()), is_short=is_short)


def seldom_factorisations(p: Problem) -> Any:
    """One of the cases after the other, with few answers of what is fastest, as some have many products."""
    case, capability = p.in_turn(CASES), planning.backend().capability.replace(tuned=_looking_ahead)
    made = _Factorised(p, workspace.Sparing(capability) if case.is_short else capability)
    made.become(case)
    if case.planner in made.names():
        _factorise(p, made, case.planner, is_short=case.is_short)


def _factorise(p: Problem, made: _Factorised, name: str, *, is_short: bool) -> None:
    p.text = f"{name} {made.type} {made.batch} {made.m} {made.n} {made.lie} {made.mode} {made.has_vectors} {is_short}"
    plan, outputs, inputs = made.plan(name)
    if is_short:
        plan = workspace.compacted(plan, outputs)
    perform(plan, *outputs, *inputs, num_outputs=len(outputs))


def many_bands(p: Problem) -> Any:
    """Cholesky factors of many bands."""
    type_, band = type_of(p, ("f4", "f8", "c8", "c16")), p.choice((0, 1, 2, 4, 7))
    count, order = p.choice((1, 33, 5000, 100_003)), p.choice((1, 3, 40, 1000))
    p.text = f"{type_} {band} {count} {order}"
    if banded_cholesky.is_possible(type_, band):
        nbytes = count * (band + 1) * order * type_.nbytes
        plan = banded_cholesky.plan(
            banded_cholesky.BandedCholeskySpec(type_, band, p.chance(50)), count, order, Plan(())
        )
        perform(plan, nbytes, nbytes)


def tall_inner_products(p: Problem) -> Any:
    """Inner products of few columns of many rows."""
    rows, columns = p.choice((1, 100, 5000, 3_000_001)), p.integer(1, inner_products.MOST_COLUMNS)
    others, device = p.integer(1, inner_products.MOST_OTHERS), planning.backend().capability
    p.text = f"{rows} {columns} {others}"
    plan = inner_products.plan(rows, columns, others, device)
    nbytes = inner_products.spec_of(columns, device).size * f64.nbytes
    perform(plan, nbytes, rows * columns * f64.nbytes, rows * others * f64.nbytes)


def matrix_functions(p: Problem) -> Any:
    """Exponentials, Hessenberg matrices and spectra of tridiagonal ones."""
    device, type_ = planning.backend().capability, type_of(p, ("f4", "f8", "c8", "c16"))
    order, count = p.choice((2, 3, 5, 16, 33, 64, 130, 300, 1000)), p.choice((1, 1, 3, 40))
    settings = p.choice(("auto", "native", "tf32")), p.choice((0, 1 << 28))
    way = p.choice(("powers", "polynomial", "hessenberg", "tridiagonal"))
    p.text = f"{way} {type_} {count} {order} {settings}"
    shape, nbytes = (count, order, order), count * order * order * type_.nbytes
    if way == "powers":
        plan = exponential.plan_powers(shape, type_, device, settings)
        perform(plan, nbytes, nbytes, nbytes, 4 * f64.nbytes, nbytes, num_outputs=4)
    elif way == "polynomial":
        plan = exponential.plan_polynomial(shape, type_, device, p.integer(0, 5), p.integer(0, 5), settings)
        perform(plan, nbytes, *[nbytes] * 4)
    elif way == "hessenberg" and hessenberg.is_possible(type_, order, device):
        hessenberg.plan_reduce(order, Operand(type_, p.choice(((order, 1), (1, order))), type_.nbytes), device)
    elif way == "tridiagonal":
        real, padded = type_.parts[0], conquer.tree(order).padded
        plan = conquer.plan(real, count, order, device)
        sizes = [count * n * real.nbytes for n in (padded, padded * padded, order, order)]
        perform(plan, *sizes, num_outputs=2)
