"""Elementary functions of complex numbers against NumPy's in extended precision, and NumPy's special values."""

import numpy as np
import pytest

from oxinp._ptx import Builder
from oxinp._ptx.math import complex as functions
from oxinp._ptx.types import c64, c128
from tests.ptx.test_compound import PARTS, apply, full_range, specials

BOUNDS = {
    "exp": 5,
    "log": 3,
    "log2": 4,
    "log10": 4,
    "sin": 4,
    "cos": 4,
    "tan": 6,
    "sinh": 4,
    "cosh": 4,
    "tanh": 6,
    "sign": 2,
}
EXACT = ("conjugate", "square", "reciprocal", "rint")
TYPES = pytest.mark.parametrize("type_", [c64, c128], ids=repr)
HAS_WIDE = np.finfo(np.longdouble).nmant > 52


def plain(type_, seed=0):
    """Numbers around 1, along the axes, near the unit circle, and of moderate powers."""
    rng = np.random.default_rng(seed)
    z = (rng.standard_normal(8192) + 1j * rng.standard_normal(8192)) * 10.0 ** rng.integers(-6, 3, 8192)
    z[::5] = np.exp(1j * rng.uniform(-4, 4, z[::5].size)) * (1 + rng.standard_normal(z[::5].size) * 1e-4)
    z[1::5] = rng.uniform(-90, 90, z[1::5].size) + 1j * rng.uniform(-100, 100, z[1::5].size)
    z[2::50] = z[2::50].real
    z[3::50] = 1j * z[3::50].imag
    return z.astype(type_.dtype)


def errors(given, wide):
    """How far the parts are off, in ulp of the larger part."""
    rounded = wide.astype(given.dtype)
    info = np.finfo(given.dtype)
    larger = np.maximum(np.abs(rounded.real), np.abs(rounded.imag))
    ulp = np.spacing(np.maximum(larger, info.tiny))
    ulp = np.where(np.isfinite(larger), ulp, np.inf)  # beside an infinity the other part may be anything
    off = []
    for part, own, exact in zip(parts(given), parts(rounded), parts(wide), strict=True):
        is_same = (part == own) | (np.isnan(part) & np.isnan(own))
        off.append(np.where(is_same, 0.0, np.abs(part - exact) / ulp))
    return np.maximum(*off)


def parts(z):
    return z.real, z.imag


@TYPES
@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("values", [plain, full_range])
@pytest.mark.skipif(not HAS_WIDE, reason="longdouble is float64 here")
def test_within_bounds(name, type_, values):
    z = values(type_)
    given = apply(getattr(functions, name), type_, z)
    with np.errstate(all="ignore"):
        wide = getattr(np, name)(z.astype(np.clongdouble))
        off = errors(given, wide)
    # Of huge angles the extended functions know no more digits than the x87's pi.
    larger = np.maximum(np.abs(z.real), np.abs(z.imag))
    if not name.startswith("log"):
        off = off[larger > 2 * np.finfo(z.dtype).tiny] if name == "sign" else off[larger < 1e4]
    worst = np.nanmax(off)
    assert worst <= BOUNDS[name], f"{worst} ulp"
    assert not np.isnan(off).any()


@TYPES
@pytest.mark.parametrize("name", [*BOUNDS, *EXACT, "exp2", "expm1", "log1p"])
def test_special_values_are_numpys(name, type_):
    z = specials(type_)[: len(PARTS) ** 2 // 256 * 256 or 256]
    given = apply(getattr(functions, name), type_, z)
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(z)
    for ours, numpys in zip(parts(given), parts(wanted), strict=True):
        is_huge = (np.abs(z.real) > 1e20) | (np.abs(z.imag) > 1e20)
        special = ~np.isfinite(numpys) | ~np.isfinite(ours)
        # The sign of an infinity beside NaN is anybody's.
        same = (ours == numpys) | (np.isnan(ours) & np.isnan(numpys)) | (np.isnan(given) & (-ours == numpys))
        wrong = special & ~same & ~is_huge_finite(z, is_huge)
        assert not wrong.any(), [(z[i], given[i], wanted[i]) for i in np.flatnonzero(wrong)[:6]]


def is_huge_finite(z, is_huge):
    return is_huge & np.isfinite(z.real) & np.isfinite(z.imag)


@TYPES
@pytest.mark.parametrize("name", EXACT)
def test_same_bits(name, type_):
    z = plain(type_)
    given = apply(getattr(functions, name), type_, z)
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(z)
    if name == "square":  # as for products, NumPy's loops differ
        assert (np.abs(given - wanted) <= 4 * np.spacing(np.abs(wanted))).all()
    else:
        assert np.array_equal(given, wanted, equal_nan=True)


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_assembles(assembled, target):
    kernels = []
    for type_ in (c64, c128):
        for name in (*BOUNDS, *EXACT, "exp2", "expm1", "log1p"):
            k = Builder(f"{name}_{type_.name}", target=target)
            out, x = k.pointer("out", type_, "w"), k.pointer("x", type_, "r")
            out[k.tid] = getattr(functions, name)(k, x[k.tid])
            kernels.append(k.build())
    assembled(kernels)
