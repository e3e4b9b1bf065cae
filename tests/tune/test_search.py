"""The search on the emulator, with clocks that the tests make: what is found, what is refused, what is never kept."""

import numpy as np
import pytest

import oxinp
from oxinp._driver.errors import DeviceFault
from oxinp._kernels.elementwise import plan as elementwise
from oxinp._kernels.gemm.multistage.spec import TileConfig
from oxinp._kernels.reduce import plan as reduce
from oxinp._tune import problems
from oxinp._tune.problems import shape_of
from tests.tune.toys import CANDIDATES, Toy, toy, tune, tuner_of


def test_the_fastest_is_found(backend):
    (outcome,) = tune(tuner_of(backend), toy())
    row = outcome.row
    assert row.answer == Toy(2)._asdict()
    assert (row.seconds, row.default_seconds) == pytest.approx((2e-6, 5e-6))
    assert outcome.gain == pytest.approx(2.5)
    assert row[:4] == ("toy/adds", ("f64",), (), (1000,))
    assert row.device == "emulator"
    assert (outcome.num_tried, outcome.num_refused, outcome.wrong, outcome.is_complete) == (4, 0, [], True)


def test_what_is_wrong_is_told_and_never_kept(backend):
    wrong = Toy(1, factor=3)
    (outcome,) = tune(tuner_of(backend), toy([*CANDIDATES, wrong]))
    assert outcome.wrong == [wrong]
    assert outcome.row.answer == Toy(2)._asdict()


def test_what_is_hardly_faster_does_not_replace_the_default(backend):
    def hardly(recordings, *_):
        return 1.0 - 1e-3 * len(recordings[0].calls)

    (outcome,) = tune(tuner_of(backend, hardly), toy(default=Toy(2)))
    assert outcome.row.answer == Toy(2)._asdict()
    assert outcome.gain == 1


def test_what_is_refused_is_counted(backend):
    (outcome,) = tune(tuner_of(backend), toy([Toy(1, fault="refuses"), Toy(1, fault="cannot"), *CANDIDATES]))
    assert outcome.num_refused == 2
    assert outcome.row.answer == Toy(2)._asdict()


def test_a_candidate_that_faults_ends_the_search(backend):
    tuner, found = tuner_of(backend), []
    with tuner.open(), pytest.raises(DeviceFault):
        found.extend(
            outcome for outcome in tuner.tune(toy([Toy(1, fault="faults")]), 1.0) if found.append(outcome) or 1
        )
    assert found[0].wrong == [Toy(1, fault="faults")]
    assert found[0].row is None


def test_ctrl_c_keeps_what_was_found(backend):
    trials = []

    def tell(outcome):
        trials.append(outcome.num_tried)
        if len(trials) == 3:
            raise KeyboardInterrupt

    tuner, found = tuner_of(backend), []
    with tuner.open(), pytest.raises(KeyboardInterrupt):
        any(map(found.append, tuner.tune(toy(), 1.0, tell)))
    assert found[0].row.answer == Toy(3)._asdict()
    assert not found[0].is_complete


def test_time_runs_out(backend):
    ticks = iter(range(100))
    tuner = tuner_of(backend, clock=lambda: next(ticks))
    (outcome,) = tune(tuner, toy(), deadline=3)
    assert not outcome.is_complete
    assert outcome.num_tried < len(CANDIDATES)
    assert outcome.row.answer in [candidate._asdict() for candidate in CANDIDATES[:3]]


def test_nothing_is_left_behind(backend):
    capability, methods = backend.capability, set(vars(backend))
    tune(tuner_of(backend), toy())
    assert backend.capability is capability
    assert set(vars(backend)) == methods
    assert oxinp.config.offload_threshold == 65536


def test_kernels_are_planned_without_a_launch(backend, stats):
    tuner = tuner_of(backend)
    with tuner.open():
        x = oxinp.asarray(np.ones(1000))
        for _ in range(3):  # by what is made fastest, and then by what launches fastest
            tuner.compute(toy(), [x])
        before = stats().launches
        kernels = tuner.recorder.kernels(lambda: tuner.compute(toy(), [x]))
        assert kernels == []  # all of it was planned before
        oxinp.config.renew()
        kernels = tuner.recorder.kernels(lambda: tuner.compute(toy(), [x]))
        assert len(kernels) == 2
        assert stats().launches == before + 5


def test_other_problems_begin_with_what_was_best_before(backend):
    tuner = tuner_of(backend)
    tune(tuner, toy())
    asked = []
    with tuner.open():
        (choice,) = tuner.questions(toy())
        asked = tuner.known(choice)
    assert asked == [Toy(2)]


@pytest.mark.slow
def test_a_product_on_the_emulator(backend):
    """The search climbs to the one cut that the clock finds fast, and each on the way multiplies right."""
    target = TileConfig(32, 64, 16, 32, 16, 2)
    (problem,) = problems.problems(["matmul"], ["f8"], [(9, 12, 7)], ["tn"])
    tuner = tuner_of(backend)

    def distance(*_):
        (fields,) = tuner.oracle._forced.values()
        return 1e-6 * (1 + sum(abs(np.log2(a / b)) for a, b in zip(fields.values(), target, strict=True)))

    tuner.timer = distance
    (outcome,) = tune(tuner, problem)
    assert outcome.row.answer == target._asdict()
    assert outcome.row.key == ("f64", "f64")
    assert outcome.wrong == []
    assert outcome.num_tried > 12


@pytest.mark.parametrize(
    ("family", "dtype", "size", "layout", "asked"),
    [
        ("elementwise", "f8", (5000,), "add", "elementwise/linear"),
        ("transpose", "i1", (70, 90), "copy", "transpose/tile"),
        ("reduce", "i1", (40, 900), "all", "reduce/rows"),
        ("reduce", "i1", (40, 900), "columns", "reduce/columns"),
    ],
)
def test_what_moves_bytes_on_the_emulator(backend, monkeypatch, family, dtype, size, layout, asked):
    """Every answer there is computes the same; the one that the clock finds fast is kept."""
    for module in (elementwise, reduce):
        monkeypatch.setattr(module, "MIN_TUNED_NBYTES", 0)
    (problem,) = problems.problems([family], [dtype], [size], [layout])
    tuner = tuner_of(backend)
    tuner.timer = lambda *_: 1e-6 * (sum(next(iter(tuner.oracle._forced.values())).values()) + 1)
    (outcome,) = tune(tuner, problem)
    assert outcome.row.family == asked
    assert outcome.wrong == []
    assert outcome.num_tried > 2
    assert outcome.is_complete
    assert min(outcome.row.answer.values()) == 1
    assert outcome.problem.nbytes_moved > 0


@pytest.mark.parametrize(
    ("family", "asked", "answer"),
    [
        ("cholesky", "cholesky/outer", 128),
        pytest.param("lu", "lu/outer", 128, marks=pytest.mark.slow),
        pytest.param("qr", "qr/block", 64, marks=pytest.mark.slow),
    ],
)
def test_widths_of_factorisations_on_the_emulator(backend, family, asked, answer):
    (problem,) = problems.problems([family], ["f4"], [(70,)])
    tuner = tuner_of(backend)
    tuner.timer = lambda *_: 1e-6 * next(iter(tuner.oracle._forced.values()))["width"]
    (outcome,) = tune(tuner, problem)
    assert outcome.row.family == asked
    assert outcome.wrong == []
    assert outcome.is_complete
    assert outcome.row.answer["width"] == answer


@pytest.mark.parametrize("dtype", ["f2", "f4", "c8", "c16", "i1", "u4", "i8", "?"])
def test_every_dtype_has_operands(dtype):
    (problem,) = problems.problems(["matmul"], [dtype], [(3, 40, 50, 60)], ["nt"])
    for draw in (problem.whole, problem.random):
        a, b = draw()
        assert (a.shape, b.shape, a.dtype) == ((3, 40, 50), (3, 60, 50), np.dtype(dtype))
        assert problem.nbytes == a.nbytes + b.nbytes
    assert problem.flops == (8 if dtype[0] == "c" else 2) * 3 * 40 * 50 * 60


def test_whole_numbers_sum_up_exactly_in_any_order():
    a, b = next(problems.problems(["matmul"], ["f4"], [(64, 16384, 64)])).whole()
    exact = a.astype("f8") @ b.astype("f8")
    assert (a @ b == exact).all()
    assert ((a[:, ::-1] @ b[::-1]) == exact).all()


def test_sizes_and_names():
    assert shape_of("512x8192X64") == (512, 8192, 64)
    for text in ("", "x", "3x", "0", "-4", "2.5"):
        with pytest.raises(ValueError, match="is no size"):
            shape_of(text)
    for arguments in ((["sort"],), (["matmul"], ["f9"]), (["matmul"], [], [(3, 4)]), (["matmul"], [], [], ["no"])):
        with pytest.raises(ValueError, match=r"there is no|a product has"):
            list(problems.problems(*arguments))
