"""Chains of reductions along rows, of ever new numbers of rows: one launch, and the very bits of several."""

# ruff: noqa: ARG001, ICN001 - programs of one signature, and oxinp is np

import numpy
import pytest

import oxinp as np
from oxinp._core.lazy import row_launches
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
    for i in range(N - 20):
        value = chain(n, x, y, i)
        a[i, : len(value)] = value
        a[: len(value), i] = chain(n, y[:, None] * x, y, i)
    return a


def several(monkeypatch, body):
    """What a body gives where reductions run by themselves."""
    with monkeypatch.context() as patch:
        patch.setattr(row_launches, "launch_of", lambda *_: None)
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


def test_settings_that_change_are_followed(monkeypatch):
    first = written(np, squares)
    np.config.renew()
    assert numpy.asarray(written(np, squares)).tobytes() == numpy.asarray(first).tobytes()
