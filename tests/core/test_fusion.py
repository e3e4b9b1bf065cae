"""Chains fuse: what one launch computes, and when it takes one more."""

# ruff: noqa: ARG005, ICN001 - programs of one signature, and oxinp is np

import gc

import numpy
import pytest

import oxinp as np
from oxinp import _runtime
from oxinp._core.lazy import combining, expr
from tests.comparator import assert_same

pytestmark = pytest.mark.usefixtures("on_device")


def arrays(count, shape=(60,), dtype=numpy.float64):
    """Return NumPy arrays, all different, and ours with the same elements."""
    theirs = [(numpy.arange(numpy.prod(shape)) % (7 + i) + i + 1).reshape(shape).astype(dtype) for i in range(count)]
    return theirs, [np.asarray(x) for x in theirs]


CHAINS = {
    "arithmetic": lambda xp, a, b, c: xp.sqrt(a * a + b * b) / (c + 1),
    "operand on the left": lambda xp, a, b, c: 2 - (1 / (a + b)) * c,
    "comparison and where": lambda xp, a, b, c: xp.where(a + b > c, a - b, c * 2),
    "casts": lambda xp, a, b, c: (a * 2).astype(numpy.int64) + (b > c),
    "mixed dtypes": lambda xp, a, b, c: a.astype(numpy.float32) * b + c.astype(numpy.int32),
    "broadcast leaves": lambda xp, a, b, c: a[:, None] * b[None, :] + c,
    "views": lambda xp, a, b, c: a[::-1] + b[5:6] * c[::-1],
    "sum at the end": lambda xp, a, b, c: (a * b + c).sum(),
    "max at the end": lambda xp, a, b, c: xp.max(a * b - c, axis=0),
    "sum of comparison": lambda xp, a, b, c: (a + b > c).sum(),
    "astype at the end": lambda xp, a, b, c: (a * b + c).astype(numpy.float32),
}


@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)
def test_chain_is_one_launch(chain, launches):
    theirs, ours = arrays(3)
    results = []
    assert launches(lambda: results.append(chain(np, *ours)) or results[0]) == 1
    assert_same(results[0], chain(numpy, *theirs))


def test_nothing_runs_before_it_is_needed(stats):
    _, (a, b) = arrays(2)
    np.evaluate()
    before = stats().launches
    c = np.sqrt(a + b) * 2 - a.reshape(60)
    s = (c * c).max()
    assert (c.shape, c.dtype, len(c), s.dtype, s.shape) == ((60,), numpy.float64, 60, numpy.float64, ())
    assert stats().launches == before


def test_shared_node_is_computed_once(launches):
    theirs, ours = arrays(2)

    def doubled(a, b):
        c = a + b
        for _ in range(20):
            c = c * c + c
            c = c / (c + b)
        return c

    # 81 nodes: a tree of them would have 3**20, and what has at most 64 is one kernel.
    results = []
    assert launches(lambda: results.append(doubled(*ours)) or results[0]) == 2
    assert_same(results[0], doubled(*theirs))


def test_same_operand_is_read_once():
    _, (a,) = arrays(1)
    c = a * a + a
    assert len(c._storage.value[0].leaves) == 1


def test_equal_subexpressions_are_one_node():
    _, (a, b) = arrays(2)
    c = (a + b) * (a + b)
    assert len(c._storage.value[0].nodes) == 2
    assert len(c._storage.value[0].leaves) == 2


def test_referenced_interior_nodes_become_outputs(launches, stats):
    theirs, (a, b) = arrays(2)
    held = []

    def body():
        c = a + b
        d = c * 2
        e = d - a
        held.extend([c, d])
        return e

    results = []
    assert launches(lambda: results.append(body()) or results[0]) == 1
    before = stats().launches
    np.evaluate(*held)
    assert stats().launches == before
    c = theirs[0] + theirs[1]
    assert_same([*held, results[0]], [c, c * 2, c * 2 - theirs[0]])


ABOVE = {
    "a number first": lambda xp, c: 2 * c,
    "a number last": lambda xp, c: c - 0.5,
    "twice": lambda xp, c: c * c + c,
    "a cast": lambda xp, c: c.astype(numpy.float32) * 3,
    "what is below as well": lambda xp, c: (c + 1) * c,
    "another array": lambda xp, c: xp.sqrt(abs(c)) + xp.arange(60.0)[::-1],
}


@pytest.mark.parametrize("above", ABOVE.values(), ids=ABOVE)
@pytest.mark.parametrize("shape", [(60,), (6, 10)])
def test_what_is_above_a_value_that_is_computed_reads_it(above, shape, stats):
    if shape != (60,) and "arange" in above.__code__.co_names:
        return
    theirs, (a, b) = arrays(2, shape)
    for _ in range(7):
        c = a / b - 1
        d, other = above(np, c), (a - b) * 2
        np.evaluate(c)
        (entry,) = c._storage.value[1]
        assert entry in d._storage.value[1]
        assert c._storage.value[1][0] not in other._storage.value[1]
        b += 1.0
        a *= 2
        x, y = theirs
        expected = x / y - 1
        before = stats().launches
        assert_same([c, d, other], [expected, above(numpy, expected), (x - y) * 2])
        assert stats().launches - before <= 2
        y += 1.0
        x *= 2
        assert_same([a, b], theirs)


def test_reductions_of_what_reads_a_value_above_them_need_no_launch(launches):
    """A norm that two chains are made of belongs to the kernel of the first one, which the second one reads."""
    v = np.arange(5000.0) + 1
    given = numpy.arange(5000.0) + 1
    np.evaluate(v)

    def unit():
        u = v / np.linalg.norm(v)
        w = 2 * u
        np.evaluate(u)
        return u, w

    num_launches = [launches(unit) for _ in range(30)]
    assert num_launches[-1] == 2
    u, w = unit()
    np.evaluate(w)
    expected = given / numpy.linalg.norm(given)
    assert_same([u, w], [expected, 2 * expected], ulp=8)


def test_unreferenced_interior_nodes_take_no_memory():
    nbytes = 1 << 16
    _, (a, b) = arrays(2, (nbytes // 8,))
    np.evaluate()
    gc.collect()
    backend = _runtime.current()
    backend.trim()
    backend.pool.reset_peak()
    before = backend.memory_stats().used_nbytes
    c = np.sqrt(a * a + b * b) / (a + 1) - b
    np.evaluate(c)
    assert backend.memory_stats().peak_nbytes - before == nbytes


def test_long_chain_is_split_at_the_caps(launches):
    theirs, (a,) = arrays(1)

    def chain(x):
        for i in range(200):
            x = x + i
        return x

    results = []
    # 200 additions of scalars, each a leaf: at most MAX_LEAVES per kernel.
    count = launches(lambda: results.append(chain(a)) or results[0])
    assert 200 // expr.MAX_LEAVES <= count <= 200 // expr.MAX_LEAVES + 2
    assert_same(results[0], chain(theirs[0]))


def test_chain_of_many_nodes_is_split(launches):
    theirs, (a, b) = arrays(2)

    def chain(x, y):
        for _ in range(100):
            x = x + y
        return x

    results = []
    assert launches(lambda: results.append(chain(a, b)) or results[0]) == 2
    assert_same(results[0], chain(*theirs))


def test_many_leaves_are_split(launches):
    theirs, ours = arrays(60)
    results = []
    assert launches(lambda: results.append(sum(ours[1:], ours[0])) or results[0]) == 3
    assert_same(results[0], sum(theirs[1:], theirs[0]))


def test_pending_operand_of_another_shape_is_computed_first(launches):
    theirs, (a, b) = arrays(2, (6, 5))

    def body(x, y):
        return (x[0] * 2) + y * 3

    results = []
    assert launches(lambda: results.append(body(a, b)) or results[0]) == 2
    assert_same(results[0], body(*theirs))


def test_sum_divides_its_own_operand(launches):
    theirs, (a, b) = arrays(2)

    def body(x, y):
        z = x + y
        return z / z.sum()

    results = []
    assert launches(lambda: results.append(body(a, b)) or results[0]) == 1
    assert_same(results[0], body(*theirs))


@pytest.mark.parametrize("body", [lambda x, s: x * s + 1, lambda x, s: 1 - x / (s + x)])
def test_values_and_sizes_do_not_recompile(body, kernels):
    rng = numpy.random.default_rng(0)
    for scalar in (2.0, 3.5, -1e300):
        for size in (3840, 3968, 40064):  # multiples of the vector length, of one path through the kernel table
            x = rng.random(size)
            assert_same(body(np.asarray(x), scalar), body(x, scalar))
            assert_same(body(np.asarray(x), numpy.float64(scalar)), body(x, scalar))
    assert len(kernels) <= 2  # few and many blocks


def test_slices_at_any_place_do_not_recompile(kernels):
    x = np.asarray(numpy.arange(4096.0))
    for low in range(2, 40, 2):
        np.evaluate(x[low : low + 100] * 2)
    assert len(kernels) == 1


def test_repeated_program_records_nothing_new(kernels, launches):
    _, (a, b) = arrays(2)

    def body():
        return (a + b) * 3 - a

    launches(body)
    programs_made = len(kernels)
    assert [launches(body) for _ in range(5)] == [1] * 5
    assert len(kernels) == programs_made


def test_reduction_then_chain_then_reduction(twin):
    def body(xp):
        x = xp.arange(24.0).reshape(4, 6)
        y = (x - x.max(axis=1, keepdims=True)) * 2
        return [y.sum(axis=0), y.sum(), (y.sum(axis=0) + 1).max(), y.sum(axis=(0, 1), keepdims=True)]

    twin(body)


@pytest.mark.parametrize("dtype", [numpy.bool_, numpy.int32, numpy.int64, numpy.float32, numpy.float64])
@pytest.mark.parametrize("other", [True, 3, 2.5, numpy.float32(1.5), numpy.int64(7), numpy.bool_(1), numpy.int8(3), 1j])
def test_scalars_promote_as_numpys(dtype, other, twin):
    twin(lambda xp: [op(xp.arange(5).astype(dtype), other) for op in (xp.add, xp.multiply, xp.less, xp.divide)])
    twin(lambda xp: [op(other, xp.arange(1, 5).astype(dtype)) for op in (xp.add, xp.multiply, xp.less, xp.divide)])


@pytest.mark.usefixtures("on_device")
def test_operand_that_reads_one_leaf_twice(twin):
    # Found by the fuzzer: both reads of x come to one layout once they are broadcast.
    def body(xp):
        x = xp.array(3, dtype=xp.int32)
        y = xp.where(xp.int64(0), x[None], x)
        z = xp.array([0, 5], dtype=xp.int32)
        return [y + z for _ in range(3)], xp.where(z > y, z, y) / z

    twin(body)


@pytest.mark.usefixtures("on_device")
def test_scalar_before_an_operand_that_reads_one_leaf_twice(twin):
    def body(xp):
        row, square = xp.arange(8.0)[None, :], xp.ones((8, 8))
        results = []
        for _ in range(3):
            both = row + square + row
            results += [2.0 * both, (2.0 * both) * square, xp.float64(3) - both]
        return results

    twin(body)


def test_short_chains_of_scalars_join_what_they_are_used_in(launches):
    x = np.arange(1000.0)
    total = x.sum()
    np.evaluate(x, total)
    scale = total / 3 + 1

    def in_a_long_chain():
        value = total
        for _ in range(combining.MAX_SCALAR_NODES + 1):
            value = value / 3
        return x * value

    assert launches(lambda: x * (total / 3)) == 1
    assert launches(lambda: (x * scale, x - scale)) == 2
    assert launches(lambda: (x * (total / 3)).sum()) == 1  # noqa: PLW0108 - recorded inside
    assert launches(in_a_long_chain) == 2
    numpys = numpy.arange(1000.0)
    expected = numpys.sum() / 3 + 1
    assert_same((x * scale, x - scale, scale), (numpys * expected, numpys - expected, expected))


def test_scalars_are_computed_once_for_many_elements(launches, monkeypatch):
    monkeypatch.setattr(combining, "MAX_SCALAR_USES", 10)
    x, few = np.arange(11.0), np.arange(10.0)
    total = x.sum()
    np.evaluate(x, few, total)
    assert launches(lambda: few * (total + 1)) == 1
    assert launches(lambda: x * (total + 1)) == 2


def test_what_others_compute_on_the_way_is_found_by_the_arrays_that_are_read(launches):
    rng = numpy.random.default_rng(3)
    theirs = [rng.random(20_000) for _ in range(4)]
    ours = [np.asarray(x) + 0.0 for x in theirs]
    np.evaluate(*ours)

    def run(a, b, c, d):
        part = a * b
        whole = (part + c) * (d - part)
        again = part * a - whole
        return part, whole, again

    for turn in range(12):
        picked = [(turn + i) % 4 for i in range(4)] if turn % 3 else [turn % 4] * 4
        given, found = [ours[i] for i in picked], []
        assert launches(lambda given=given, found=found: found.extend(run(*given)) or tuple(found[::-1])) == 1
        for one, other in zip(found, run(*[theirs[i] for i in picked]), strict=True):
            assert_same(one, other)


@pytest.mark.parametrize("is_in_place", [False, True])
@pytest.mark.parametrize("is_first", [False, True])
def test_what_is_short_is_computed_with_what_is_too_long_for_it(is_first, is_in_place, launches):
    theirs, ours = arrays(2)

    def run(xp, a, b):
        long, short = a, xp.sqrt(b) * b + b
        for _ in range(expr.MAX_NODES // 2 - 1):
            long = xp.sqrt(long + a)
        first, second = (long, short) if is_first else (short, long)
        if is_in_place:
            first += second
            return first
        return first + second

    for _ in range(3):
        results = []
        assert launches(lambda results=results: results.append(run(np, *ours)) or results[0]) == 2
        assert_same(results[0], run(numpy, *theirs))
