"""Random programs give what NumPy gives, with everything on the device, with the default placement, and on the host.

Some programs run every time; with ``--full`` many more do, of a seed that nobody has used, which the head of the report
names. Bulk runs are `python -m tests.fuzz`; what hypothesis adds is the shrinking of choices that deletion cannot do.
"""

import contextlib
import os
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies

import oxinp
from tests.fuzz.draw import Draw, RandomDraw
from tests.fuzz.generate import generate, generate_seeded, profiles_for
from tests.fuzz.program import Normwise, Program, Reduction
from tests.fuzz.regressions import PROGRAMS
from tests.fuzz.rules_foreign import foreign_class
from tests.fuzz.rules_functions import EXACT, ROUNDED
from tests.fuzz.rules_library import HESSENBERG, NORMWISE, normwise
from tests.fuzz.rules_make import REARRANGEMENTS
from tests.fuzz.scope import Scope
from tests.fuzz.twin import find_difference, raising_statements

SEEDS = (1, 2)  # of the programs that run every time
CHUNK = 50  # programs of one test
NUM_CHUNKS = 7  # of each seed
NUM_NEW_CHUNKS = 100
HYPOTHESIS_PROGRAMS = 30


class HypothesisDraw(Draw):
    """Choices of hypothesis, which shrinks them when a program fails."""

    def __init__(self, data):
        self._data = data

    def integer(self, low, high):
        """Return an integer of low..high, both included."""
        return self._data.draw(strategies.integers(low, high))


@pytest.fixture(autouse=True)
def synchronous(config):
    """Have errors of indices that the device knows raised by the statement itself, as in NumPy."""
    config.synchronous = True


def _assert_no_difference(program, config):
    difference = find_difference(program, oxinp)
    if difference is not None:
        pytest.fail(_report(program, difference, config), pytrace=False)


def _report(program, difference, config):
    chosen = {name: getattr(config, name) for name in ("offload_threshold", "backend", "synchronous")}
    return f"{difference.message}\n\n{program.script(chosen, raising_statements(program))}"


def _run(programs, config):
    """Run programs to the last one, and report all that differ."""
    found = [(program, find_difference(program, oxinp)) for program in programs]
    reports = [_report(program, difference, config) for program, difference in found if difference is not None]
    if reports:
        pytest.fail("\n\n".join(reports), pytrace=False)


@pytest.mark.parametrize(("value", "into", "is_known"), [(-1, "u8", False), (1, "u8", True), (-1, "i8", True)])
def test_sums_that_numpy_leaves_undefined_are_known(value, into, is_known):
    """An output that does not hold the sum of a chunk: C does not say what the cast gives."""
    found = Reduction("sum", "a1", "float64", None, False, into)
    assert found.is_exact(np.array([value, 3])) == is_known


@pytest.mark.parametrize(("name", "is_bounded"), [("max", False), ("sum", True)])
def test_the_largest_of_complex_nans_has_no_bound(name, is_bounded):
    found = Reduction(name, "a1", None, None, keepdims=False)
    assert found.has_bound(np.array([complex(1, np.nan), 2])) == is_bounded


SUMS = [code for code in ROUNDED if any(name in code for name in ("mean", "average", "std", "var", "cov", "trapezoid"))]


@pytest.mark.parametrize("code", SUMS)
@pytest.mark.parametrize("sign", [1, -1])
def test_rounding_errors_of_sums_that_cancel_are_below_their_bound(code, sign):
    """However a sum is rounded: of equal numbers, and of such as add up to nothing."""
    values = np.array([0.1, 0.1, 0.1, sign * 0.3]) if sign < 0 else np.full(3, 0.1)
    code = code.format(x="x")
    given, exact = (eval(code, {"np": np, "x": values.astype(dtype)}) for dtype in ("f8", "g"))  # noqa: S307
    assert np.all(abs(given - exact) <= Normwise(code, NORMWISE).bound(given))


@pytest.mark.parametrize("code", HESSENBERG)
@pytest.mark.parametrize("dtype", ["f8", pytest.param("f4", marks=pytest.mark.slow)])
def test_hessenberg_forms_that_are_not_unique_have_the_same_outcomes(config, code, dtype):
    """Of rank two: after the second column what is reflected is rounding errors, ours or LAPACK's."""
    config.offload_threshold = 0
    scope = Scope(RandomDraw("1"), (5,), 1000)
    scope.emit("create", f"a1 = np.array(numpy.resize([-1, 2], (5, 5)), dtype='{dtype}')")
    normwise(scope, "linear_algebra", code.format(m="a1", L="foreign.scipy(np, 'linalg')"))
    program = Program(tuple(scope.statements))
    assert len(program.statements[-1].bounded) == 1
    _assert_no_difference(program, config)


def _number_of_elements(value):
    return sum(map(_number_of_elements, value)) if isinstance(value, (list, tuple)) else np.size(value)


@pytest.mark.parametrize("code", [*EXACT, *REARRANGEMENTS])
def test_no_function_makes_far_more_elements_than_it_is_given(code):
    """The triangle of a matrix with as many rows as a long vector has elements takes gigabytes on an emulator."""
    a = np.arange(8192, dtype=np.float32)
    names = {"np": np, "numpy": np, "a": a, "i": (np.atleast_2d(a) > 1) + 0, "q": np.where(a > 1, 1.0, np.nan)}
    made = 0
    with warnings.catch_warnings(action="ignore"), contextlib.suppress(Exception):  # what it does not take is no matter
        made = _number_of_elements(eval(code.format(a="a", b="a", p="a", q="q", i="i"), names))  # noqa: S307
    assert made <= 16 * a.size


@pytest.mark.parametrize(("dtype", "is_drawn"), [("c16", False), ("f8", True)])
def test_absolute_values_that_round_are_not_compared_to_the_bit(dtype, is_drawn):
    scope = Scope(RandomDraw("1"), (4,), 1000)
    scope.emit("create", f"a1 = np.ones(4, dtype='{dtype}')")
    for _ in range(1000):
        foreign_class(scope)
    assert any("abs(_foreign)" in statement.code for statement in scope.statements) == is_drawn


@pytest.mark.parametrize("program", PROGRAMS, ids=[program.origin for program in PROGRAMS])
def test_programs_that_differed_once(config, offload_threshold, program):
    del offload_threshold
    _assert_no_difference(program, config)


@pytest.mark.parametrize("chunk", [pytest.param(i, marks=pytest.mark.slow if i else ()) for i in range(NUM_CHUNKS)])
@pytest.mark.parametrize("seed", SEEDS)
def test_seeded_programs(config, offload_threshold, stats, seed, chunk):
    indices = range(chunk * CHUNK, (chunk + 1) * CHUNK)
    _run([generate_seeded(seed, index, offload_threshold) for index in indices], config)
    # Below infinity the programs must have reached the device, and there must be one for them to reach.
    assert (stats().launches > 0) == (offload_threshold != float("inf"))


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(NUM_NEW_CHUNKS))
def test_new_programs(config, offload_threshold, chunk):
    seed, indices = int(os.environ["OXINP_FUZZ_SEED"]), range(chunk * CHUNK, (chunk + 1) * CHUNK)
    _run([generate_seeded(seed, index, offload_threshold) for index in indices], config)


def test_drawn_programs(config, offload_threshold):
    @settings(
        max_examples=HYPOTHESIS_PROGRAMS,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategies.data())
    def run(data):
        _assert_no_difference(
            generate(HypothesisDraw(data), "drawn by hypothesis", profiles_for(offload_threshold)), config
        )

    run()
