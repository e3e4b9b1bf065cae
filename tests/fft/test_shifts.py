"""Shifts of transforms: NumPy's elements, without a pass over memory of their own."""

import numpy as np
import pytest

import oxinp
from oxinp._kernels.fft.axes import COMPLEX, Array, Problem, plan_axes
from oxinp._kernels.fft.plan import rotates
from oxinp._kernels.plan import Argument
from oxinp._ptx.types import c64
from tests.comparator import assert_same
from tests.kernels.fft.test_plan import SMALL
from tests.kernels.machine import Session, machine

FUSED = (
    "xp.fft.fftshift(xp.fft.fft(x), axes=1)",
    "xp.fft.fftshift(xp.fft.fft2(x))",
    "xp.fft.ifftshift(xp.fft.ifft(x, axis=0), axes=(0,))",
    "abs(xp.fft.fftshift(xp.fft.fft2(x))) ** 2",
    "xp.fft.fftshift(abs(xp.fft.fft2(x)))",
    "xp.fft.fftshift(xp.fft.fft(x) * 2.0, axes=-1)",
    "xp.fft.fftshift(xp.fft.fft(x), axes=1) * v",
    "xp.fft.ifftshift(xp.fft.fftshift(xp.fft.fft2(x)))",
    "xp.fft.fftshift(xp.fft.fft(x * v, 30), axes=1)",
    "xp.fft.fft(xp.fft.ifftshift(x, axes=1))",
    "xp.fft.ifft2(xp.fft.ifftshift(x))",
    "xp.fft.fftshift(xp.fft.fft2(xp.fft.ifftshift(x, axes=(0,))))",
    "abs(xp.fft.fft(xp.fft.fftshift(x, axes=0), axis=0)) ** 2",
)
OTHERS = (
    "xp.fft.fftshift(xp.fft.fft2(xp.fft.ifftshift(x)))",
    "xp.fft.fftshift(x, axes=0) + xp.fft.fftshift(x.real)",
    "xp.fft.fft(xp.fft.fftshift(x), axis=0)",
    "xp.fft.fft(xp.fft.fftshift(x), 80)",
    "xp.fft.rfft(xp.fft.fftshift(x.real))",
    "xp.fft.fft(xp.fft.fftshift(x[:, 1:]))",
    "xp.fft.fft(xp.fft.fftshift(x) * v)",
    "xp.fft.fftshift(x)",
    "xp.fft.fftshift(xp.fft.fft(x))",
    "xp.fft.fftshift(xp.fft.fft(x, 45), axes=1)",
    "xp.fft.fftshift(xp.fft.fft(x, 74), axes=1)",
    "xp.fft.fftshift(xp.fft.rfft(x.real), axes=1)",
    "xp.fft.fftshift(xp.fft.irfft(x), axes=1)",
    "xp.fft.fftshift(xp.fft.fft(x)[:, ::2], axes=1)",
    "xp.fft.fftshift(xp.fft.fft(x) * x, axes=1)",
    "xp.fft.fftshift(xp.fft.fft(x), axes=[1])",
)


def launches(code, names):
    """Return what an expression gives, and how many kernels that takes."""
    before = oxinp.cuda.stats().launches
    given = eval(code, names)  # noqa: S307 - our own code
    oxinp.evaluate(given)
    return given, oxinp.cuda.stats().launches - before


def names_of(xp, numbers):
    return {"xp": xp, "x": xp.asarray(numbers), "v": xp.arange(60.0)}


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("code", FUSED)
def test_shifts_cost_no_pass(code):
    rng = np.random.default_rng(1)
    numbers = rng.normal(size=(64, 60)) + 1j * rng.normal(size=(64, 60))
    ours, count = launches(code, names_of(oxinp, numbers))
    plain = code.replace("xp.fft.ifftshift(", "keep(").replace("xp.fft.fftshift(", "keep(")
    _, expected = launches(plain, {**names_of(oxinp, numbers), "keep": lambda a, axes=None: a})  # noqa: ARG005
    assert count == expected
    assert np.allclose(np.asarray(ours), eval(code, names_of(np, numbers)), rtol=1e-12, atol=1e-11)  # noqa: S307 - likewise


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("code", OTHERS)
def test_other_shifts(code):
    numbers = np.random.default_rng(1).normal(size=(64, 60)) * (1 + 2j)
    given = eval(code, names_of(oxinp, numbers))  # noqa: S307 - our own code
    expected = eval(code, names_of(np, numbers))  # noqa: S307
    assert np.allclose(np.asarray(given), expected, rtol=1e-12, atol=1e-11)


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    "code",
    [
        "fft.fftshift(fft.fft(x, axis=axis), axis)",
        "fft.fft(fft.fftshift(x, axis), axis=axis)",
        "fft.fftshift(fft.fft2(fft.ifftshift(x)))",
    ],
)
def test_shifts_of_two_real_elements(code, axis):
    """The half of what such a transform gives is all of it."""
    numbers = np.random.default_rng(1).normal(size=(2, 40) if axis == 0 else (40, 2))
    x = oxinp.asarray(numbers)
    oxinp.evaluate(x)
    given = eval(code, {"fft": oxinp.fft, "x": x, "axis": axis})  # noqa: S307 - our own code
    expected = eval(code, {"fft": np.fft, "x": numbers, "axis": axis})  # noqa: S307
    assert np.allclose(np.asarray(given), expected, rtol=1e-12, atol=1e-11)


@pytest.mark.usefixtures("on_device")
def test_the_same_elements():
    """A transform that is read as it is as well, and one whose shift is asked for afterwards."""
    x = oxinp.asarray(np.random.default_rng(2).normal(size=(8, 128)))
    plain = oxinp.fft.fft(x)
    moved = oxinp.fft.fftshift(plain, axes=1)
    assert_same(moved, np.fft.fftshift(np.asarray(plain), axes=1))
    assert_same(oxinp.fft.fftshift(plain, axes=1), np.asarray(moved))


@pytest.mark.parametrize("shape", [(2048, 3), (2, 1536), (2, 750), (4, 54), (3, 16), (2, 60)])
@pytest.mark.parametrize("ends", ["stored", "read", "both"])
def test_passes_that_rotate(shape, ends):
    axis = 0 if shape[0] > shape[1] else 1
    if not rotates(shape[axis], c64, SMALL, at_both_ends=ends == "both"):
        assert shape[axis] in (750, 54)
        return
    session = Session(machine())
    x = (np.random.default_rng(3).normal(size=(*shape, 2)).astype("f4")).view("c8")[..., 0]
    steps, found = (shape[1], 1), []
    rotated, given = ((axis,) if ends in (name, "both") else () for name in ("stored", "read"))
    for problem in (
        Problem(COMPLEX, (axis,), shape[axis]),
        Problem(COMPLEX, (axis,), shape[axis], True, 1.0, rotated, given),
    ):
        target = np.empty_like(x)
        source = Array(Argument("in0"), c64, shape, steps, 256)
        plan = plan_axes(source, source._replace(buffer=Argument("out0")), c64, problem, SMALL)
        seen = np.fft.fftshift(x, axes=axis) if given and not found else x
        session.run(plan, [target], [session.pointer(np.ascontiguousarray(seen))])
        found.append(target)
    session.close()
    expected = np.fft.fftshift(found[0], axes=axis) if rotated else found[0]
    # The rotated kernel may take its radices in another order
    assert np.sqrt(np.mean(abs(found[1] - expected) ** 2) / np.mean(abs(expected) ** 2)) < 3e-7
