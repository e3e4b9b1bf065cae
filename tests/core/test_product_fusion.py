"""Products and what is made of them: one launch where nothing else uses the product, and the very values of two."""

# ruff: noqa: ICN001, ARG005 - oxinp is np, programs of one signature

import numpy
import pytest

import oxinp as np
from oxinp import _runtime
from oxinp._core.lazy import calls
from oxinp._core.lazy.op import BoundOp
from tests.core.matrices import draw

DTYPES = ["?", "i1", "u2", "i4", "i8", "f2", "f4", "f8", "c8", "c16"]
CHAINS = {
    "a bias": lambda n, p, c, row, column: p + row,
    "along columns": lambda n, p, c, row, column: column + p,
    "another product's": lambda n, p, c, row, column: p * p,
    "alpha and beta": lambda n, p, c, row, column: 3 * p + 2 * c,
    "a ReLU": lambda n, p, c, row, column: n.maximum(p + row, 0),
    "a comparison": lambda n, p, c, row, column: p > c,
    "a cast": lambda n, p, c, row, column: p.astype("c16"),
    "a narrower cast": lambda n, p, c, row, column: (p + row).astype("c8" if p.dtype.kind == "c" else "i2"),
    "a choice": lambda n, p, c, row, column: n.where(c == 0, p, column),
    "a copy": lambda n, p, c, row, column: p.copy(),
    "everything": lambda n, p, c, row, column: (p * c + row) * column,
}


@pytest.fixture(autouse=True)
def on_device(config):
    config.offload_threshold = 0


def drawn(dtype, batch=()):
    """A, B, C, a row and a column."""
    rng = numpy.random.default_rng(4)
    shapes = ((*batch, 33, 40), (40, 18), (*batch, 33, 18), (18,), (33, 1))
    return [np.asarray(draw(rng, shape, dtype)) for shape in shapes]


def outcome(body):
    """What a program gives, or the exception that NumPy has it end in."""
    try:
        with numpy.errstate(all="ignore"):
            return body()
    except (TypeError, numpy.exceptions.ComplexWarning) as error:
        return type(error)


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize(("dtype", "batch"), [*((dtype, ()) for dtype in DTYPES), ("f4", (3,))], ids=str)
def test_a_chain_is_computed_with_the_product(launches, dtype, name, batch):
    a, b, *others = drawn(dtype, batch)
    chain = CHAINS[name]
    product = a @ b
    np.evaluate(product, *others)
    apart = outcome(lambda: chain(np, product, *others))
    np.evaluate(apart)
    found = []
    taken = launches(lambda: found.append(outcome(lambda: chain(np, a @ b, *others))) or found[0])
    if isinstance(apart, type):
        assert found[0] is apart
        return
    assert taken == (2 if name == "a ReLU" and found[0].dtype.kind == "c" else 1)  # which is long
    assert found[0].dtype == apart.dtype
    numpy.testing.assert_array_equal(numpy.asarray(found[0]), numpy.asarray(apart))


@pytest.mark.parametrize(
    ("function", "taken"),
    [
        (lambda n, a, b, c: a @ b + c, 1),
        (lambda n, a, b, c: a.T.copy().T @ b - c, 2),  # and the copy
        (lambda n, a, b, c: a[:, ::-1] @ b + c, 2),  # likewise
        (lambda n, a, b, c: n.matmul(a, b, out=c), 1),
        (lambda n, a, b, c: n.add(a @ b, c, out=c), 1),
        (lambda n, a, b, c: n.einsum("ij,jk->ik", a, b) + c, 1),
        (lambda n, a, b, c: n.dot(a, b) - c, 1),
        (lambda n, a, b, c: n.multiply(a @ b, 0.5, dtype="f8"), 1),
    ],
)
def test_ways_to_write_a_product(launches, function, taken):
    a, b, c, *_ = drawn("f4")
    hosted = [numpy.asarray(x).copy() for x in (a, b, c)]
    np.evaluate(a, b, c)
    results = []
    assert launches(lambda: results.append(function(np, a, b, c)) or results[0]) == taken
    expected = function(numpy, *hosted)
    assert results[0].dtype == expected.dtype
    numpy.testing.assert_allclose(numpy.asarray(results[0]), expected, rtol=1e-5, atol=1e-4)


def both(product, c):
    return product + c, product * 2


@pytest.mark.parametrize(
    ("body", "taken"),
    [
        (lambda a, b, c, row: a @ b, 1),
        (lambda a, b, c, row: (p := a @ b, p + c), 2),  # the product is wanted, too
        (lambda a, b, c, row: both(a @ b, c), 3),  # by two
        (lambda a, b, c, row: (a @ b) + (a[::-1] @ b), 2),  # one of them
        (lambda a, b, c, row: (a @ b).sum(), 2),
        (lambda a, b, c, row: (a @ b).T + c.T, 2),
        (lambda a, b, c, row: np.tanh(a @ b), 2),  # too long to be compiled for every sum
        (lambda a, b, c, row: (a @ b)[1:] + row, 2),
        (lambda a, b, c, row: (a @ b) + c[:, ::-1], 2),  # read across rows
        (lambda a, b, c, row: (a @ b) @ b.T + a, 2),
    ],
)
def test_what_is_apart(launches, body, taken):
    a, b, c, row, _ = drawn("f4")
    np.evaluate(a, b, c, row)
    assert launches(lambda: body(a, b, c, row)) == taken


def test_products_cut_along_k_are_apart(launches):
    rng = numpy.random.default_rng(1)
    a, b = (np.asarray(draw(rng, shape, "f4")) for shape in ((16, 3000), (3000, 16)))
    np.evaluate(a, b)
    found = []
    assert launches(lambda: found.append(a @ b) or found[0]) == 2
    apart, found = found[0], []
    assert launches(lambda: found.append(a @ b + 1) or found[0]) == 3
    numpy.testing.assert_array_equal(numpy.asarray(found[0]), numpy.asarray(apart + 1))


@pytest.mark.parametrize("change", [
    lambda a, b, c: a.__setitem__(slice(2, 4), 7),
    lambda a, b, c: b.__setitem__((..., 3), -1),
    lambda a, b, c: c.__setitem__((0, 0), 9),
    lambda a, b, c: a.__imul__(2),
    lambda a, b, c: a.__setitem__(..., a[::-1]),
    lambda a, b, c: c.__setitem__(..., a @ b),
    lambda a, b, c: a[:, :20].__iadd__(a @ b),
    lambda a, b, c: a.fill(3),
    lambda a, b, c: a.sort(axis=0),
], ids=range(9))  # fmt: skip
def test_operands_may_change_before_the_product_is_computed(twin, change):
    def body(n):
        a, b = n.arange(1200.0).reshape(30, 40), n.arange(800.0).reshape(40, 20)
        c = n.ones((30, 20))
        total = n.maximum(a @ b + c, 5)
        change(a, b, c)
        return total, a, b, c

    twin(body)


def test_a_product_that_is_written_to(twin):
    def body(n):
        a, b = n.arange(1200.0).reshape(30, 40), n.arange(800.0).reshape(40, 20)
        p = a @ b
        q = p + 1
        p[3] = 0
        r = p * 2
        p += q
        s = n.matmul(a, b, out=q)
        a @= n.eye(40)
        return p, q, r, s, a

    twin(body)


def test_errors_are_raised_at_the_call():
    a, b, *_ = drawn("f4")
    with pytest.raises(ValueError, match="mismatch"):
        b @ a[:, :7]
    product = a @ b
    with pytest.raises(ValueError, match="broadcast"):
        product + numpy.ones(5)


def test_nothing_is_computed_for_nobody(launches):
    a, b, *_ = drawn("f4")
    np.evaluate(a, b)
    assert launches(lambda: (a @ b, None)[1:]) == 0
    assert not calls.CALLS


def test_settings_are_those_of_the_call(config):
    a, b, *_ = drawn("f4")
    config.matmul = "native"
    product = a @ b
    held = next(iter(calls.CALLS))()
    config.matmul = "auto"
    assert held.bound.settings[0] == "native"
    np.evaluate(product)


@pytest.mark.slow
def test_many_products_do_not_wait(stats):
    a, b = np.ones((66, 66), np.float32), np.ones((66, 4), np.float32)
    np.evaluate(a, b)
    kept = [a @ b for _ in range(80)]
    assert len(calls.CALLS) <= 64
    assert stats().launches >= 16
    for each in kept[1:]:
        numpy.testing.assert_array_equal(numpy.asarray(each), numpy.asarray(kept[0]))


def test_one_that_fails_is_computed_later(monkeypatch):
    a, b, *_ = drawn("f4")
    expected = numpy.asarray((a @ b) * 1)
    product = a @ b

    def fail(*_):
        raise MemoryError

    monkeypatch.setattr(BoundOp, "run", fail)
    with pytest.raises(MemoryError):
        np.evaluate(product)
    assert len(calls.CALLS) == 1
    monkeypatch.undo()
    numpy.testing.assert_array_equal(numpy.asarray(product), expected)


def test_explained(config):
    config.offload_threshold = 0
    a, b, _, row, _ = drawn("f4")
    np.evaluate(a, b, row)
    with np.explain() as report:
        np.evaluate(np.maximum(a @ b + row, 0))
    assert [entry.what for entry in report.entries if entry.where == "device"] == [
        "matmul add maximum -> float32 (33, 18)"
    ]


def test_flops_and_bytes_of_both_are_counted(monkeypatch):
    a, b, c, row, _ = drawn("f4")
    np.evaluate(a, b, c, row)
    works = []
    backend = _runtime.current()
    make = backend.launcher

    def launcher(kernel, grid, count, constants, work, *rest):
        works.append(work)
        return make(kernel, grid, count, constants, work, *rest)

    monkeypatch.setitem(vars(backend), "launcher", launcher)  # which leaves nothing behind
    np.evaluate(a @ b * 5 + c + row)
    (work,) = works
    assert work == (2 * 33 * 40 * 18, 4 * (33 * 40 + 40 * 18 + 2 * 33 * 18 + 18))
