"""Problems with triangular and symmetric matrices: random operands in memory, planned and run, beside what is right."""

import math

import numpy as np

from oxinp._kernels.blas3 import plan as blas3
from oxinp._kernels.blas3.plan import TriangularSystem
from oxinp._kernels.gemm.multistage import grouped as grouped_kernel
from oxinp._kernels.gemm.multistage.grouped import Group, GroupedProblem
from oxinp._kernels.gemm.operand import GENERAL, HERMITIAN, SYMMETRIC, TRIANGULAR, Form, Matrices
from oxinp._ptx.types import from_dtype
from tests.kernels.machine import execute

PAD = 3  # elements behind each row


def draw(rng, dtype, *shape):
    """Random elements."""
    values = rng.standard_normal(shape)
    return (values + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else values).astype(dtype)


def full(array, form):
    """The matrix that a stored one means."""
    keep, diagonal = (np.tril if form.is_lower else np.triu), np.eye(array.shape[-1], dtype=array.dtype)
    if form.kind == TRIANGULAR:
        result = keep(array)
        if form.has_unit_diagonal:
            result = keep(array, -1 if form.is_lower else 1) + diagonal
    elif form.kind == GENERAL:
        result = array
    else:
        half = keep(array, -1 if form.is_lower else 1)
        image = half.swapaxes(-1, -2)
        middle = array * diagonal
        if form.kind == HERMITIAN:
            image, middle = image.conj(), middle.real
        result = half + image + middle
    return result.conj() if form.is_conjugated else result


class Placed:
    """An array on a machine, rows padded with NaN, or stored column by column."""

    def __init__(self, machine, array, *, is_column_major=False):
        self.machine, self.shape, self.is_column_major = machine, array.shape, is_column_major
        stored = array.swapaxes(-1, -2) if is_column_major else array
        self.stored = np.full((*stored.shape[:-1], stored.shape[-1] + PAD), np.nan, array.dtype)
        self.stored[..., : stored.shape[-1]] = stored
        self.address = machine.upload(self.stored)

    @property
    def matrices(self):
        strides = [step // self.stored.itemsize for step in self.stored.strides]
        if self.is_column_major:
            strides[-2:] = strides[:-3:-1]
        dtype = self.stored.dtype
        return Matrices(from_dtype(dtype), tuple(strides), dtype.itemsize)

    def read(self):
        """What lies there now; rows have to end in NaN still."""
        found = self.machine.download(self.address, self.stored.nbytes).view(self.stored.dtype)
        found = found.reshape(self.stored.shape)
        assert np.isnan(found[..., -PAD:]).all(), "written beside the matrix"
        found = found[..., :-PAD]
        return found.swapaxes(-1, -2) if self.is_column_major else found

    def close(self):
        self.machine.free(self.address)


def rank_k(machine, device, a, *, is_column_major=False, epilogue=None, extras=(), **options):
    """C of a product with its own transpose; NaN where nothing was written."""
    placed = Placed(machine, a, is_column_major=is_column_major)
    shape = (*a.shape[:-1], a.shape[-2])
    c = np.full(shape, np.nan, a.dtype)
    address = machine.upload(c)
    plan = blas3.plan_rank_k(shape, a.shape[-1], placed.matrices, device, epilogue=epilogue, **options)
    execute(machine, plan, [address], [placed.address, *extras])
    result = machine.download(address, c.nbytes).view(c.dtype).reshape(shape)
    placed.close()
    machine.free(address)
    return result


def solution(machine, device, a, b, form, *, is_left=True, is_column_major=False):
    """X of a triangular system."""
    placed, x = Placed(machine, a, is_column_major=is_column_major), Placed(machine, b)
    matrices, own = placed.matrices, x.matrices
    batch = math.prod(b.shape[:-2])
    moves = (matrices.strides[0], own.strides[0]) if batch > 1 else (0, 0)
    system = TriangularSystem(b.shape[-2:], matrices, form, is_left, own.strides[-2], own.alignment, batch, *moves)
    plan = blas3.plan_solve(system, device)
    execute(machine, plan, [x.address], [placed.address])
    result = x.read()
    placed.close()
    x.close()
    return result


def grouped(machine, device, pairs):
    """Products of pairs of C order matrices of one type, made by one launch."""
    type_ = from_dtype(pairs[0][0].dtype)
    held, problems = [], []
    for a, b in pairs:
        shape = a.shape[0], b.shape[1]
        addresses = [machine.upload(x) for x in (np.full(shape, np.nan, a.dtype), a, b)]
        problems.append(GroupedProblem(*addresses, (*shape, a.shape[1]), (shape[1], a.shape[1], shape[1])))
        held += addresses
    plan, table = grouped_kernel.plan(Group(type_, type_, type_), problems, device)
    held.append(machine.upload(table))
    execute(machine, plan, inputs=held[-1:])
    results = [
        machine.download(problem.c, a.itemsize * problem.shape[0] * problem.shape[1]).view(a.dtype)
        for problem, (a, _) in zip(problems, pairs, strict=True)
    ]
    for address in held:
        machine.free(address)
    return [x.reshape(problem.shape[:2]) for x, problem in zip(results, problems, strict=True)]


__all__ = [
    "GENERAL",
    "HERMITIAN",
    "SYMMETRIC",
    "TRIANGULAR",
    "Form",
    "draw",
    "full",
    "grouped",
    "rank_k",
    "solution",
]
