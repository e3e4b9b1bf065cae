"""Banded systems with many right-hand sides: SciPy's solutions and errors, factors counted as the host's."""

import numpy as np
import pytest
import scipy.linalg

import oxinp

RANDOM = np.random.default_rng(4)
BAND, RIGHT = RANDOM.standard_normal((4, 11)), RANDOM.standard_normal((11, 40))
DEFINITE = np.abs(RANDOM.standard_normal((3, 11))) + np.array([[9.0], [0], [0]])

pytestmark = pytest.mark.usefixtures("on_device")


def both(code, stats, **arrays):
    theirs = eval(code, {"linalg": scipy.linalg, **arrays})  # noqa: S307 - our own code
    given = {name: oxinp.asarray(x) for name, x in arrays.items()}
    ours = eval(code, {"linalg": oxinp.scipy.linalg, **given})  # noqa: S307
    counted = dict(stats().fallbacks)
    ours = np.asarray(ours)
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    assert np.allclose(ours, theirs, rtol=0, atol=1e4 * np.finfo(ours.dtype).eps * np.abs(theirs).max())
    return counted


@pytest.mark.parametrize("dtype", ["f4", "c16", "i8"])
def test_general_bands(dtype, stats):
    ab = (BAND * 9).astype(dtype)
    counted = both("linalg.solve_banded((1, 2), ab, b)", stats, ab=ab, b=RIGHT.astype(dtype))
    assert counted == {"scipy.linalg.solve_banded: factors": 1}
    assert stats().launches


@pytest.mark.parametrize("lower", [True, False])
def test_definite_bands(lower, stats):
    ab = DEFINITE if lower else DEFINITE[::-1]
    counted = both(f"linalg.solveh_banded(ab, b, lower={lower})", stats, ab=ab, b=RIGHT)
    assert counted == {"scipy.linalg.solveh_banded: factors": 1}
    c = scipy.linalg.cholesky_banded(ab, lower=lower)
    both(f"linalg.cho_solve_banded((c, {lower}), b)", stats, c=c + 0j, b=RIGHT)


def test_few_right_hand_sides_are_scipys(stats):
    counted = both("linalg.solve_banded((1, 2), ab, b)", stats, ab=BAND, b=RIGHT[:, 0])
    assert counted == {"scipy.linalg.solve_banded": 1}


def test_wide_bands_are_scipys(stats):
    ab, b = RANDOM.standard_normal((23, 30)), RANDOM.standard_normal((30, 32))
    counted = both("linalg.solve_banded((11, 11), ab, b)", stats, ab=ab, b=b)
    assert counted == {"scipy.linalg.solve_banded": 1}


@pytest.mark.parametrize(
    "code",
    [
        "linalg.solve_banded((1, 2), 0 * ab, b)",
        "linalg.solve_banded((1, 1), ab, b)",
        "linalg.solve_banded((1, 2), ab, b[:5])",
        "linalg.solve_banded((1, 2), ab * float('nan'), b)",
        "linalg.solveh_banded(-ab, b)",
    ],
)
def test_errors_are_scipys(code):
    with pytest.raises(Exception) as theirs:
        eval(code, {"linalg": scipy.linalg, "ab": BAND, "b": RIGHT})  # noqa: S307
    with pytest.raises(theirs.type) as ours:
        eval(code, {"linalg": oxinp.scipy.linalg, "ab": oxinp.asarray(BAND), "b": oxinp.asarray(RIGHT)})  # noqa: S307
    assert str(ours.value) == str(theirs.value)
