"""Places of values among sorted elements, with samples and without."""

import numpy as np
import pytest

from oxinp._kernels.sort import search
from oxinp._ptx.types import from_dtype
from tests.comparator import assert_same
from tests.kernels.machine import Session, machine


@pytest.mark.parametrize("samples", [0, 1, 8, 64])
@pytest.mark.parametrize("size", [1, 7, 64, 65, 500])
@pytest.mark.parametrize("dtype", [np.dtype(name) for name in ("?", "i2", "f4", "f8", "c16")], ids=str)
def test_places(dtype, size, samples):
    rng = np.random.default_rng([size, samples])
    x = np.sort((rng.random(size) * 90).astype(dtype))
    values = np.concatenate([(rng.random(700) * 110 - 10).astype(dtype), x[:50], x[-50:]])
    session = Session(machine())
    for is_right in (False, True):
        output = np.empty(values.size, np.int64)
        spec = search.SearchSpec(from_dtype(dtype), is_right, samples)
        plan = search.search(size, values.size, spec.type, session.device, is_right=is_right, spec=spec)
        session.run(plan, [output], [session.pointer(x), session.pointer(values)])
        assert_same(output, np.searchsorted(x, values, "right" if is_right else "left"))
    session.close()
