"""Any sequence of small and large draws, on whichever side of the boundary, gives NumPy's numbers and NumPy's state."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oxinp
from oxinp._core.ops.c_library import OWN, form_of
from tests.comparator import assert_same

THRESHOLD = 64  # bytes
OF_LIBM = 2 * (form_of("log1p_f8") == OWN)  # 0 where the C library's functions are known, which are ours then
SIZES = st.one_of(st.none(), st.integers(0, 300), st.tuples(st.integers(0, 9), st.integers(1, 20)))
FLOATS = st.sampled_from(["f4", "f8"])


def _integers(draw):
    dtype = draw(st.sampled_from(["i1", "u2", "i4", "u4", "i8", "u8"]))
    bounds = np.iinfo(dtype)
    low = draw(st.integers(int(bounds.min), int(bounds.max) - 1))
    high = draw(st.integers(low + 1, int(bounds.max)))
    return "integers", (low, high), {"size": draw(SIZES), "dtype": dtype, "endpoint": draw(st.booleans())}, 0


NAMES = (
    *("random", "standard_normal", "standard_exponential", "integers", "choice", "normal"),
    *("between", "lognormal", "gumbel", "logistic", "weibull", "standard_cauchy"),
)
SIZED = ("bytes", "permutation")


@st.composite
def calls(draw):
    """A method, its arguments, and by how many units in the last place numbers may differ."""
    name = draw(st.sampled_from([*NAMES, *SIZED]))
    size = draw(SIZES)
    if name == "integers":
        return _integers(draw)
    if name == "between":
        highs = np.array(draw(st.lists(st.sampled_from([2, 9, 1000, 2**24 + 1, 2**28 + 1]), min_size=1, max_size=300)))
        return "integers", (0, highs), {}, 0
    if name in SIZED:
        return name, (draw(st.integers(0, 900)),), {}, 0
    if name in {"lognormal", "gumbel", "logistic", "weibull", "standard_cauchy"}:
        return name, () if name == "standard_cauchy" else (1.5,), {"size": size}, OF_LIBM
    if name == "choice":
        chances = draw(st.sampled_from([None, [0.25, 0.5, 0.25]]))
        return name, (3, size), {"p": chances, "replace": size is None or bool(chances) or np.prod(size) > 3}, 0
    if name == "normal":
        return name, (2.0, 0.5, size), {}, OF_LIBM
    return name, (size, draw(FLOATS)), {}, 0 if name == "random" else OF_LIBM


@pytest.mark.parametrize("kind", ["PCG64", "PCG64DXSM", "Philox", "MT19937"])
@given(seed=st.integers(0, 2**32), sequence=st.lists(calls(), min_size=2, max_size=6))
@settings(max_examples=15, deadline=None)
def test_generators(kind, seed, sequence):
    before, oxinp.config.offload_threshold = oxinp.config.offload_threshold, THRESHOLD
    try:
        ours, numpys = (xp.random.Generator(getattr(np.random, kind)(seed)) for xp in (oxinp, np))
        for name, args, kwargs, ulp in sequence:
            results = [getattr(g, name)(*args, **kwargs) for g in (ours, numpys)]
            assert_same(*results, ulp=ulp)
        assert_same(ours.random(3, "f4"), numpys.random(3, "f4"))
        assert_same(ours.random(3), numpys.random(3))
    finally:
        oxinp.config.offload_threshold = before


LEGACY = [
    ("rand", lambda n: (n,), 0),
    ("randn", lambda n: (n,), 0),
    ("random_sample", lambda n: ((2, n),), 0),
    ("randint", lambda n: (0, 3 * n + 2, n), 0),
    ("normal", lambda n: (1.0, 2.0, n), 0),
    ("bytes", lambda n: (n,), 0),
    ("exponential", lambda n: (2.0, n), 0),
    ("permutation", lambda n: (n,), 0),
    ("standard_cauchy", lambda n: (n,), 0),
]


@given(seed=st.integers(0, 2**32 - 1), sequence=st.lists(st.tuples(st.sampled_from(LEGACY), st.integers(0, 900))))
@settings(max_examples=15, deadline=None)
def test_the_legacy_generator(seed, sequence):
    before, oxinp.config.offload_threshold = oxinp.config.offload_threshold, THRESHOLD
    try:
        ours, numpys = oxinp.random.RandomState(seed), np.random.RandomState(seed)
        for (name, args, ulp), n in sequence:
            assert_same(*[getattr(g, name)(*args(n)) for g in (ours, numpys)], ulp=ulp)
        assert_same(ours.randn(3), numpys.randn(3))
        assert_same(ours.rand(3), numpys.rand(3))
    finally:
        oxinp.config.offload_threshold = before
