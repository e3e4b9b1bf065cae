"""Transforms, a chain of what they give and an array, and transforms back, as passes that become one in the middle."""

from types import SimpleNamespace

import numpy as np
import pytest

from oxinp._kernels.fft.axes import COMPLEX, HALF, REAL, Array, Problem
from oxinp._kernels.fft.codelets import multiply
from oxinp._kernels.fft.filters import Filter, is_filter, plan_filter
from oxinp._kernels.fft.sides import Chained
from oxinp._kernels.plan import Argument
from oxinp._kernels.problem import Instr
from oxinp._ptx.kernel import traced_with
from oxinp._ptx.types import c64, c128, from_dtype
from tests.kernels.machine import Session, machine

DEVICE = SimpleNamespace(num_sms=2, cc=(8, 0), max_shared_nbytes=96 * 1024, tuned=lambda _: None)
SMALL = SimpleNamespace(num_sms=2, cc=(8, 0), max_shared_nbytes=8 * 1024, tuned=lambda _: None)
TINY = SimpleNamespace(num_sms=2, cc=(8, 0), max_shared_nbytes=3 * 1024, tuned=lambda _: None)
ROUNDINGS = {"F": 4e-7, "D": 1e-15}  # of the root mean square


@pytest.fixture
def session():
    session = Session(machine())
    yield session
    session.close()


def product(k, a, b):
    return k.compound(a.type, *multiply(k, a.parts, b.parts))


def random(shape, dtype, seed):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)


def steps_of(x):
    return tuple(step // x.itemsize for step in x.strides)


def computed(session, x, h, axes, *, device=DEVICE, kind=COMPLEX, n=None, is_forward=True, scales=(1.0, 1.0)):
    """Transform `x`, multiply by `h`, transform back; return what there is, the plan, and what NumPy makes of it."""
    length = n or x.shape[axes[-1]]
    shape = tuple(length if i == axes[-1] else extent for i, extent in enumerate(x.shape))
    type_ = {"f": c64, "d": c128}[x.dtype.char.lower()]
    result = np.full(shape, np.nan, x.dtype)
    source, target = (
        Array(Argument(name), from_dtype(x.dtype), view.shape, steps_of(view), 256)
        for name, view in (("in0", x), ("out0", result))
    )
    kinds = (REAL, HALF) if kind == REAL else (COMPLEX, COMPLEX)
    there, back = (
        Problem(each, axes, length, goes, scale)
        for each, goes, scale in zip(kinds, (is_forward, not is_forward), scales, strict=True)
    )
    chain = Chained((type_,), (Argument("in1"),), (True,), (Instr(product, type_, (0, 1)),), 2, type_)
    between = tuple(length // 2 + 1 if kind == REAL and i == axes[-1] else extent for i, extent in enumerate(shape))
    wanted = Filter(there, back, chain, (steps_of(np.broadcast_to(h, between)),))
    assert is_filter(source, target, type_, wanted, device)
    plan = plan_filter(source, target, type_, wanted, device)
    session.run(plan, [result], [session.pointer(x), session.pointer(h)])
    wide = x.astype(np.clongdouble if kind == COMPLEX else np.longdouble)
    forth, again = ("rfftn", "irfftn") if kind == REAL else ("fftn", "ifftn") if is_forward else ("ifftn", "fftn")
    sizes = [length if axis == axes[-1] else x.shape[axis] for axis in axes]
    # NumPy's transforms back are divided by the size, whichever of the two goes back.
    exact = getattr(np.fft, again)(getattr(np.fft, forth)(wide, sizes, axes) * h, sizes, axes) * np.prod(sizes)
    return result, plan, exact * scales[0] * scales[1]


def check(result, exact):
    error = np.sqrt(np.mean(abs(result - exact) ** 2) / np.mean(abs(exact) ** 2))
    assert error <= ROUNDINGS[result.dtype.char.upper()]


@pytest.mark.parametrize(
    ("shape", "axis", "device", "count"),
    [
        ((4096,), 0, DEVICE, 1),
        ((5, 400), 1, DEVICE, 1),
        ((60, 21), 0, DEVICE, 1),
        ((16, 21), 0, DEVICE, 1),
        ((2048,), 0, SMALL, 3),
        ((3, 1500), 1, SMALL, 3),
        ((1500, 3), 0, SMALL, 3),
        ((2, 8192), 1, TINY, 5),
    ],
)
@pytest.mark.parametrize("is_whole", [False, True])
def test_one_axis(session, shape, axis, device, count, is_whole):
    x = random(shape, "F", 0)
    along = [1] * len(shape)
    along[axis] = shape[axis]
    h = random(shape if is_whole else along, "F", 1)
    result, plan, exact = computed(session, x, h, (axis,), device=device, scales=(0.5, 2 / shape[axis]))
    assert len(plan.steps) == count
    check(result, exact)


@pytest.mark.parametrize(("n", "device", "count"), [(1500, SMALL, 3), (8192, TINY, 5)])
def test_backwards_first_and_doubles(session, n, device, count):
    x, h = random((2, n), "D", 0), random((n,), "D", 1)
    result, plan, exact = computed(session, x, h, (1,), device=device, is_forward=False, scales=(1 / n, 1.0))
    assert len(plan.steps) == count
    check(result, exact)


def test_padded(session):
    x, h = random((3, 700), "F", 0), random((1500,), "F", 1)
    result, _, exact = computed(session, x, h, (1,), device=SMALL, n=1500)
    check(result, exact)


@pytest.mark.parametrize("kind", [COMPLEX, REAL])
@pytest.mark.parametrize(
    ("shape", "axes", "count"), [((60, 40), (0, 1), 3), ((24, 3, 20), (0, 2), 3), ((9, 8, 20), (0, 1, 2), 5)]
)
def test_several_axes(session, kind, shape, axes, count):
    x = random(shape, "D", 0)
    x = x.real.copy() if kind == REAL else x
    bins = tuple(n // 2 + 1 if kind == REAL and i == axes[-1] else n for i, n in enumerate(shape))
    result, plan, exact = computed(session, x, random(bins, "D", 1), axes, kind=kind)
    assert len(plan.steps) == count
    check(result, exact)


@pytest.mark.parametrize("code", ["f", "d"])
@pytest.mark.parametrize(
    ("shape", "axis", "n"), [((5, 400), 1, 400), ((60, 21), 0, 60), ((3, 50), 1, 64), ((7, 4), 1, 4)]
)
@pytest.mark.parametrize("is_whole", [False, True])
def test_real_sequences(session, code, shape, axis, n, is_whole):
    x = random(shape, "D", 0).real.astype(code)
    bins = [n // 2 + 1 if i == axis else extent for i, extent in enumerate(shape)]
    h = random(bins if is_whole else [bins[axis] if i == axis else 1 for i in range(2)], code.upper(), 1)
    result, plan, exact = computed(session, x, h, (axis,), kind=REAL, n=n, scales=(0.5, 2 / n))
    assert len(plan.steps) == 1
    check(result, exact)


def test_what_stays_two_transforms():
    """Rows that are staged, lengths without codelets, and other lengths back."""
    arrays = {}
    for n in (32, 1009, 400):
        steps = (n, 1)
        arrays[n] = [Array(Argument(name), c64, (50, n), steps, 256) for name in ("in0", "out0")]
    chain = Chained((), (), (), (), 0, c64)
    for n, back in ((32, 32), (1009, 1009), (400, 300)):
        wanted = Filter(Problem(COMPLEX, (1,), n), Problem(COMPLEX, (1,), back, False), chain, ())
        assert not is_filter(*arrays[n], c64, wanted, DEVICE)


def test_chain_without_arrays(session):
    """Threads stay in the order in which they load."""
    x = random((3, 400), "F", 0)
    result = np.full(x.shape, np.nan, "F")
    source, target = (Array(Argument(name), c64, x.shape, steps_of(x), 256) for name in ("in0", "out0"))
    chain = Chained(
        (),
        (),
        (),
        (Instr(lambda k, a: k.fma(*[a.parts[0]] * 2, a.parts[1] * a.parts[1]), from_dtype(np.dtype("f")), (0,)),),
        1,
        from_dtype(np.dtype("f")),
    )
    wanted = Filter(Problem(COMPLEX, (1,), 400), Problem(COMPLEX, (1,), 400, False, 1 / 400), chain, ())
    plan = plan_filter(source, target, c64, wanted, DEVICE)
    (spec,) = traced_with(plan.steps[0].kernel)
    assert spec.between_order == spec.loads
    session.run(plan, [result], [session.pointer(x)])
    check(result, np.fft.ifft(abs(np.fft.fft(x.astype(np.clongdouble))) ** 2))


def test_roots_that_threads_share_have_room_beside_the_transforms():
    """Of radix 53: sixteen columns of 689 elements fit into 99 KB, but not with the roots."""
    device = SimpleNamespace(num_sms=24, cc=(8, 9), max_shared_nbytes=99 * 1024, tuned=lambda _: None)
    length = 689 * 689
    steps = (length, 1)
    source, target = (Array(Argument(name), c64, (3, length), steps, 256) for name in ("in0", "out0"))
    there, back = (Problem(COMPLEX, (1,), length, goes, 1.0) for goes in (True, False))
    chain = Chained((c64,), (Argument("in1"),), (True,), (Instr(product, c64, (0, 1)),), 2, c64)
    wanted = Filter(there, back, chain, (steps,))
    assert is_filter(source, target, c64, wanted, device)
    plan = plan_filter(source, target, c64, wanted, device)
    assert max(step.kernel.shared_nbytes for step in plan.steps) <= device.max_shared_nbytes
