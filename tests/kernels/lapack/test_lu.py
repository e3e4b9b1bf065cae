"""LU: LAPACK's pivots and ratios, in one block and several, singular matrices, and without spills."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.linalg

from oxinp._kernels.lapack import back_substitution, diagonal, lu, lu_cluster, lu_panel, lu_strips, rows
from oxinp._kernels.lapack import plan as lapack
from oxinp._kernels.lapack.back_substitution import BackSubstitutionSpec
from oxinp._kernels.lapack.lu_cluster import ClusterSpec
from oxinp._kernels.lapack.lu_panel import PanelSpec
from oxinp._kernels.lapack.panel_kernel import WIDTHS
from oxinp._kernels.lapack.rows import ExchangeSpec, PermuteSpec
from oxinp._kernels.plan import Beside, Launch, Scratch, in_order, outputs
from oxinp._kernels.problem import Operand
from oxinp._ptx.types import c64, c128, f32, f64, from_dtype
from tests.kernels.lapack.case import (
    RATIO,
    draw,
    factored,
    inverse,
    operand_of,
    run,
    solution,
    stack_of,
    status,
    watch_plans,
)
from tests.kernels.lapack.spills import check_assembled
from tests.kernels.machine import machine
from tests.thinned import thinned

DTYPES = ["f4", "f8", "c8", "c16"]
TYPES = (f32, f64, c64, c128)
# Few multiprocessors, so that of many panels only some are at work at a time.
DEVICE = SimpleNamespace(num_sms=4, cc=(8, 6), max_shared_nbytes=99 * 1024, tuned=lambda _: None)
CLUSTERS = SimpleNamespace(num_sms=132, cc=(9, 0), max_shared_nbytes=227 * 1024, tuned=lambda _: None)


def check_factors(found, a):
    """Compare with LAPACK's pivots and with what its test of ``||P A - L U||`` allows."""
    factors, pivots, permutation = found
    rows_, columns = a.shape
    depth = min(a.shape)
    lower = np.tril(factors[:, :depth], -1) + np.eye(rows_, depth, dtype=a.dtype)
    upper = np.triu(factors[:depth])
    assert np.array_equal(pivots, scipy.linalg.lu_factor(a)[1])
    assert np.array_equal(np.sort(permutation), np.arange(rows_))
    residual = np.linalg.norm(a[permutation] - lower @ upper, 1)
    assert residual <= RATIO * columns * np.finfo(a.dtype).eps * np.linalg.norm(a, 1)


@pytest.mark.parametrize(
    "dtype", ["f8", *(pytest.param(dtype, marks=pytest.mark.slow) for dtype in ("f4", "c8")), "c16"]
)
@pytest.mark.parametrize("shape", [(1, 1), (20, 20), (70, 70), (40, 17), (17, 40)], ids=str)
def test_factors(shape, dtype):
    a = draw(np.random.default_rng(1), dtype, *shape)
    *found, status = factored(machine(), DEVICE, a)
    assert status == diagonal.NO_ZERO
    check_factors(found, a)


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        ("f8", (40, 70)),
        ("c16", (40, 40)),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in (("f8", (100, 100)), ("f4", (2, 90, 70)))),
    ],
    ids=str,
)
def test_panels_that_bring_all_to_their_right_up_to_date(dtype, shape):
    grouped = SimpleNamespace(**vars(DEVICE) | {"tuned": lambda _: {"width": 128, "group": 128}})
    a = draw(np.random.default_rng(7), dtype, *shape)
    *found, status = factored(machine(), grouped, a)
    assert status == diagonal.NO_ZERO
    flat = [x.reshape(-1, *x.shape[x.ndim - n :]) for x, n in zip((*found, a), (2, 1, 1, 2), strict=True)]
    for *each, matrix in zip(*flat, strict=True):
        check_factors(each, matrix)


@pytest.mark.parametrize(
    ("dtype", "shape", "is_late"),
    [
        ("f8", (70, 90), True),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                ("f8", (130, 150), True),
                ("f8", (150, 130), False),
                ("f8", (150, 130), True),
                ("c16", (100, 140), True),
                ("f4", (200, 200), False),
            )
        ),
    ],
    ids=str,
)
def test_block_columns_that_are_factored_beside_others(dtype, shape, is_late, monkeypatch):
    """Whichever side comes first."""
    answer = {"width": 64, "group": 32, "looks_ahead": True}
    ahead = SimpleNamespace(**vars(DEVICE) | {"tuned": lambda _: answer})
    plans = watch_plans(monkeypatch, lu, "plan_factor", is_late=is_late)
    a = draw(np.random.default_rng(8), dtype, *shape)
    *found, status = factored(machine(), ahead, a)
    assert status == diagonal.NO_ZERO
    assert any(isinstance(step, Beside) for step in plans[0].steps)
    check_factors(found, a)


@pytest.mark.parametrize("is_late", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_block_columns_that_are_narrower_near_the_end(is_late, monkeypatch):
    monkeypatch.setattr(lu, "NARROW_ROWS", 80)
    monkeypatch.setattr(lu, "NARROW_WIDTH", 32)
    answer = {"width": 64, "group": 32, "looks_ahead": True}
    ahead = SimpleNamespace(**vars(DEVICE) | {"tuned": lambda _: answer})
    plans = watch_plans(monkeypatch, lu, "plan_factor", is_late=is_late)
    a = draw(np.random.default_rng(8), "f8", 110, 115)
    *found, status = factored(machine(), ahead, a)
    assert status == diagonal.NO_ZERO
    assert sum(isinstance(step, Beside) for step in plans[0].steps) == 4
    check_factors(found, a)


def ahead_of(width):
    """A device on which block columns are so wide and look ahead."""
    answer = {"width": width, "group": 32, "looks_ahead": True}
    return SimpleNamespace(**vars(DEVICE) | {"tuned": lambda _: answer})


@pytest.fixture
def narrow(monkeypatch):
    """Let block columns be of one panel each."""
    monkeypatch.setattr(lu, "OUTER_WIDTHS", (32,))


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("looks_ahead", [True, False])
def test_of_matrices_of_which_l_is_not_asked_for_less_changes_places(looks_ahead):
    """U, pivots and permutations are the same."""
    device = ahead_of(32) if looks_ahead else SimpleNamespace(**vars(DEVICE) | {"tuned": lambda _: {"width": 32}})
    a = draw(np.random.default_rng(9), "f8", 80, 85)
    plans = [lu.plan_factor(stack_of(a), device, keeps_lower=flag) for flag in (True, False)]
    made = a, np.zeros(80, np.uint32), np.zeros(80, np.uint32), status()
    whole, upper = (run(machine(), plan, made) for plan in plans)
    assert np.array_equal(np.triu(whole[0]), np.triu(upper[0]))
    for found, wanted in zip(upper[1:], whole[1:], strict=True):
        assert np.array_equal(found, wanted)
    launches = [[step for step in in_order(plan.steps) if isinstance(step, Launch)] for plan in plans]
    moved = [sum(step.work.nbytes for step in steps if step.kernel.name == "exchange_rows") for steps in launches]
    assert moved[1] < 0.8 * moved[0]


@pytest.mark.parametrize("dtype", ["f8", pytest.param("c16", marks=pytest.mark.slow)])
def test_lists_of_exchanges_come_to_shared_memory_at_once(dtype, monkeypatch):
    """The same rows change places."""
    a, found = draw(np.random.default_rng(11), dtype, 72, 75), []
    for fewest in (2, 100):
        monkeypatch.setattr(rows, "FEWEST_KEPT", fewest)
        plan = lu.plan_factor(stack_of(a), ahead_of(64))
        made = a, np.zeros(72, np.uint32), np.zeros(72, np.uint32), status()
        found.append(run(machine(), plan, made))
        kernels = {step.kernel for step in in_order(plan.steps) if isinstance(step, Launch)}
        assert sum(kernel.name == "exchange_rows" for kernel in kernels) == (2 if fewest == 2 else 1)
    check_factors(found[0][:3], a)
    for x, y in zip(*found, strict=True):
        assert np.array_equal(x, y)


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("is_late", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_matrices_come_in_while_the_first_block_column_is_factored(is_late, monkeypatch):
    """Column by column in memory, whichever side comes first."""
    rng, device = np.random.default_rng(10), ahead_of(32)
    a, b = draw(rng, "f8", 40, 40), draw(rng, "f8", 40, 3)
    monkeypatch.setattr(lu_strips, "SHAPES", ())
    wanted, _ = solution(machine(), device, a.T.copy(), b)
    monkeypatch.setattr(lu, "FILLS_AHEAD", 40)
    plans = watch_plans(monkeypatch, lu, "plan_factor", is_late=is_late)
    plan = lapack.plan_solve(b.shape, operand_of(a.T), operand_of(b), device)
    x, word = run(machine(), plan, (np.full_like(b, np.nan), status()), (a, b))
    first = next(step for step in plans[0].steps if isinstance(step, Beside))
    copies = first.urgent if is_late else first.rest
    assert [step.kernel.name.split("_")[0] for step in copies] == ["elementwise"] * 2
    assert word == diagonal.NO_ZERO
    assert np.array_equal(x, wanted)


def test_products_beside_a_cluster_leave_it_its_multiprocessors():
    answer = {"width": 512, "group": 128, "looks_ahead": True}
    ahead = SimpleNamespace(
        **vars(CLUSTERS) | {"tuned": lambda choice: answer if choice.family == "lu/outer" else None}
    )
    steps = lu.plan_factor(lu.contiguous(f64, 1, 8192, 8192), ahead).steps
    sides = [step for step in steps if isinstance(step, Beside)]
    panels = [step for step in sides if step.urgent[0].kernel.name == "lu_cluster_panel"]
    assert len(panels) == (8192 - lu.NARROW_ROWS) // 512 + lu.NARROW_ROWS // lu.NARROW_WIDTH - 1
    (cluster, _, _), grid = panels[0].urgent[0].grid, panels[0].rest[0].grid[0]
    assert (cluster, grid) == (16, 132 - 16)


def test_several_block_columns():
    a = draw(np.random.default_rng(2), "f8", 140, 140)
    check_factors(factored(machine(), DEVICE, a)[:3], a)


@pytest.mark.parametrize(
    ("dtype", "shape"), [("f8", (140, 70)), ("f4", (20, 40)), pytest.param("c16", (150, 20), marks=pytest.mark.slow)]
)
def test_panels_of_a_cluster(dtype, shape):
    a = draw(np.random.default_rng(2), dtype, *shape)
    *found, status = factored(machine(), CLUSTERS, a)
    assert status == diagonal.NO_ZERO
    check_factors(found, a)


@pytest.mark.parametrize(
    ("dtype", "shape", "looks_ahead"),
    [
        ("f8", (140, 70), True),
        ("f8", (75, 75), False),
        pytest.param("f4", (100, 200), True, marks=pytest.mark.slow),
        pytest.param("f8", (150, 150), True, marks=pytest.mark.slow),
        pytest.param("c8", (97, 97), True, marks=pytest.mark.slow),
        pytest.param("c16", (75, 60), True, marks=pytest.mark.slow),
    ],
)
def test_panels_that_are_factored_together(dtype, shape, looks_ahead, monkeypatch):
    """The last ones are narrower, and rows of U to their right are those of both."""
    monkeypatch.setattr(lu_cluster, "SHAPES", ((32, 2), (64, 4)))
    answer = {"width": 128, "group": 128, "looks_ahead": looks_ahead}
    device = SimpleNamespace(
        **vars(CLUSTERS) | {"tuned": lambda choice: answer if choice.family == "lu/outer" else None}
    )
    plans = watch_plans(monkeypatch, lu, "plan_factor", is_late=False)
    a = draw(np.random.default_rng(2), dtype, *shape)
    *found, status = factored(machine(), device, a)
    assert status == diagonal.NO_ZERO
    check_factors(found, a)
    steps = [step for step in in_order(plans[0].steps) if isinstance(step, Launch)]
    width = WIDTHS[a.itemsize] * (2 if looks_ahead else 1)
    block_columns = [min(128, min(shape) - low) for low in range(0, min(shape), 128)]
    launches = [step for step in steps if step.kernel.name == "lu_cluster_panel"]
    assert len(launches) == sum(-(-columns // width) for columns in block_columns)


def test_pivots_of_panels_that_are_factored_together():
    a = scipy.linalg.hadamard(64).astype("f4")  # every column has equal ones, and every step is exact
    a[:, 35] = a[:, 3]
    answer = {"width": 64, "group": 64, "looks_ahead": True}
    device = SimpleNamespace(
        **vars(CLUSTERS) | {"tuned": lambda choice: answer if choice.family == "lu/outer" else None}
    )
    factors, pivots, _, status = factored(machine(), device, a)
    right = scipy.linalg.lu_factor(a[:, :35])
    assert status == 35
    assert pivots[:35].tolist() == right[1].tolist()
    assert np.array_equal(factors[:35, :35], right[0][:35])  # rows below change places later on


@pytest.mark.parametrize("dtype", ["f8", pytest.param("c8", marks=pytest.mark.slow)])
@pytest.mark.parametrize("value", [np.nan, pytest.param(-np.inf, marks=pytest.mark.slow), 0])
def test_pairs_of_panels_have_the_pivots_of_others(dtype, value, monkeypatch):
    """Of NaN and infinity, the first in a column; where a column is zero, the row that is there."""
    monkeypatch.setattr(lu_cluster, "SHAPES", ((32, 2), (64, 4)))
    answer = {"width": 64, "group": 64, "looks_ahead": True}
    pairs = SimpleNamespace(
        **vars(CLUSTERS) | {"tuned": lambda choice: answer if choice.family == "lu/outer" else None}
    )
    a = draw(np.random.default_rng(12), dtype, 66, 66)
    for column in (31, 40):
        a[:, column] = a[:, column] if value else 0
        a[[50, 60, 64], column] = value
    found, wanted = (factored(machine(), device, a) for device in (pairs, DEVICE))
    for x, y in zip(found[1:], wanted[1:], strict=True):
        assert np.array_equal(x, y)
    assert found[-1] == (diagonal.NO_ZERO if value else 31)
    assert np.array_equal(np.isfinite(found[0]), np.isfinite(wanted[0]))


@pytest.mark.parametrize(
    ("dtype", "n", "columns", "scale"),
    [
        ("f8", 300, 1, 1.0),
        ("f4", 130, 2, 1.0),
        ("c16", 150, 2, 1.0),
        ("c8", 40, 1, 1.0),
        ("f8", 60, 1, 1e-305),
        ("f8", 60, 1, 1e301),
    ],
)
def test_back_substitution(dtype, n, columns, scale, monkeypatch):
    """What lies below the diagonal and beside X stays, and is not read; pivots may be near the ends of the range."""
    monkeypatch.setattr(back_substitution, "FEWEST_ROWS", 1)
    given = draw(np.random.default_rng(n), dtype, n, n + columns + 5)
    given[:, :n] += 4 * np.eye(n)
    given = (given * scale).astype(dtype)
    given[:, :n][np.tri(n, k=-1, dtype=bool)] = np.nan
    device = SimpleNamespace(**vars(CLUSTERS) | {"num_sms": 2})
    spec, scratch, (a,) = back_substitution.choose(from_dtype(dtype), n, columns, device), Scratch(), outputs(1)
    places = a, a.at(n * given.itemsize), scratch.take(4 * n)
    plan = scratch.plan(back_substitution.steps(spec, n, n + columns + 5, places, device))
    (found,) = run(machine(), plan, [given.copy()], ())
    x, upper = found[:, n : n + columns].copy(), np.triu(given[:, :n])
    found[:, n : n + columns] = given[:, n : n + columns]
    assert np.array_equal(found, given, equal_nan=True)
    norms = [np.linalg.norm(y / scale, 1) for y in (upper @ x - given[:, n : n + columns], upper)]
    assert norms[0] <= RATIO / 10 * np.finfo(dtype).eps * norms[1] * np.linalg.norm(x, 1)


@pytest.mark.parametrize("columns", [1, back_substitution.MOST_COLUMNS + 1])
def test_solutions_by_back_substitution(columns, monkeypatch):
    monkeypatch.setattr(back_substitution, "FEWEST_ROWS", 40)
    monkeypatch.setattr(lu_strips, "SHAPES", ())
    rng = np.random.default_rng(7)
    a, b = draw(rng, "f8", 45, 45), draw(rng, "f8", 45, columns)
    x, status = solution(machine(), DEVICE, a, b)
    assert status == diagonal.NO_ZERO
    norms = [np.linalg.norm(y, 1) for y in (b - a @ x, a, x)]
    assert norms[0] <= RATIO * 45 * np.finfo("f8").eps * norms[1] * norms[2]


def test_pivots_of_a_cluster():
    a = scipy.linalg.hadamard(256).astype("f4")[:, :9].copy()
    a[:, 7] = 0
    a[200, 8] = np.nan
    _, pivots, _, status = factored(machine(), CLUSTERS, a)
    assert status == 7
    assert pivots[:7].tolist() == scipy.linalg.lu_factor(a[:, :7])[1].tolist()
    assert pivots[7:].tolist() == [7, 200]


@pytest.mark.parametrize(
    ("dtype", "looks_ahead"),
    [("f8", True), *(pytest.param(*case, marks=pytest.mark.slow) for case in (("f4", False), ("c8", True)))],
)
def test_panels_whose_threads_have_two_rows_until_one_is_enough(dtype, looks_ahead, monkeypatch):
    monkeypatch.setattr(lu_cluster, "SHAPES", ((32, 2), (32, 2, 2)))
    answer = {"width": 64, "group": 32, "looks_ahead": looks_ahead}
    device = SimpleNamespace(
        **vars(CLUSTERS) | {"tuned": lambda choice: answer if choice.family == "lu/outer" else None}
    )
    a = draw(np.random.default_rng(6), dtype, 90, 75)
    *found, status = factored(machine(), device, a)
    assert status == diagonal.NO_ZERO
    check_factors(found, a)


@pytest.mark.parametrize("power", [-1030, 1010])
def test_pivots_of_a_cluster_at_the_ends_of_the_range(power):
    """Multipliers are at most one, whether or not a pivot's reciprocal is a number of full precision."""
    plain = draw(np.random.default_rng(4), "f8", 40, 6).astype("f4").astype("f8")  # exact however it is scaled
    powers = np.array([power, power, power, 0, 0, power])
    factors, pivots, _, status = factored(machine(), CLUSTERS, np.ldexp(plain, powers))
    wanted, wanted_pivots = scipy.linalg.lu_factor(plain)
    assert status == diagonal.NO_ZERO
    assert np.array_equal(pivots, wanted_pivots)
    bits = 53 - max(-1022 - power, 0) - 8  # that elements have, of which elimination loses some
    np.testing.assert_allclose(np.tril(factors, -1), np.tril(wanted, -1), rtol=0, atol=2.0**-bits)


def test_stacks_of_matrices_of_several_blocks():
    a = draw(np.random.default_rng(3), "f4", 3, 70, 35)
    factors, pivots, permutation, _ = factored(machine(), DEVICE, a)
    for i in range(len(a)):
        check_factors((factors[i], pivots[i], permutation[i]), a[i])


def test_the_first_of_equal_elements_is_the_pivot():
    a = scipy.linalg.hadamard(64).astype("f8")  # every column has equal ones, and every step is exact
    assert np.array_equal(factored(machine(), DEVICE, a)[1], scipy.linalg.lu_factor(a)[1])


@pytest.mark.parametrize("column", [*(pytest.param(i, marks=pytest.mark.slow) for i in (0, 33)), 69])
def test_the_first_pivot_that_is_zero(column):
    a = draw(np.random.default_rng(5), "f8", 70, 70)
    a[:, column] = 0
    factors, *_, status = factored(machine(), DEVICE, np.stack([np.eye(70), a]))
    assert status == 70 + column
    assert np.isfinite(factors).all()


def test_nan_is_passed_on():
    a = draw(np.random.default_rng(6), "f8", 20, 20)
    a[4, 3] = np.nan
    factors, *_, status = factored(machine(), DEVICE, a)
    assert status == diagonal.NO_ZERO
    assert np.isnan(factors[-1, -1])


@pytest.mark.parametrize(("shape", "dtype"), thinned([(1, 1), (35, 3), (2, 40, 2)], DTYPES), ids=str)
def test_solutions(shape, dtype):
    rng = np.random.default_rng(7)
    *batch, n, columns = shape
    a, b = draw(rng, dtype, *batch, n, n), draw(rng, dtype, *shape)
    x, status = solution(machine(), DEVICE, a, b)
    assert status == diagonal.NO_ZERO
    norms = [np.linalg.norm(y, 1, axis=(-2, -1)) for y in (b - a @ x, a, x)]
    assert columns
    assert (norms[0] <= RATIO * n * np.finfo(dtype).eps * norms[1] * norms[2]).all()


def test_solutions_of_single_precision_that_double_is_faster_for(monkeypatch):
    monkeypatch.setattr(lapack, "WIDENED", 40)
    rng = np.random.default_rng(9)
    a, b = draw(rng, "f4", 40, 40), draw(rng, "f4", 40, 2)
    x, status = solution(machine(), DEVICE, a, b)
    assert status == diagonal.NO_ZERO
    assert x.dtype == a.dtype
    wide = np.linalg.solve(a.astype("f8"), b)
    assert np.abs(x - wide).max() <= 2 * np.finfo("f4").eps * np.abs(wide).max()


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        ("f8", (1, 1)),
        ("f4", (2, 20, 20)),
        ("c16", (20, 20)),
        ("f8", (70, 70)),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in (("c16", (70, 70)), ("f8", (150, 150)))),
    ],
)
def test_inverses(dtype, shape):
    a = draw(np.random.default_rng(8), dtype, *shape)
    x, status = inverse(machine(), DEVICE, a)
    assert status == diagonal.NO_ZERO
    norms = [np.linalg.norm(y, 1, axis=(-2, -1)) for y in (a @ x - np.eye(shape[-1]), a, x)]
    assert (norms[0] <= RATIO * shape[-1] * np.finfo(dtype).eps * norms[1] * norms[2]).all()


@pytest.mark.parametrize(
    ("cc", "num_sms", "most"), [((9, 0), 132, 16), ((10, 0), 148, 16), ((12, 0), 170, 8), ((9, 0), 78, 8)]
)
def test_clusters_are_as_large_as_devices_are_known_for(cc, num_sms, most):
    device = SimpleNamespace(**vars(CLUSTERS) | {"cc": cc, "num_sms": num_sms})
    found = [lu_cluster.choose(f64, rows_, device) for rows_ in range(1000, 9000, 1000)]
    assert max(spec.num_blocks for spec in found if spec is not None) == most


def test_more_rows_than_blocks_hold_are_refused():
    assert lapack.is_possible(f64, 1000, DEVICE)
    assert not lapack.is_possible(f64, 1 << 20, DEVICE)
    with pytest.raises(ValueError, match="a panel of 1048576 rows"):
        lapack.plan_invert((1 << 20, 1 << 20), Operand(f64, (1 << 20, 1)), DEVICE)


KERNELS = [
    *(
        lu_panel.make(PanelSpec(type_, height, flag))
        for type_ in TYPES
        for height in (64, 512)
        for flag in (True, False)
    ),
    *(rows.make_exchange(ExchangeSpec(type_, WIDTHS[type_.nbytes])) for type_ in TYPES),
    *(rows.make_permute(PermuteSpec(type_, flag, is_inverse=not flag)) for type_ in TYPES for flag in (True, False)),
    *(rows.make_permute(PermuteSpec(type_)) for type_ in TYPES),
    *(diagonal.make(type_) for type_ in TYPES),
    rows.make_start(),
]


def test_kernels_assemble_without_spills():
    check_assembled(KERNELS)


def test_kernels_of_clusters_assemble_without_spills():
    kernels = [
        lu_cluster.make(ClusterSpec(c128, *lu_cluster.SHAPES[-2])),  # which needs the most registers
        lu_cluster.make(ClusterSpec(c64, *lu_cluster.SHAPES[-1])),  # of two rows
        *(lu_cluster.make(ClusterSpec(type_, 256, 16, 1, 2)) for type_ in TYPES),
        *(back_substitution.make(BackSubstitutionSpec(type_, 64, 2)) for type_ in TYPES),
        *(back_substitution.make(BackSubstitutionSpec(type_, 128, 1, follows=True)) for type_ in (f32, f64, c64)),
        *(rows.make_exchange(ExchangeSpec(type_, width, True, 2)) for type_, width in ((f64, 32), (c128, 16))),
        rows.make_exchange(ExchangeSpec(c128, 16, follows=True)),
        *(rows.make_exchange(ExchangeSpec(type_, 16, True, 1, 64)) for type_ in (f64, c128)),
    ]
    check_assembled(kernels, {"sm_90": "8.0"})
