"""Chains of reductions along rows, of ever new sizes: one launch, and the very bits of several."""

# ruff: noqa: ARG001, ICN001 - programs of one signature, and oxinp is np

import numpy
import pytest

import oxinp as np
from oxinp._core.lazy import row_launches, straight
from oxinp._core.lazy.calls import Pending
from tests.comparator import assert_same

pytestmark = pytest.mark.usefixtures("on_device", "unwatched")

N, LENGTH = 120, 60


def squares(n, x, y, i):
    d = x[i:] - x[i]
    return n.exp(-0.5 * (d * d).sum(axis=1))


def products(n, x, y, i):
    return x[i:] @ x[i] / (y[i:] * y[i])


def greatest(n, x, y, i):
    return x[i:].max(axis=1) - y[i:]


def two(n, x, y, i):
    return x[i:].max(axis=1) - (x[i:] * 2).min(axis=1) + y[i]


def transposed(n, x, y, i):
    return n.sqrt(n.abs(x.T[:, i : i + 7].T[:, :40].sum(axis=1)))


def read_backwards(n, x, y, i):
    return y[::-1][: N - i] - x[i:].sum(axis=1)


CHAINS = {chain.__name__: chain for chain in (squares, products, greatest, two, transposed, read_backwards)}
IN_ONE = ["squares", "products", "greatest", "two"]


def written(n, chain, seed=0):
    """Write a chain of ever fewer rows to rows and to columns of a matrix."""
    rng = numpy.random.default_rng(seed)
    x, y = n.array(rng.random((N, LENGTH))), n.array(rng.random(N) + 0.5)
    a = n.zeros((N, N))
    for i in range(60):
        value = chain(n, x, y, i)
        a[i, : len(value)] = value
        a[: len(value), i] = chain(n, y[:, None] * x, y, i)
    return a


def several(monkeypatch, body):
    """What a body gives where reductions run by themselves."""
    with monkeypatch.context() as patch:
        patch.setattr(row_launches, "row_launch", lambda *_: None)
        result = body()
        np.evaluate(result)
    return result


@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)
def test_numpys_results_and_the_bits_of_several_launches(monkeypatch, chain):
    got = written(np, chain)
    assert_same(got, written(numpy, chain), ulp=64)
    separate = several(monkeypatch, lambda: written(np, chain))
    assert numpy.asarray(got).tobytes() == numpy.asarray(separate).tobytes()


@pytest.mark.parametrize("name", IN_ONE)
def test_new_numbers_of_rows_are_one_launch(name, launches):
    rng = numpy.random.default_rng(1)
    x, y = np.array(rng.random((N, LENGTH))), np.array(rng.random(N) + 0.5)
    a = np.zeros((N, N))

    def fill(first, last):
        for i in range(first, last):
            a[i, i:] = CHAINS[name](np, x, y, i)

    launches(lambda: fill(0, 40))  # most alignments are met some times
    assert launches(lambda: fill(40, 100)) <= 66


def test_vectors_of_new_sizes_are_one_launch(launches):
    x = np.array(numpy.random.default_rng(1).random((N, 90)))
    taken = [launches(lambda i=i: squares(np, x, None, i)) for i in range(70)]
    assert taken[-40:] == [1] * 40


def test_what_is_held_or_read_besides_is_computed_once(launches):
    x, y = (np.array(numpy.random.default_rng(1).random(shape)) for shape in ((N, LENGTH), N))
    a = np.zeros((N, N))

    def held():
        sums = []
        for i in range(60):
            total = x[i:].sum(axis=1)
            a[i, i:] = total * 2 + y[i:]
            sums.append(total)
        return tuple(sums)

    launches(held)
    assert launches(held) == 120

    def read_again():
        for i in range(60):
            chain = np.sqrt(x[i:].sum(axis=1)) + y[i:]
            a[i, i:] = chain
            a[i:, i] = chain * chain

    launches(read_again)
    assert launches(read_again) <= 180


def test_operands_that_are_written_to_are_read_before(twin):
    def body(n):
        a = n.array(numpy.random.default_rng(2).random((N, N)))
        for i in range(60):
            a[i, i + 1 :] = n.sqrt((a[i + 1 :, :LENGTH] * a[i + 1 :, :LENGTH]).sum(axis=1))
        return a

    assert_same(body(np), body(numpy), ulp=64)


def reflected(n, a):
    """Reduce to triangular form by reflections, whose vectors are overwritten by what is made of their norms."""
    for k in range(a.shape[1]):
        v = a[k:, k].copy()
        v[0] += n.copysign(n.linalg.norm(v), v[0])
        v /= n.linalg.norm(v)
        a[k:, k:] -= 2 * n.outer(v, v @ a[k:, k:])
    return a


def orthogonal(n, a):
    q, r = n.zeros(a.shape), n.zeros((a.shape[1],) * 2)
    for k in range(a.shape[1]):
        v = a[:, k].copy()
        h = q[:, :k].T @ v
        v -= q[:, :k] @ h
        r[:k, k] += h
        r[k, k] = n.linalg.norm(v)
        q[:, k] = v / r[k, k]
    return q


def ratios(n, a):
    out = n.zeros(a.shape)
    for i in range(a.shape[1] - 3):
        w = a[i:, i] * 2
        w /= w.max()
        out[i:, i] = w - w.min() / w.sum()
        out[i, i] = n.sqrt(w @ w) + out[i + 1, i]
        out[i + 1, i + 1] = n.sqrt(out[i:, i] @ out[i:, i])
    return out


VECTORS = {program.__name__: program for program in (reflected, orthogonal, ratios)}


@pytest.fixture
def soon(monkeypatch):
    """Let short vectors have kernels as soon as long ones."""
    monkeypatch.setattr(row_launches, "OFTEN_OF_SHORT", row_launches.OFTEN)
    monkeypatch.setattr(row_launches, "LOOKS", 1)


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("program", VECTORS.values(), ids=VECTORS)
def test_vectors_give_the_bits_of_several_launches(monkeypatch, program):
    given = numpy.random.default_rng(5).random((300, 60))
    got = program(np, np.array(given))
    numpy.testing.assert_allclose(numpy.asarray(got), program(numpy, given.copy()), rtol=1e-9, atol=1e-9)
    separate = several(monkeypatch, lambda: program(np, np.array(given)))
    assert numpy.asarray(got).tobytes() == numpy.asarray(separate).tobytes()


def test_short_vectors_of_ever_new_lengths_have_no_kernels_for_a_few_of_them(monkeypatch):
    built = []
    build = row_launches.Alike._build_line
    monkeypatch.setattr(row_launches.Alike, "_build_line", lambda self, *args: built.append(args) or build(self, *args))
    reflected(np, np.array(numpy.random.default_rng(5).random((200, 100))))
    assert not built


def test_short_vectors_of_ever_new_lengths_are_seldom_looked_at(monkeypatch):
    looks, before = [], straight._run_rows
    monkeypatch.setattr(straight, "_run_rows", lambda *args: looks.append(args) or before(*args))
    given = numpy.random.default_rng(5).random((200, 100))
    reflected(np, np.array(given))
    looks.clear()
    reflected(np, np.array(given))
    assert len(looks) <= 100 // row_launches.LOOKS + 1


def test_long_vectors_are_looked_at_between_short_ones(launches):
    x = np.array(numpy.random.default_rng(5).random(3000))

    def grow(size):
        part = x[size:]
        part[0] += np.copysign(np.linalg.norm(part), part[0])

    for i in range(40):
        launches(lambda i=i: grow(i))
        launches(lambda i=i: grow(2900 - i))
    assert launches(lambda: grow(50)) == 1
    assert launches(lambda: grow(2800)) == 2


@pytest.mark.usefixtures("soon")
def test_vectors_of_ever_new_lengths_and_what_is_made_of_them_are_one_launch(launches):
    given = numpy.random.default_rng(5).random((300, 70))
    launches(lambda: reflected(np, np.array(given)))
    a = np.array(given)
    assert launches(lambda: reflected(np, a)) <= 70 * 5 + 12  # the copy, twice a norm, the product and the update


@pytest.mark.usefixtures("soon")
def test_a_value_outlives_the_element_that_it_was_computed_from_and_written_to(twin):
    def body(n):
        found = []
        v = n.array(numpy.random.default_rng(6).random(400))
        for k in range(40):
            norm = n.sqrt(v[k:] @ v[k:])
            chain = v[k] + n.sqrt((v[k:] * v[k:]).sum())
            v[k] = chain
            found += [float(chain), float(v[k]), float(norm)]
        return n.array(found)

    numpy.testing.assert_allclose(numpy.asarray(body(np)), body(numpy), rtol=1e-12)


def test_rows_of_ever_new_lengths_have_no_kernel_each(monkeypatch):
    built = []
    build = row_launches.Alike._build
    monkeypatch.setattr(row_launches.Alike, "_build", lambda self, *args: built.append(args) or build(self, *args))
    a = np.array(numpy.random.default_rng(7).random((90, 200)))
    for k in range(60, 200):
        for _ in range(6):
            v = a[:, 3].copy()
            v -= a[:, :k] @ a[0, :k]
            np.evaluate(v)
    assert len(built) <= 12


def test_products_that_are_no_reductions_along_rows_are_looked_at_once(monkeypatch):
    looks, before = [], straight._run_rows
    monkeypatch.setattr(straight, "_run_rows", lambda *args: looks.append(args) or before(*args))
    given = numpy.random.default_rng(7).random((120, 120))

    def body(n):
        a = n.array(given) + 0.0
        u = n.zeros((120, 120))
        if n is np:
            np.evaluate(a, u)
        for k in range(1, 80):
            u[k, k:] = a[k, k:] - a[k, :k] @ a[:k, k:]
            looks.clear() if k == 5 else None
        few = len(looks)
        u[0, 1:] = a[0, 1:] - a[0, 1:].sum()  # of the same structure
        return u, few

    found, few = body(np)
    assert few == 0
    assert len(looks) == 1
    numpy.testing.assert_allclose(numpy.asarray(found), body(numpy)[0], rtol=1e-12)


def test_rows_of_ever_new_lengths_are_hardly_looked_at(monkeypatch):
    looks = []
    monkeypatch.setattr(row_launches, "_alike", looks.append)
    a = np.array(numpy.random.default_rng(7).random((90, 200)))
    for k in range(60, 200):
        v = a[:, 5].copy()
        v -= a[:, 1:k] @ a[1, 1:k]
        np.evaluate(v)
    assert len(looks) <= 30


def test_what_is_read_alone_counts_as_memory(monkeypatch):
    """A reduction that is computed on the way has none, and asking for it would have it run."""
    read, before = [], row_launches.run_rows
    monkeypatch.setattr(
        row_launches, "run_rows", lambda found, *given: read.append(found.entries) or before(found, *given)
    )
    x = np.array(numpy.random.default_rng(8).random((N, LENGTH)))
    a = np.zeros((N, N))
    for i in range(60):
        a[i, i:] = np.sqrt((x[i:] * x[i:]).sum(axis=1))
    assert len(read) > 30
    assert not any(type(entry) is Pending and entry.call is not None for entries in read for entry in entries)


def test_settings_that_change_are_followed(monkeypatch):
    first = written(np, squares)
    np.config.renew()
    assert numpy.asarray(written(np, squares)).tobytes() == numpy.asarray(first).tobytes()


def test_lines_that_come_again_are_found_by_one_look_up(monkeypatch):
    x = np.array(numpy.random.default_rng(5).random(3000))
    asked, before = [], row_launches._find
    monkeypatch.setattr(row_launches, "_find", lambda *given: asked.append(given) or before(*given))

    def scaled(size):
        part = x[:size] * 1.0
        return numpy.asarray(part / np.linalg.norm(part))

    first = [scaled(size) for size in range(2000, 2010)]
    for _ in range(40):
        for size in range(2000, 2010):
            scaled(size)
    asked.clear()
    again = [scaled(size) for size in range(2000, 2010)]
    assert len(asked) == 0
    assert [each.tobytes() for each in first] == [each.tobytes() for each in again]


def test_numbers_of_rows_alone_take_one_look(monkeypatch):
    asked, before = [], row_launches._find
    x = np.array(numpy.random.default_rng(5).random((N, LENGTH)))
    a = np.zeros((N, N))

    def fill(first, last):
        for i in range(first, last):
            a[i, i:] = np.exp(-0.5 * (x[i:] * x[i:]).sum(axis=1))

    fill(0, 40)
    monkeypatch.setattr(row_launches, "_find", lambda *given: asked.append(given) or before(*given))
    fill(40, 100)
    assert len(asked) < 10
    np.config.renew()
    asked.clear()
    fill(40, 50)
    assert asked


ALTERNATIVES = [
    lambda x, i: (x[i:] * x[i:]).sum(axis=1),
    lambda x, i: (x[i:, 1:] * x[i:, 1:]).sum(axis=1),
    lambda x, i: (x[i:, :-1] * x[i:, :-1]).sum(axis=1),
    lambda x, i: (x[i:, ::2] * x[i:, ::2]).sum(axis=1),
    lambda x, i: (x[i:, ::-1] * x[i:, ::-1]).sum(axis=1),
    lambda x, i: (x[i:] * x[i:]).max(axis=1),
    lambda x, i: (x[i:] * x[i:]).mean(axis=1),
    lambda x, i: (x[i:].astype("f4") * x[i:].astype("f4")).sum(axis=1).astype("f8"),
    lambda x, i: (x[i:] * x[i:]).sum(axis=1, keepdims=True)[:, 0],
    lambda x, i: (x[i:] * x[i:]).sum(axis=1)[::-1],
    lambda x, i: (x[:, i:] * x[:, i:]).sum(axis=0),
    lambda x, i: x[i:] @ x[3],
]


@pytest.mark.parametrize("alternative", range(1, len(ALTERNATIVES)))
def test_what_else_differs_is_told_apart(monkeypatch, alternative):
    """Each turn has what the one before had, but for one thing."""
    programs = ALTERNATIVES[0], ALTERNATIVES[alternative]

    def written(xp):
        x = xp.array(numpy.random.default_rng(6).random((N, N)))
        a, b = xp.zeros((N, N)), xp.zeros((N, N + 1))[:, 1:]
        for i in range(45):
            for program in programs if i > 20 else programs[:1]:
                value = xp.sqrt(2 * program(x, i))
                a[i, i : i + len(value)] = value
                b[: len(value), i] = xp.sqrt(2 * program(x, i))
        return xp.concatenate([a, b])

    got = written(np)
    separate = several(monkeypatch, lambda: written(np))
    assert numpy.asarray(got).tobytes() == numpy.asarray(separate).tobytes()
    numpy.testing.assert_allclose(numpy.asarray(got), written(numpy), rtol=1e-6)


def test_what_is_held_is_computed_for_those_who_hold_it(twin):
    def body(xp):
        x = xp.array(numpy.random.default_rng(6).random((N, LENGTH)))
        a, held = xp.zeros((N, N)), []
        for i in range(60):
            total = (x[i:] * x[i:]).sum(axis=1)
            a[i, i:] = xp.exp(-0.5 * total)
            if i > 30:
                held.append(total)
        return [a, *held]

    twin(body, ulp=64)


def test_what_waits_to_read_an_array_has_its_elements_from_before(twin):
    def body(xp):
        x = xp.array(numpy.random.default_rng(6).random((N, LENGTH)))
        a, read = xp.ones((N, N)), []
        for i in range(60):
            read += [a[i, i:] * 2, x[i:] - 1]
            a[i, i:] = xp.exp(-0.5 * (x[i:] * x[i:]).sum(axis=1))
        return [a, *read]

    twin(body, ulp=64)
