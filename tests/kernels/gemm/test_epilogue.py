"""Epilogues: what products become before they are written, with every way their inputs move, held against NumPy."""

from types import SimpleNamespace

import numpy as np
import pytest

from oxinp._kernels.gemm import select
from oxinp._kernels.gemm.epilogue import Epilogue, scaled, subtracted
from oxinp._kernels.gemm.operand import Matrices
from oxinp._kernels.gemm.variant import Variant
from oxinp._kernels.problem import Instr, Operand, ScalarOperand
from oxinp._ptx.types import c64, f16, f32, f64, i32, i64
from tests.kernels.machine import execute, machine

DEVICE = SimpleNamespace(num_sms=2, cc=(8, 6), max_shared_nbytes=99 * 1024, tuned=lambda _: None)
SHAPE, DEPTH = (70, 45), 300  # deep enough for split-K, were there no epilogue


def draw(type_, *shape):
    """Random elements, of any size for integers."""
    rng, dtype = np.random.default_rng(sum(shape)), type_.dtype
    if dtype.kind == "i":
        return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype)
    values = rng.standard_normal(shape)
    return (values + 1j * rng.standard_normal(shape) if dtype.kind == "c" else values).astype(dtype)


def add(_, x, y):
    return x + y


def maximum(k, x, y):
    return k.max_nan(x, y)


def to_double(k, x):
    return k.cast(x, f64)


def halved(_, x):
    return x * 0.5


def finished(type_, a, b, epilogue, arrays, out=None, scalars=(), c=None, acc=None):
    """Return what the planned kernel stores; arrays are the epilogue's, in order, `c` the result's memory before."""
    here, out = machine(), out or type_
    shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
    c = np.full(shape, 0, out.dtype) if c is None else c
    matrices = [
        Matrices(type_, tuple(s // x.itemsize for s in np.broadcast_to(x, (*shape[:-2], *x.shape[-2:])).strides), 4)
        for x in (a, b)
    ]
    plan = select.plan(shape, a.shape[-1], *matrices, acc or type_, out, DEVICE, Variant(epilogue=epilogue))
    assert len(plan.steps) == 1
    held = [here.upload(x) for x in (c, a, b)]
    more = [held[0] if x is None else here.upload(x) for x in arrays]
    execute(here, plan, held[:1], [*held[1:], *scalars, *more])
    result = here.download(held[0], c.nbytes).view(c.dtype).reshape(shape)
    for address in dict.fromkeys([*held, *more]):
        here.free(address)
    return result


def test_alpha_and_beta():
    a, b, c = draw(f64, SHAPE[0], DEPTH), draw(f64, DEPTH, SHAPE[1]), draw(f64, *SHAPE)
    found = finished(f64, a, b, scaled(f64, (SHAPE[1], 1)), [None], scalars=(2.0, -3.0), c=c)
    np.testing.assert_allclose(found, 2 * (a @ b) - 3 * c, rtol=1e-12, atol=1e-12)


def test_c_is_not_read_without_beta():
    a, b = draw(f32, SHAPE[0], DEPTH), draw(f32, DEPTH, SHAPE[1])
    c = np.full(SHAPE, np.nan, "f4")
    found = finished(f32, a, b, scaled(f32), [], scalars=(0.5,), c=c)
    np.testing.assert_allclose(found, 0.5 * (a @ b), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("strides", [(0, 1), (1, 0), (0, 0), (90, 2)], ids=["row", "column", "single", "strided"])
def test_bias_and_activation(strides):
    a, b = draw(f32, SHAPE[0], DEPTH), draw(f32, DEPTH, SHAPE[1])
    held = draw(f32, SHAPE[0], 90)
    bias = np.lib.stride_tricks.as_strided(held, SHAPE, [4 * stride for stride in strides])
    instrs = (Instr(add, f32, (0, 1)), Instr(maximum, f32, (3, 2)))
    epilogue = Epilogue((Operand(f32, strides), ScalarOperand(f32)), instrs, 4)
    here = machine()
    plan = select.plan(
        SHAPE, DEPTH, Matrices(f32, (DEPTH, 1), 4), Matrices(f32, (SHAPE[1], 1), 4), f32, f32, DEVICE,
        Variant(epilogue=epilogue),
    )  # fmt: skip
    c = np.empty(SHAPE, "f4")
    addresses = [here.upload(x) for x in (c, a, b, held)]
    execute(here, plan, addresses[:1], [*addresses[1:], 1.5])
    found = here.download(addresses[0], c.nbytes).view("f4").reshape(SHAPE)
    np.testing.assert_allclose(found, np.maximum(a @ b + bias, np.float32(1.5)), rtol=1e-4, atol=1e-4)
    for address in addresses:
        here.free(address)


def test_batches_with_an_operand_for_all_and_one_for_each():
    a, b = draw(i64, 3, 2, 20, 30), draw(i64, 30, 25)
    each, common = draw(i64, 3, 2, 20, 25), draw(i64, 3, 25)
    instrs = (Instr(add, i64, (0, 1)), Instr(add, i64, (3, 2)))
    epilogue = Epilogue((Operand(i64, (1000, 500, 25, 1)), Operand(i64, (25, 0, 0, 1))), instrs, 4)
    found = finished(i64, a, b, epilogue, [each, common])
    np.testing.assert_array_equal(found, a @ b + each + common[:, None, None])


def test_epilogues_see_16_bit_results_before_they_are_rounded():
    a, b = draw(f16, 40, 64), draw(f16, 64, 33)
    instrs = (Instr(to_double, f64, (0,)), Instr(halved, f64, (1,)))
    found = finished(f16, a, b, Epilogue((), instrs, 2), [], acc=f32, out=f32)
    np.testing.assert_allclose(found, a.astype("f8") @ b.astype("f8") / 2, rtol=1e-5, atol=1e-5)


def test_complex_and_subtracted():
    a, b, c = draw(c64, *SHAPE[:1], 40), draw(c64, 40, SHAPE[1]), draw(c64, *SHAPE)
    found = finished(c64, a, b, subtracted(c64, (SHAPE[1], 1)), [None], c=c)
    np.testing.assert_allclose(found, c - a @ b, rtol=1e-4, atol=1e-4)


def test_integers_wrap_around():
    a, b = draw(i32, 33, 20), draw(i32, 20, 40)
    with np.errstate(over="ignore"):
        found = finished(i32, a, b, scaled(i32), [], scalars=(3,))
        np.testing.assert_array_equal(found, a @ b * np.int32(3))
