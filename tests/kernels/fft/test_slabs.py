"""Two passes of many transforms in one launch."""

from types import SimpleNamespace

import numpy as np
import pytest

from oxinp._kernels.fft import slabs
from oxinp._ptx.kernel import traced_with
from tests.kernels.fft.test_plan import SMALL, check, random, transformed
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
@pytest.mark.parametrize("is_forward", [True, False])
def test_slabs(session, shape, dtype, is_forward):
    x = random(shape, dtype)
    target = np.empty_like(x)
    made = transformed(session, x, target, device=ALONE, is_forward=is_forward)
    assert isinstance(traced_with(made.launch.kernel)[0], slabs.SlabsSpec)
    check(target, x, is_forward=is_forward)
