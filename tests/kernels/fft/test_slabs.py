"""Two passes of many transforms in one launch."""

from types import SimpleNamespace

import numpy as np
import pytest

from asv_benchmarks.kernels import fft as benchmark
from oxinp._kernels.fft import kernel, passes, slabs
from oxinp._kernels.fft.axes import COMPLEX, Array, Problem, plan_axes
from oxinp._kernels.fft.codelets import multiply
from oxinp._kernels.fft.sides import Chained
from oxinp._kernels.plan import Argument
from oxinp._kernels.problem import Instr
from oxinp._ptx.kernel import traced_with
from oxinp._ptx.types import c64, f32
from tests.kernels.fft.test_plan import SMALL, check, random, rms, transformed
from tests.kernels.machine import Session, machine

ALONE = SimpleNamespace(**{**vars(SMALL), "num_sms": 1})


@pytest.fixture
def session(monkeypatch):
    monkeypatch.setattr(slabs, "MIN_MOVED", 0)
    monkeypatch.setattr(slabs, "MAX_RING", 1 << 20)
    session = Session(machine())
    yield session
    session.close()


@pytest.mark.parametrize(("shape", "dtype"), [((31, 2048), "F"), ((5, 6, 1500), "F"), ((23, 1024), "D")])
def test_slabs(session, shape, dtype):
    x = random(shape, dtype)
    target = np.empty_like(x)
    made = transformed(session, x, target, device=ALONE, is_forward=False)
    assert isinstance(traced_with(made.launch.kernel)[0], slabs.SlabsSpec)
    check(target, x, is_forward=False)


def test_chains(session):
    """A prologue and an epilogue with arrays along the transform and the batch."""
    x, y = random((31, 2048), "F"), random((2048,), "F")
    target = np.empty(x.shape, "f")
    arrays = [Array(Argument(name), c64, x.shape, (2048, 1), 256) for name in ("in0", "out0")]
    before = Chained(
        (c64, c64), (Argument("in0"), Argument("in1")), (True, True), (Instr(_product, c64, (0, 1)),), 2, c64
    )
    after = Chained((c64,), (Argument("in0"),), (True,), (Instr(_distance, f32, (0, 1)),), 2, f32)
    source = arrays[0]._replace(chain=before, others=((2048, 1), (0, 1)))
    made = plan_axes(
        source, arrays[1]._replace(chain=after, others=((2048, 1),)), c64, Problem(COMPLEX, (1,), 2048), ALONE
    )
    assert isinstance(traced_with(made.launch.kernel)[0], slabs.SlabsSpec)
    session.run(made, [target], [session.pointer(x), session.pointer(y)])
    exact = abs(np.fft.fft(x.astype(np.clongdouble) * y) - x) ** 2
    assert rms(target, exact) <= 2e-6


def _product(k, a, b):
    return k.compound(c64, *multiply(k, a.parts, b.parts))


def _distance(k, a, b):
    real, imag = (x - y for x, y in zip(a.parts, b.parts, strict=True))
    return k.fma(real, real, imag * imag)


@pytest.mark.parametrize(("shape", "axes"), [((2, 6, 48, 320), (2, 3)), ((12, 64, 320), (0, 1, 2))])
def test_axes(session, shape, axes):
    """Two axes of a part of the array at a time."""
    x = random(shape, "F")
    target = np.empty_like(x)
    steps = tuple(step // x.itemsize for step in x.strides)
    arrays = [Array(Argument(name), c64, shape, steps, 256) for name in ("in0", "out0")]
    made = plan_axes(*arrays, c64, Problem(COMPLEX, axes, shape[-1], scale=0.5), ALONE)
    assert len(made.steps) == len(axes) - 1
    session.run(made, [target], [session.pointer(x)])
    exact = 0.5 * np.fft.fftn(x.astype(np.clongdouble), axes=axes)
    assert rms(target, exact) <= 0.6e-7 * np.sqrt(np.log2(x.size))


def test_axes_of_one_element_have_any_stride(session):
    """That of an axis that is transformed, too."""
    x = random((12, 1, 64, 320), "F")
    target = np.empty_like(x)
    arrays = [Array(Argument(name), c64, x.shape, (64 * 320, 320, 320, 1), 256) for name in ("in0", "out0")]
    made = plan_axes(*arrays, c64, Problem(COMPLEX, (2, 3), 320), ALONE)
    assert len(made.steps) == 1
    session.run(made, [target], [session.pointer(x)])
    exact = np.fft.fft2(x.astype(np.clongdouble))
    assert rms(target, exact) <= 0.6e-7 * np.sqrt(np.log2(x.size))


def test_settings_of_which_only_constants_tell_are_measured(monkeypatch, capsys):
    """One kernel in as many blocks."""
    monkeypatch.setattr(benchmark, "milliseconds", lambda *_: 1.0)
    monkeypatch.setattr(benchmark, "SETTINGS", {"as shipped": {}, "other": {(slabs, "AHEAD"): 2}, "same": {}})
    arrays = [Array(Argument(name), c64, (12, 64), (64, 1), 256) for name in ("in0", "out0")]
    (step,) = plan_axes(*arrays, c64, Problem(COMPLEX, (1,), 64), ALONE).steps
    case = SimpleNamespace(dtype=np.dtype("F"), shape=(12, 64), pieces=lambda: np.ones(4, "F"))

    def prepare():
        case.plan = SimpleNamespace(steps=[step._replace(constants=(slabs.AHEAD,))])
        case.run = SimpleNamespace(launches=[("", None)])

    case.prepare = prepare
    assert benchmark.measure_settings(None, case, "name", "")
    settings = [line.split()[1:3] for line in capsys.readouterr().out.splitlines() if line.startswith("name")]
    assert settings == [["as", "shipped"], ["other", "1.0000"]]


@pytest.mark.parametrize(("dtype", "lengths"), [("F", (32, 8, 16)), ("D", (32, 16, 8))])
@pytest.mark.parametrize("num_valid", [4096, 3333])
def test_last_two_of_three_passes(session, monkeypatch, dtype, lengths, num_valid):
    """Of some results of the first at a time, by way of the cache."""
    monkeypatch.setattr(passes, "JOINED", {4096: (lengths, 64)})
    x = random((num_valid,), dtype)
    target = np.empty(4096, dtype)
    tiny = SimpleNamespace(**{**vars(ALONE), "max_shared_nbytes": 2 * 1024})
    made = transformed(session, x, target, n=4096, device=tiny, is_forward=False)
    specs = [traced_with(step.kernel)[0] for step in made.steps]
    assert [isinstance(spec, slabs.SlabsSpec) for spec in specs] == [False, True]
    assert specs[0].is_streaming
    check(target, np.pad(x, (0, 4096 - num_valid)), is_forward=False)


def test_blocks_have_no_more_columns_than_there_are(session, monkeypatch):
    """Of the last pass, which stores few neighbouring results; blocks of the other one are as small."""
    monkeypatch.setattr(passes, "JOINED", {25600: ((64, 20, 20), 64)})
    x = random((25600,), "F")
    target = np.empty_like(x)
    made = transformed(session, x, target, device=ALONE)
    first, last = traced_with(made.steps[1].kernel)[0].passes
    assert last.columns == 8
    assert first.threads * first.columns == last.threads * last.columns
    check(target, x)


@pytest.mark.parametrize("setting", [(slabs, "READ_ONCE", ""), (slabs, "WRITTEN_ONCE", "")])
def test_cache_operators_change_no_result(session, monkeypatch, setting):
    monkeypatch.setattr(*setting)
    slabs.make.cache_clear()
    kernel.make.cache_clear()
    try:
        x = random((64, 48, 32), "F")
        target = np.empty_like(x)
        transformed(session, x, target, 0, device=ALONE)
        check(target, x, 0)
        x = random((31, 2048), "F")
        target = np.empty_like(x)
        transformed(session, x, target, device=ALONE)
        check(target, x)
    finally:
        slabs.make.cache_clear()
        kernel.make.cache_clear()
