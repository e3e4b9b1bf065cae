"""Reductions over the last axes and what is made of them: one launch, and the very bits of several."""

# ruff: noqa: ARG001, ICN001 - programs of one signature, and oxinp is np

import sys

import numpy
import pytest

import oxinp as np
from oxinp._core.lazy import row_programs, rowwise
from tests.comparator import assert_same

pytestmark = pytest.mark.usefixtures("on_device", "at_once")

SIGNIFICANT = 1e-5


@pytest.fixture
def at_once(monkeypatch):
    """Let new sizes of a known structure have a program when they are first met."""
    monkeypatch.setattr(rowwise, "is_patient", False)


def softmax(n, x):
    e = n.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def standardised(n, x):
    return (x - x.mean(axis=-1, keepdims=True)) / x.std(axis=-1, keepdims=True)


def apart_from_greatest(n, x):
    return x - n.max(x, axis=-1)[:, None]


def logarithm_of_sum(n, x):
    greatest = x.max(axis=-1, keepdims=True)
    return n.log(n.exp(x - greatest).sum(axis=-1, keepdims=True)) + greatest


def by_norm(n, x):
    return x / n.linalg.norm(x, axis=-1, keepdims=True)


def by_root(n, x):
    return x / (n.sqrt((x * x).sum(-1)) + 1)[:, None]


def layer_norm(n, x):
    weight, bias = n.arange(x.shape[-1], dtype=x.dtype) % 7, n.arange(x.shape[-1], dtype=x.dtype) % 5
    n.asarray(weight), n.asarray(bias)
    apart = x - x.mean(-1, keepdims=True)
    spread = n.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return apart / spread * weight + bias


def ranged(n, x):
    low, high = x.min(-1, keepdims=True), x.max(-1, keepdims=True)
    return (x - low) / (high - low)


def masked(n, x):
    return x - n.mean(x, axis=-1, keepdims=True, where=x > 0)


CHAINS = {
    "softmax": softmax,
    "standardised": standardised,
    "less the maximum": apart_from_greatest,
    "log-sum-exp": logarithm_of_sum,
    "norm": by_norm,
    "root of a sum": by_root,
    "layer norm": layer_norm,
    "range": ranged,
    "mask": masked,
}


def drawn(shape, dtype="f4", seed=0):
    rng = numpy.random.default_rng(seed)
    x = rng.standard_normal(shape) * 3
    return (x + 1j * rng.standard_normal(shape) if numpy.dtype(dtype).kind == "c" else x).astype(dtype)


def bits(x):
    return numpy.asarray(x).tobytes()


def one_after_the_other(monkeypatch, body):
    """What a body gives where row-wise kernels are out of the question."""
    with monkeypatch.context() as patch:
        patch.setattr(rowwise, "compute", lambda *_: None)
        result = body()
        np.evaluate(*(result if isinstance(result, tuple) else (result,)))
    return result


@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)
def test_one_launch_and_the_same_bits(monkeypatch, launches, chain):
    host = drawn((37, 100))
    x = np.asarray(host)
    extra = 2 if chain is layer_norm else 0  # that fill the two vectors
    results = []
    assert launches(lambda: results.append(chain(np, x)) or results[0]) == 1 + extra
    expected = one_after_the_other(monkeypatch, lambda: chain(np, x))
    assert bits(results[0]) == bits(expected)
    assert results[0].dtype == numpy.float32
    numpy.testing.assert_allclose(numpy.asarray(results[0]), chain(numpy, host), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("dtype", ["f2", "f8", "c8", "c16", "i4", "u1", "?"])
@pytest.mark.parametrize("shape", [(6, 300), (3, 4, 70), (2, 1023), (5, 3), (257,)], ids=str)
def test_dtypes_and_shapes(monkeypatch, launches, dtype, shape):
    x = np.asarray(drawn(shape, dtype))

    def body():
        return x - x.mean(-1, keepdims=True), x * x.max(-1, keepdims=True), x + x.sum(-1, keepdims=True)

    results = []
    assert launches(lambda: results.append(body()) or results[0]) == 3
    for found, expected in zip(results[0], one_after_the_other(monkeypatch, body), strict=True):
        assert found.dtype == expected.dtype
        assert bits(found) == bits(expected)


def test_specials(twin):
    specials = [numpy.nan, numpy.inf, -numpy.inf, 0.0, -0.0]

    def body(n):
        x = n.asarray(drawn((8, 40)))
        for i, special in enumerate(specials):
            x[i, 3 * i] = special
        x[6] = -numpy.inf
        x[7] = -0.0
        return x - x.max(-1, keepdims=True), x * x.min(-1, keepdims=True), x == x.max(-1, keepdims=True)

    twin(body)


@pytest.mark.parametrize("first", [0, 1, 2, 3], ids=["result", "exponentials", "sum", "maximum"])
@pytest.mark.parametrize("held", [False, True])
def test_looking_early_changes_no_bits(launches, first, held):
    x = np.asarray(drawn((20, 600)))

    def parts():
        greatest = x.max(-1, keepdims=True)
        e = np.exp(x - greatest)
        total = e.sum(-1, keepdims=True)
        return e / total, e, total, greatest

    expected = [bits(part) for part in parts()]
    made = list(parts())
    if not held:
        made[1:] = [part if i == first else None for i, part in enumerate(made[1:], 1)]
    np.evaluate(made[first])
    taken = launches(lambda: tuple(part for part in made if part is not None))
    assert taken <= (1 if first in (0, 1) else 2)
    assert all(part is None or bits(part) == own for part, own in zip(made, expected, strict=True))


def test_what_somebody_holds_is_stored_on_the_way(launches):
    x = np.asarray(drawn((30, 64)))
    kept = []

    def body():
        greatest = x.max(-1, keepdims=True)
        e = np.exp(x - greatest)
        total = e.sum(-1, keepdims=True)
        kept[:] = [greatest, e, total]
        return e / total

    assert launches(body) == 1
    assert launches(lambda: tuple(kept)) == 0
    greatest, e, total = [numpy.asarray(part) for part in kept]
    assert_same(greatest, numpy.asarray(x).max(-1, keepdims=True))
    numpy.testing.assert_allclose(e.sum(-1, keepdims=True), total, rtol=SIGNIFICANT)


def test_results_with_several_readers(launches):
    x = np.asarray(drawn((30, 64)))

    def body():
        total = x.sum(-1, keepdims=True)
        return x - total, x * total

    assert launches(body) == 2
    results = []
    assert launches(lambda: results.append(body()) or np.evaluate() or results[0]) == 2


def test_everything_at_once(launches):
    x = np.asarray(drawn((30, 64)))

    def body():
        e = np.exp(x - x.max(-1, keepdims=True))
        return e, e / e.sum(-1, keepdims=True)

    results = []
    assert launches(lambda: results.append(body()) or np.evaluate() or results[0]) == 1


@pytest.mark.parametrize(
    ("body", "taken"),
    [
        (lambda x: x - x.max(axis=0), 2),  # columns
        (lambda x: x.T - x.T.max(axis=-1, keepdims=True), 2),
        (lambda x: x[:, ::-1] - x[:, ::-1].max(axis=-1, keepdims=True), 2),
        (lambda x: x - x.max(axis=-1), 2),  # which is another row's
        (lambda x: x - x.max(axis=-1)[::-1, None], 2),
        (lambda x: x - x.argmax(axis=-1, keepdims=True), 2),
        (lambda x: x - (x @ x).max(-1, keepdims=True), 2),
        (lambda x: x - x.max(), 1),
        (lambda x: x[5] + x.max(axis=-1, keepdims=True), 1),
        (lambda x: (x - x.max(-1, keepdims=True)).sum(), 2),
        (lambda x: (x - x.max(-1, keepdims=True))[3:], 1),
        (lambda x: x[:, :32] - x[:, 32:].max(-1, keepdims=True), 1),
    ],
)
def test_launches(launches, twin, body, taken):
    x = np.asarray(drawn((64, 64)).round())
    assert launches(lambda: body(x)) == taken
    twin(lambda n: body(n.asarray(drawn((64, 64)).round())))


def test_long_rows(monkeypatch, launches):
    x = np.asarray(drawn((30, 17_000)))
    results = []
    assert launches(lambda: results.append(softmax(np, x)) or results[0]) == 1
    assert bits(results[0]) == bits(one_after_the_other(monkeypatch, lambda: softmax(np, x)))


def test_operands_may_change_before(twin):
    def body(n):
        x = n.asarray(drawn((20, 50)).round())
        y = x - x.max(-1, keepdims=True)
        x[3] = 7
        z = x - x.min(-1, keepdims=True)
        x -= x.max(-1, keepdims=True)
        w = n.subtract(x, x.min(-1, keepdims=True), out=x)
        v = n.maximum(w, x.max(-1, keepdims=True), out=n.empty_like(x))
        x[:, 2:] *= x[:, :-2].max(-1, keepdims=True)
        return x, y, z, w, v

    twin(body)


def test_new_values_under_one_structure(twin):
    def body(n):
        x = n.asarray(drawn((20, 50)).round())
        results = []
        for i in range(4):
            y = x * i - (x + i).max(-1, keepdims=True) * (i + 1)
            results.append(y + (y - i).sum(-1, keepdims=True))
            x = y[1:]
        return tuple(results)

    twin(body)


def test_a_reduction_that_an_input_is_made_of(twin):
    def body(n):
        x = n.asarray(drawn((16, 40)).round())
        greatest = x.max(-1, keepdims=True)
        least = (x.T - greatest[:, 0]).min()  # not over the rows of x
        return x * greatest - least, greatest

    twin(body)


def test_a_loop_over_its_own_result(twin):
    def body(n):
        x = n.asarray(drawn((16, 40)).round())
        for _ in range(12):
            x = x - x.max(-1, keepdims=True) + 1
        return x

    twin(body)


def test_layers_upon_layers(monkeypatch, launches):
    x = np.asarray(drawn((40, 64)))

    def body(count):
        y = x
        for _ in range(count):
            y = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + 1e-5) * 1.5 + y
        return y

    results = []
    assert launches(lambda: results.append(body(5)) or results[0]) == 1
    assert bits(results[0]) == bits(one_after_the_other(monkeypatch, lambda: body(5)))
    assert launches(lambda: body(12)) <= 4


def test_no_memory_for_all_at_once(monkeypatch, twin, launches):
    failures = []

    class Full:
        def run_all(self, leaves):
            failures.append(leaves)
            raise MemoryError

    monkeypatch.setattr(row_programs.RowProgram, "executable", lambda *_: Full())
    twin(lambda n: softmax(n, n.asarray(numpy.zeros((20, 64), "f4"))))
    assert failures
    x = np.asarray(drawn((20, 64)))
    assert launches(lambda: softmax(np, x)) == 3


def test_new_sizes_have_a_program_when_they_have_been_met_often(monkeypatch, launches):
    monkeypatch.setattr(rowwise, "is_patient", True)

    def body(n, x):
        return (x - x.min(-1, keepdims=True)) / (x + 3).max(-1, keepdims=True)

    taken, results = [], []
    for length in (50, *(60,) * (rowwise.EARLY + 2), 70):
        x = np.asarray(drawn((20, length)))
        taken.append(launches(lambda x=x: results.append(body(np, x)) or results[-1]))
        assert_same(results[-1], body(numpy, drawn((20, length))))
    assert taken == [1, *(3,) * rowwise.EARLY, 1, 1, 3]


def test_products_of_new_sizes_have_no_program_whatever_is_made_of_them(monkeypatch):
    monkeypatch.setattr(rowwise, "is_patient", True)
    merged = []
    monkeypatch.setattr(rowwise, "merged", lambda *args: merged.append(args) or row_programs.merged(*args))
    Q, x = np.asarray(drawn((20, 80))), np.asarray(drawn((80,)))
    for k in range(10, 80):
        v = x[:20].copy()
        v -= Q[:, :k] @ x[:k]
        float(np.linalg.norm(v))  # of one size, until which has come often it may be merged
    assert 1 <= len(merged) <= rowwise.EARLY


def test_explained():
    x = np.asarray(drawn((20, 64)))
    with np.explain() as report:
        np.evaluate(softmax(np, x))
    entries = [entry.what for entry in report.entries if entry.where == "device"]
    assert entries == ["rows: max subtract exp sum divide -> float32 (20, 64)"]


def test_chains_without_reductions_are_not_looked_at(monkeypatch):
    def refused(*_):
        raise AssertionError("this is on the path of every operation")

    monkeypatch.setattr(rowwise, "compute", refused)
    x = np.asarray(drawn((20, 64)))
    np.evaluate(x * 2 + 1, np.exp(x - 1))


def test_what_is_merged_is_known_again_by_what_waits_of_it():
    """Chains of one kind: a result is the same one twice or not, waits or has run, has another reader or none."""

    def turn(np, x, y, kind):
        a, b = (x * y).sum(axis=1), (y if kind == "another" else x).max(axis=1)
        c = b if kind == "twice" else a
        if kind == "has run":
            float(b[0])
        made = (a + b) * c
        kept = a * 2 if kind == "read" else None
        return [made + 0, made if kind != "held" else a, *([] if kept is None else [kept])]

    x, y = drawn((20, 64)), drawn((20, 64))
    X, Y = np.asarray(x), np.asarray(y)
    for _ in range(3):
        for kind in ("plain", "twice", "has run", "read", "held", "another"):
            for _ in range(3):
                for ours, numpys in zip(turn(np, X, Y, kind), turn(numpy, x, y, kind), strict=True):
                    numpy.testing.assert_allclose(numpy.asarray(ours), numpys, rtol=1e-6)


def test_a_turn_that_comes_again_finds_out_little():
    """A product that is normalised: its row-wise kernel is found by what it is of, and launched with nothing more."""
    A, x = np.asarray(numpy.eye(96) * 2 + 1) * 1, np.asarray(numpy.ones(96)) * 1
    np.evaluate(A, x)
    for _ in range(60):
        entered = set()
        sys.setprofile(lambda frame, event, _, entered=entered: event == "call" and entered.add(frame.f_code.co_name))
        try:
            x = A @ x
            x /= np.linalg.norm(x)
        finally:
            sys.setprofile(None)
    assert "entries_of" in entered
    assert not {"meet", "_is_reduction", "_is_once", "waiting", "executable", "plan_again", "product_of"} & entered
    numpy.testing.assert_allclose(numpy.asarray(x), numpy.full(96, 96**-0.5))


def test_turns_of_several_kinds_find_out_little():
    """What a loop begins with is merged with others than what it makes: both are known when the loop is run again."""
    A, b = np.asarray(numpy.eye(96) * 2 + 1) * 1, np.asarray(numpy.arange(96.0)) * 1
    np.evaluate(A, b)

    def run():  # conjugate gradients
        r, norms = b - A @ np.zeros(96), []
        p, rho = r.copy(), r @ r
        for _ in range(3):
            q = A @ p
            r -= rho / (p @ q) * q
            rho, before = r @ r, rho
            norms.append(float(np.sqrt(rho)))
            p = r + rho / before * p
        return norms

    for _ in range(30):
        entered = set()
        sys.setprofile(lambda frame, event, _, entered=entered: event == "call" and entered.add(frame.f_code.co_name))
        try:
            first, *_, last = run()
        finally:
            sys.setprofile(None)
    assert "entries_of" in entered
    assert not {"meet", "_is_reduction", "_is_once", "executable", "plan_again"} & entered
    assert first > last
