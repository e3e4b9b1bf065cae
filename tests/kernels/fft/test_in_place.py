"""Every way of a complex transform gives the same bits where its result lies in its operand's memory."""

from types import SimpleNamespace

import numpy as np
import pytest

from oxinp._kernels.fft import plan as plans
from oxinp._kernels.fft import slabs
from oxinp._kernels.fft.axes import COMPLEX, Array, Problem, plan_axes, transforms
from oxinp._kernels.fft.slabs import SlabsSpec
from oxinp._kernels.plan import Argument, Scratch
from oxinp._ptx.kernel import traced_with
from oxinp._ptx.types import from_dtype
from tests.kernels.fft.test_clusters import DEVICE as CLUSTERED
from tests.kernels.fft.test_plan import DEVICE, SMALL, random
from tests.kernels.machine import Session, machine

ALONE = SimpleNamespace(**{**vars(SMALL), "num_sms": 1})
# Ways of a transform, shapes and axes.
CASES = (
    *((plans.DIRECT, *each) for each in (((70, 7), (1,)), ((7, 70), (0,)), ((9, 31), (1,)), ((5, 64), (1,)))),
    *((plans.DIRECT, *each) for each in (((3, 1000), (1,)), ((100, 9), (0,)), ((7, 243), (1,)), ((3, 6, 20), (0, 2)))),
    *((plans.DIRECT, (count, n), (1,)) for n in (64, 128, 256, 1024) for count in (1, 19)),  # of warps without a row
    *((plans.SUMS, *each) for each in (((40, 67), (1,)), ((67, 40), (0,)))),
    *((plans.BY_POWERS, (n, 113), (1,)) for n in (3, 40)),
    *((plans.CONVOLVED, *each) for each in (((3, 227), (1,)), ((227, 5), (0,)))),
    (plans.FACTORED, (3, 67 * 32), (1,)),
)
IN_PASSES = (
    *((plans.DIRECT, *each) for each in (((2, 4096), (1,)), ((64, 48, 2), (0, 1)))),
    *((plans.CONVOLVED_APART, *each) for each in (((2, 1009), (1,)), ((2, 1009, 2), (1,)))),
)


@pytest.mark.parametrize(
    ("way", "shape", "axes", "device"),
    [
        *((*each, DEVICE) for each in CASES),
        *((*each, SMALL) for each in IN_PASSES),
        (plans.DIRECT, (256, 16), (0,), CLUSTERED),
    ],
)
@pytest.mark.parametrize("num_parts", [1, 3])
def test_in_place(way, shape, axes, device, num_parts):
    x = random(shape, "F")
    compare(x, axes, device, num_parts)
    arrays = arrays_of(x)
    problem = Problem(COMPLEX, axes, shape[axes[-1]])
    assert way in {each.way(device) for each in transforms(*arrays, arrays[0].type, problem, Scratch())}


@pytest.mark.parametrize(("shape", "axes"), [((31, 2048), (1,)), ((2, 6, 48, 320), (2, 3)), ((12, 64, 320), (0, 1, 2))])
def test_slabs(monkeypatch, shape, axes):
    monkeypatch.setattr(slabs, "MIN_MOVED", 0)
    monkeypatch.setattr(slabs, "MAX_RING", 1 << 20)
    made = compare(random(shape, "F"), axes, ALONE)
    assert isinstance(traced_with(made.steps[0].kernel)[0], SlabsSpec)


def arrays_of(x):
    """The operand and the result as planning takes them."""
    steps = tuple(step // x.itemsize for step in x.strides)
    return [Array(Argument(name), from_dtype(x.dtype), x.shape, steps, 256) for name in ("in0", "out0")]


def compare(x, axes, device, num_parts=1):
    """Transform into other memory, and into the operand's; return the plan."""
    made = plan_axes(*arrays_of(x), from_dtype(x.dtype), Problem(COMPLEX, axes, x.shape[axes[-1]]), device, num_parts)
    session, apart, own = Session(machine()), np.empty_like(x), x.copy()
    try:
        session.run(made, [apart], [session.pointer(x)])
        session.run(made, [own], [session.pointer(own)])
    finally:
        session.close()
    assert (own.view("i4") == apart.view("i4")).all()
    assert abs(apart - np.fft.fftn(x, axes=axes)).max() < 1e-5 * abs(apart).max()
    return made
