"""Programs that use large arrays by elements, rows and columns: they stay on the host, and what they write is seen."""

# ruff: noqa: ICN001 - oxinp is np

import numpy
import pytest

import oxinp as np
from oxinp._core.lazy.balance import balance
from tests.comparator import assert_same
from tests.thinned import thinned

SIZE = 100


@pytest.fixture(autouse=True)
def _settings(config):
    config.offload_threshold = 65_536


def factorised(np, a):  # noqa: ARG001 - programs of one signature
    for i in range(SIZE):
        for j in range(i):
            a[i, j] -= a[i, :j] @ a[:j, j]
            a[i, j] /= a[j, j]
        for j in range(i, SIZE):
            a[i, j] -= a[i, :i] @ a[:i, j]
    return (a,)


def cholesky(np, a):
    for i in range(SIZE):
        for j in range(i):
            a[i, j] = (a[i, j] - np.dot(a[i, :j], a[j, :j])) / a[j, j]
        a[i, i] = np.sqrt(a[i, i] - a[i, :i] @ a[i, :i])
    return (a,)


def orthogonalised(np, a):
    q, r = np.zeros_like(a), np.zeros((SIZE, SIZE))
    for k in range(20):
        r[k, k] = np.sqrt(np.sum(a[:, k] * a[:, k]))
        q[:, k] = a[:, k] / r[k, k]
        for j in range(k + 1, 20):
            r[k, j] = q[:, k] @ a[:, j]
            a[:, j] -= q[:, k] * r[k, j]
    return q, r, a


def substituted(np, a):
    x = np.ones(SIZE)
    for i in range(SIZE):
        x[i] = (x[i] - a[i, :i] @ x[:i]) / a[i, i]
    return x, a


# Program: how many arrays of its size it fetches.
PROGRAMS = {factorised: 1, cholesky: 1, orthogonalised: 3, substituted: 1}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_every_array_is_fetched_once(program, stats):
    rng = numpy.random.default_rng(5)
    a = rng.random((SIZE, SIZE)) + SIZE * numpy.eye(SIZE)
    a = a + a.T
    results = program(np, np.asarray(a))
    counts = stats()
    assert counts.d2h_bytes <= PROGRAMS[program] * a.nbytes + 2048
    assert counts.h2d_bytes <= 2 * a.nbytes
    assert counts.launches <= 40
    for ours, theirs in zip(results, program(numpy, a.copy()), strict=True):
        assert numpy.allclose(np.asnumpy(ours), theirs, rtol=1e-10)


@pytest.mark.parametrize("num_before", [0, 2])
def test_rows_between_elements_are_a_reason_to_fetch_a_large_array(num_before, stats):
    rng = numpy.random.default_rng(6)
    a = rng.random((900, 350)) + numpy.eye(900, 350) * 900  # 2.5 MB
    b = rng.random((900, 8))

    def solved(np, a, b):
        n = a.shape[1]
        x = np.zeros((n, b.shape[1]))
        for k in range(n - 1, -1, -1):
            x[k] = (b[k] - a[k, k + 1 :] @ x[k + 1 :]) / a[k, k]
        return x

    for _ in range(num_before):
        solved(np, np.asarray(a) + 0.0, np.asarray(b))
        balance.begin(65_536, is_adaptive=True)  # it is of what is read alone that is told here
    ours, before = np.asarray(a) + 0.0, stats().launches
    found = solved(np, ours, np.asarray(b))
    assert stats().launches - before < 60
    assert numpy.allclose(np.asnumpy(found), solved(numpy, a, b), rtol=1e-10)


def keys_of(rng, shape):
    """Yield basic and advanced keys of a matrix, at random."""
    while True:
        i, j = (int(rng.integers(-n, n)) for n in shape)
        low = int(rng.integers(0, shape[0]))
        high = low + int(rng.integers(0, 10))
        yield from ((i, j), i, (i, slice(low, high)), (slice(None), j), slice(low, high), (slice(high, low, -1), j))
        yield from (
            (..., j),
            (i, None, j),
            (slice(-low % 20, None, 9), slice(None, j)),
            numpy.int64(i),
            (numpy.int32(i), j),
        )


def turned(x):
    return x.T


def part(x):
    return x[3:, ::-1]


@pytest.mark.parametrize("view", [None, turned, part])
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_what_is_written_on_the_host_reaches_the_device(view, dtype, stats, config):
    config.adaptive_placement = False
    rng = numpy.random.default_rng(7)
    theirs = rng.random((SIZE, 220)).astype(dtype)
    ours = np.asarray(theirs) + 0
    theirs = theirs + 0
    for i in range(20):
        float(ours[i, i])
    assert stats().d2h_bytes >= theirs.nbytes
    seen, expected = (ours, theirs) if view is None else (view(ours), view(theirs))
    keys = keys_of(rng, expected.shape)
    for _ in range(70):
        before = stats().d2h_bytes
        for key in (next(keys), next(keys)):
            chosen = expected[key]
            value = rng.random() if rng.random() < 0.5 or not chosen.size else rng.random(chosen.shape).astype(dtype)
            expected[key] = value
            seen[key] = np.asarray(value) if isinstance(value, numpy.ndarray) and value.ndim else value
        assert stats().d2h_bytes == before  # nothing is fetched again
        np.evaluate(doubled := ours * 2)
        assert doubled._storage.host is None
        assert_same(doubled, theirs * 2)


def test_what_the_device_computes_of_a_mirror_is_written_on_the_host(stats):
    x, device = np.ones((100, 200)), np.ones(100_000)
    np.evaluate(x, device)
    for i in range(20):
        float(x[i, 0])
    assert stats().d2h_bytes == x.nbytes + 16 * 8
    for i in range(50):
        x[i, 3] = device[:100].sum() + i
        x[i, :50] += device[:50]
    counts = stats()
    assert counts.d2h_bytes <= device.nbytes + x.nbytes + 50 * (8 + 400) + 16 * 8
    expected = numpy.ones((100, 200))
    for i in range(50):
        expected[i, 3] = 100 + i
        expected[i, :50] += 1
    assert_same(x * 1, expected)


def test_writes_that_cost_more_than_an_upload_let_the_outdated_copy_go(stats):
    given = numpy.random.default_rng(5).random((300, 400))
    ours, theirs = np.asarray(given) * 2, given * 2
    np.evaluate(ours)
    for a in (ours, theirs):
        a[0, 0] += 1
        a[1, :5] *= 3.0
    for a in (ours, theirs):
        for i in range(1, 300):
            a[i, : i // 2] *= 1.5
            a[i, 3] = a[i - 1, 2]
    assert ours._storage.stale is None
    before = stats().h2d_bytes
    found = ours + 1
    np.evaluate(found)
    assert stats().h2d_bytes == before + ours.nbytes
    assert_same(found, theirs + 1)


def test_what_is_written_to_a_mirror_is_fetched_from_where_it_is_computed(stats, launches):
    left, right, whole = np.ones(900), np.ones((900, SIZE)), np.ones((SIZE, SIZE)) * 2
    np.evaluate(left, right, whole)
    for i in range(20):
        assert float(whole[i, i]) == 2  # there is a mirror now

    def write():
        whole[3] = left @ right

    write()
    before = stats().d2h_bytes
    assert launches(write) == launches(lambda: left @ right)
    assert stats().d2h_bytes == before + SIZE * 8
    assert float(whole[3, 49]) == 900


def test_rows_that_large_work_is_written_to_are_not_fetched(stats, config):
    """Columns that are copied to rows, all small: the products that they come from are the device's."""
    config.adaptive_placement = False
    rng = numpy.random.default_rng(5)
    data = rng.standard_normal((400, 160))

    def covariances(np, data):
        found = np.zeros((160, 160))
        for i in range(110):  # what is left is small work
            found[i:, i] = data[:, i] @ data[:, i:] / 399.0
            found[i, i:] = found[i:, i]
        return found

    ours = np.asarray(data)
    found = covariances(np, ours)
    assert not stats().d2h_bytes
    numpy.testing.assert_allclose(numpy.asarray(found), covariances(numpy, data), rtol=0, atol=1e-14)


@pytest.mark.parametrize("key", [slice(100, 200), slice(-5, None), slice(40, None, 4000)], ids=str)
def test_iteration_over_a_slice_fetches_what_it_goes_through(key, stats):
    theirs = numpy.arange(131_072.0)
    ours = np.asarray(theirs.copy()) * 1
    np.evaluate(ours)
    before = stats().d2h_bytes
    assert list(ours[key]) == list(theirs[key])
    assert all(type(element) is numpy.float64 for element in ours[key])
    assert stats().d2h_bytes == before + 2 * theirs[key].nbytes


def test_iteration_over_a_slice_sees_what_is_written_meanwhile():
    found = []
    for module in (numpy, np):
        x = module.asarray(numpy.arange(131_072.0)) * 1
        seen = []
        for i, element in enumerate(x[100:120]):
            seen.append(float(element))
            if i == 3:
                x[104:110] = x[1000:1006]  # a part
            if i == 8:
                x += 1  # all
            if i == 12:
                x[113] = -1.0
            if i == 14:
                x[:] = x[::-1] * 1
        found.append((seen, x.copy()))
    assert found[0][0] == found[1][0]
    assert_same(found[1][1], found[0][1])


def test_iteration_over_many_slices_fetches_all_once(stats):
    theirs = numpy.arange(131_072.0).reshape(512, 256)
    ours = np.asarray(theirs.copy()) * 1
    np.evaluate(ours)
    before = stats().d2h_bytes
    for mine, row in zip(ours, theirs, strict=True):
        assert list(mine) == list(row)
    assert stats().d2h_bytes <= before + theirs.nbytes + 64 * 2048


def test_columns_of_a_mirror_take_small_results_there(stats, config):
    """What the device gives is fetched, and no more than what was written since is outdated where the rest is used."""
    config.adaptive_placement = False
    data = numpy.arange(float(900 * 400)).reshape(900, 400) % 7
    results = []
    for xp in (numpy, np):
        q, table, vector = xp.asarray(data) + 0, xp.zeros((300, 300)), xp.ones(900)
        for k in range(1, 100):
            table[:k, k] += q[:, :k].T @ vector
            table[k, k] = vector @ vector
        results.append(table)
    theirs, ours = results
    counts = stats()
    assert counts.h2d_bytes <= 3 * data.nbytes
    assert counts.d2h_bytes <= ours.nbytes + 100 * 100 * 8
    assert_same(ours, theirs)


def mirrored(data):
    """Return an array with valid elements on both sides."""
    ours = np.asarray(data.copy()) + 0
    for _ in range(20):
        assert_same(ours[3, :8] + 0, data[3, :8])
    return ours


def fives(array, k):
    array[:, k] = 5


def rows(array, k):
    array[:, k : k + 2] = array[k, 2:4]


def sums(array, k):
    array[::2, k] += array[::2, k]


def elements_too(array, k):
    array[:, k] = 7
    array[k, 0] = k


def from_both_ends(array, k):
    array[::2, k] = 1.5
    array[::4, -k] = 2.5


@pytest.mark.parametrize(
    ("write", "dtype"),
    thinned([fives, rows, sums, elements_too, from_both_ends], ["f8", "f4", "c16", "i2"]),
    ids=lambda value: getattr(value, "__name__", value),
)
def test_columns_written_on_the_host_are_uploaded_by_themselves(write, dtype, stats, config):
    config.adaptive_placement = False
    theirs = (numpy.arange(700 * 600).reshape(700, 600) % 97).astype(dtype)
    ours = mirrored(theirs)
    assert_same(ours + ours, theirs + theirs)
    before = stats().h2d_bytes
    for k in range(1, 20, 3):
        for array in (theirs, ours):
            write(array, k)
        assert_same(ours + ours, theirs + theirs)
    if write is not from_both_ends:
        assert stats().h2d_bytes - before <= theirs.nbytes / 2
    assert_same(ours, theirs)


def test_lines_of_other_dtypes_are_uploaded_by_themselves(stats, config):
    config.adaptive_placement = False
    theirs = (numpy.arange(700 * 600).reshape(700, 600) % 97).astype("c16")
    ours = mirrored(theirs)
    before = stats().h2d_bytes
    for k in range(1, 20, 3):
        theirs.real[:, k] = ours.real[:, k] = k
        assert_same(ours + ours, theirs + theirs)
    assert stats().h2d_bytes - before <= theirs.nbytes / 4


def test_columns_that_make_up_most_of_an_array_are_uploaded_with_what_is_between(stats, config):
    config.adaptive_placement = False
    theirs = numpy.ones((700, 600))
    ours = mirrored(theirs)
    before = stats().h2d_bytes
    for k in range(590):
        theirs[:, k] = ours[:, k] = k
    assert_same(ours + ours, theirs + theirs)
    assert stats().h2d_bytes - before <= theirs.nbytes


def test_a_scalar_of_the_device_is_fetched_once_for_an_element_of_the_host(stats):
    rows, target = np.ones((200, 600)) * 2.0, np.array(numpy.full((600, 600), 2.0))
    np.evaluate(rows)
    with balance.suspended():
        for i in range(100):
            target[i, i] = rows[i] @ rows[i + 1]
        before = stats().d2h_bytes
        for i in range(100, 110):
            target[i, i] = rows[i] @ rows[i + 1]
        assert stats().d2h_bytes - before <= 10 * 8
    assert float(target.sum()) == 600 * 600 * 2.0 + 110 * (2400.0 - 2.0)


def normalised(np, a, n):
    """Elements of a large array are read and written for larger work alone."""
    found, sizes = np.zeros_like(a), np.zeros_like(a)
    for k in range(n):
        v = a[:, k] * 2.0
        sizes[k, k] = np.linalg.norm(v)
        found[:, k] = v / sizes[k, k]
    return found, sizes


def test_elements_that_larger_work_takes_are_no_reason_to_fetch_a_large_array(stats, config):
    n = 200
    theirs = numpy.random.default_rng(3).random((1000, n))  # more than a megabyte, and columns of eight kilobytes
    with config.override(adaptive_placement=False):
        ours = np.asarray(theirs) * 1.0
        np.evaluate(ours)
        before = stats().d2h_bytes
        found = normalised(np, ours, n)
        np.evaluate(*found)
        assert stats().d2h_bytes == before
    for own, expected in zip(found, normalised(numpy, theirs, n), strict=True):
        assert_same(own, expected, ulp=200)


def test_parts_that_large_work_updates_and_its_sums_are_no_reason_to_fetch_a_large_array(stats):
    m, n = 600, 400  # whose columns are not small
    given = numpy.random.default_rng(3).random((m, n)) + numpy.eye(m, n)

    def orthogonal(xp, a):
        q, r = xp.zeros((m, n)), xp.zeros((n, n))
        for k in range(60):
            v = a[:, k].copy()
            for _ in range(2):
                h = q[:, :k].T @ v
                v -= q[:, :k] @ h
                r[:k, k] += h
            r[k, k] = xp.linalg.norm(v)
            q[:, k] = v / r[k, k]
        return q, r

    a = np.array(given)
    with balance.suspended():
        before = stats().d2h_bytes
        found = orthogonal(np, a)
        assert stats().d2h_bytes - before < 2000
    for one, other in zip(found, orthogonal(numpy, given), strict=True):
        numpy.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-10)


def test_a_mirror_goes_where_its_results_are_uploaded_again_each_time(stats, config):
    """As in a back substitution by rows: what is written is an operand in the next turn, and is not looked at."""
    n = 300
    theirs = numpy.random.default_rng(3).random((n, n))

    def substituted(np, a):
        x = np.zeros((n, 40))
        for k in range(n - 1, -1, -1):
            x[k] = 1.0 - a[k, k + 1 :] @ x[k + 1 :] / n
        return x

    with config.override(adaptive_placement=False):
        ours = np.asarray(theirs) * 1.0
        np.evaluate(ours)
        before = stats()
        found = substituted(np, ours)
        np.evaluate(found)
        rows = (stats().d2h_bytes - before.d2h_bytes - ours.nbytes - found.nbytes) / (40 * 8)
        assert rows < 40
    assert_same(found, substituted(numpy, theirs), ulp=1000)


def test_elements_that_are_added_up_are_fetched_in_few_pieces(stats, config):
    """Each is part of a short chain that the device would compute."""
    n = 400
    theirs = numpy.random.default_rng(3).random((n, n))
    with config.override(adaptive_placement=False):
        ours = np.asarray(theirs) * 1.0
        np.evaluate(ours)
        before = stats().launches
        trace = 0.0
        for i in range(n):
            trace += np.tanh(ours[i, i])
        assert float(trace) == pytest.approx(sum(numpy.tanh(numpy.diag(theirs))))
    assert stats().launches - before <= 12


@pytest.mark.parametrize("width", [0, 2])
def test_few_elements_at_a_time_are_a_reason_to_fetch_an_array(width):
    ours = np.arange(200_000.0) * 2.0
    np.evaluate(ours)
    for i in range(40):
        assert ours[i : i + width].shape == (width,)
    assert ours._storage.host is not None


def test_a_function_that_is_called_again_has_its_arrays_fetched_sooner(stats):
    """Where they are alike, and those of the last call are gone."""
    rng = numpy.random.default_rng(5)
    launches = []
    with np.config.override(adaptive_placement=True):
        for _ in range(4):
            a = rng.random((SIZE, SIZE)) + SIZE * numpy.eye(SIZE)
            ours = np.asarray(a) * 1.0
            np.evaluate(ours)
            before = stats()
            found = substituted(np, ours)[0]
            launches.append(stats().launches - before.launches)
            assert stats().d2h_bytes - before.d2h_bytes <= a.nbytes + 2048
            assert numpy.allclose(np.asnumpy(found), substituted(numpy, a)[0], rtol=1e-10)
            del ours
    assert launches[-1] < launches[0] / 2


def test_an_array_that_is_written_to_on_the_device_is_fetched_again_no_sooner(stats):
    made = []
    with np.config.override(adaptive_placement=True):
        for _ in range(3):
            ours = np.ones((300, 300)) * 2.0
            for i in range(30):
                ours += 1.0
                assert [ours[i, j].item() for j in range(6)] == [3.0 + i] * 6
            made.append(stats().d2h_bytes)
            assert ours._storage.host is None or made[0] == made[-1]
    assert made[-1] - made[0] <= 2 * (90_000 * 8 + 200 * 8)


def sieve(np, n):
    is_prime = np.ones(n, bool)
    is_prime[:2] = False
    for i in range(2, 300):
        if is_prime[i]:
            is_prime[i * i :: i] = False
    return is_prime


def test_elements_beside_what_is_written_on_the_device_are_fetched_once(stats):
    n = 1_500_000
    with np.config.override(adaptive_placement=True), balance.suspended():
        for _ in range(3):
            before = stats()
            found = sieve(np, n)
            np.evaluate(found)
            assert found._storage.host is None
            assert stats().d2h_bytes - before.d2h_bytes < 400_000
            assert numpy.array_equal(np.asnumpy(found), sieve(numpy, n))


def test_elements_are_read_as_they_are_between_writes_beside_them():
    """Before them, behind them and where they are, so that a window that is left is the right one."""
    n = 300_000
    rng = numpy.random.default_rng(7)
    starts = rng.integers(0, 40_000, (60, 3))

    def program(np):
        x = np.arange(float(n))
        found = []
        for i, (first, second, third) in enumerate(starts.tolist()):
            x[first : first + 9000] = -1.0 * i
            found += [float(x[second + j]) for j in range(12)]
            x[third : third + 20_000 : 2] += 0.5
            found += [float(x[second + 12 + j]) for j in range(12)]
        return found

    assert program(np) == program(numpy)
