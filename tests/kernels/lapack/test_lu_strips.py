"""Systems by strips of columns: residuals, singular matrices, numbers near the ends of the range, without spills."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.linalg

from oxinp._kernels.lapack import diagonal, lu_strips
from oxinp._kernels.lapack.lu_strips import StripSpec
from oxinp._ptx.types import c64, c128, f32, f64
from tests.kernels.lapack.case import RATIO, draw, solution, stack_of
from tests.kernels.lapack.spills import check_assembled
from tests.kernels.machine import machine

TYPES = (f32, f64, c64, c128)
DEVICE = SimpleNamespace(num_sms=3, cc=(9, 0), max_shared_nbytes=227 * 1024, tuned=lambda _: None)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of few threads, the last of which have two rows each."""
    monkeypatch.setattr(lu_strips, "SHAPES", ((32, 1), (64, 1), (64, 2)))
    monkeypatch.setattr(lu_strips, "MOST_TURNS", 10)


def check_solution(a, b):
    """Compare with what LAPACK's test of ``||B - A X||`` allows; return the status."""
    x, word = solution(machine(), DEVICE, a, b)
    norms = [np.linalg.norm(y, 1) for y in (b - a @ x, a, x)]
    assert norms[0] <= RATIO / 100 * len(a) * np.finfo(a.dtype).eps * norms[1] * norms[2]
    return word


@pytest.mark.parametrize(
    ("dtype", "order", "columns"),
    [
        ("f8", 33, 40),  # a last strip of one column; more strips than blocks
        ("f8", 70, 3),  # two rows of a thread
        ("c16", 20, 17),
        ("f4", 64, 1),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                ("f8", 100, 3),
                ("c16", 50, 17),
                ("f8", 64, 200),
                ("c16", 120, 20),
                ("c8", 60, 9),
                ("f4", 128, 70),
                ("c8", 99, 33),
            )
        ),
    ],
)
def test_solutions(dtype, order, columns):
    rng = np.random.default_rng(order)
    a, b = draw(rng, dtype, order, order), draw(rng, dtype, order, columns)
    assert lu_strips.choose(stack_of(np.concatenate([a, b], 1)), DEVICE) is not None
    assert check_solution(a, b) == diagonal.NO_ZERO


@pytest.mark.parametrize("dtype", ["f8", pytest.param("c16", marks=pytest.mark.slow)])
def test_every_row_changes_its_place(dtype):
    """Of two rows of a thread, and of rows that are moved by several panels."""
    order = 70
    a = draw(np.random.default_rng(1), dtype, order, order) + 200 * np.eye(order)[::-1]
    assert check_solution(a.astype(dtype), draw(np.random.default_rng(2), dtype, order, 2)) == diagonal.NO_ZERO


def test_the_first_of_equal_elements_is_the_pivot():
    """Every step is exact then."""
    a = scipy.linalg.hadamard(64).astype("f8")
    x, _ = solution(machine(), DEVICE, a, np.eye(64))
    assert np.array_equal(x, a.T / 64)


@pytest.mark.parametrize("dtype", ["f8", pytest.param("f4", marks=pytest.mark.slow), "c16"])
@pytest.mark.parametrize("power", [-1, 1])
def test_powers_of_two_change_nothing(dtype, power):
    """However near to the ends of the range pivots are, they are divided by as by others."""
    rng, info = np.random.default_rng(3), np.finfo(dtype)
    order = 20 if dtype == "c16" else 40  # of two panels
    a, b = draw(rng, dtype, order, order), draw(rng, dtype, order, 3)
    factor = info.dtype.type(2.0) ** (info.maxexp - 8 if power > 0 else info.minexp + 30)
    wanted, _ = solution(machine(), DEVICE, a, b)
    found, word = solution(machine(), DEVICE, a * factor, b * factor)
    assert word == diagonal.NO_ZERO
    if power > 0:
        assert np.array_equal(found, wanted)
    else:  # products of small numbers lose bits
        assert np.allclose(found, wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("column", [pytest.param(0, marks=pytest.mark.slow), 31, 39])
def test_the_first_pivot_that_is_zero(column):
    a = draw(np.random.default_rng(5), "f8", 40, 40)
    a[:, column:] = 0
    assert solution(machine(), DEVICE, a, np.ones((40, 1)))[1] == column


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("dtype", ["f8", pytest.param("c16", marks=pytest.mark.slow)])
def test_what_is_not_finite_is_passed_on_as_by_panels(value, dtype, monkeypatch):
    rng = np.random.default_rng(6)
    a, b = draw(rng, dtype, 34, 34), draw(rng, dtype, 34, 2)
    a[17, 20] = value
    found, word = solution(machine(), DEVICE, a, b)
    monkeypatch.setattr(lu_strips, "SHAPES", ())
    wanted, _ = solution(machine(), DEVICE, a, b)
    assert word == diagonal.NO_ZERO
    assert np.array_equal(np.isfinite(found), np.isfinite(wanted))


def test_matrices_that_blocks_have_no_room_for_and_stacks_are_left_to_panels():
    device = SimpleNamespace(**vars(DEVICE) | {"num_sms": 132})
    for shape, is_possible in (((128, 200), True), ((129, 200), False), ((2, 20, 30), False)):
        spec = lu_strips.choose(stack_of(np.empty(shape)), device)
        assert (spec is not None) == is_possible
    few = SimpleNamespace(**vars(device) | {"num_sms": 1})
    assert lu_strips.choose(stack_of(np.empty((128, 500))), few) is None


@pytest.mark.parametrize(("target", "version", "follows"), [("sm_80", "7.0", False), ("sm_90", "7.8", True)])
def test_kernels_assemble_without_spills(target, version, follows):
    shapes = ((128, 1), (512, 1), (512, 2))
    kernels = [lu_strips.make(StripSpec(type_, *shape, follows)) for type_ in TYPES for shape in shapes]
    check_assembled(kernels, {target: version})
