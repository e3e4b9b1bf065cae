"""Elements of arrays on the device, read in machine code: what Python reads and counts, and what is left to Python."""

import sys

import numpy  # noqa: ICN001
import pytest

import oxinp
from oxinp._core.lazy import placement
from oxinp._core.lazy.balance import balance
from oxinp._core.native import objects, reading
from oxinp._core.ops import index

pytestmark = [
    pytest.mark.usefixtures("on_device", "unwatched", "written"),
    pytest.mark.skipif(objects.VECTORCALL is None, reason="no machine code for what is recorded"),
]


@pytest.fixture
def asked(monkeypatch):
    """Return what Python is asked for: elements, and whether an array had better be on the host."""
    found = []

    def noting(name, function):
        def note(*args, **kwargs):
            found.append(name)
            return function(*args, **kwargs)

        return note

    monkeypatch.setattr(placement, "wants_mirror", noting("wants_mirror", placement.wants_mirror))
    return found


@pytest.fixture(autouse=True)
def _alone():
    for table in (placement.accesses, placement.followers, placement.alike):
        table.clear()
    with balance.suspended():
        yield
    for table in (placement.accesses, placement.followers, placement.alike):
        table.clear()


def vector(dtype="float64", n=1000):
    rng = numpy.random.default_rng(5)
    given = rng.random(n).astype(dtype)
    array = oxinp.array(given) + 0
    oxinp.evaluate(array)
    return array, given


def is_on_device(array):
    return array._storage.host is None


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "complex64"])
@pytest.mark.parametrize("key", [0, 7, -1, 999])
def test_elements_are_numpys(dtype, key, asked):
    array, given = vector(dtype)
    array[key]  # by Python, which makes what it is copied by
    asked.clear()
    found = [array[key] for _ in range(2)]
    assert not asked
    assert is_on_device(array)
    assert all(is_on_device(each) for each in found)
    assert [each.dtype for each in found] == [given.dtype] * 2
    assert [complex(each) for each in found] == [complex(given[key])] * 2


def test_elements_of_matrices_are_numpys(asked):
    given = numpy.random.default_rng(5).random((40, 30))
    array = oxinp.array(given) * 1.0
    oxinp.evaluate(array)
    assert [float(array[i, i]) for i in (3, 3, -1)] == [given[i, i] for i in (3, 3, -1)]
    assert not asked


PARTS = [slice(3, 9), slice(None, None, -2), slice(5, 5), (slice(1, 4),), slice(-3, None)]


@pytest.mark.parametrize("key", PARTS)
@pytest.mark.parametrize("dtype", ["float64", "int64", "complex64"])
def test_small_parts_are_numpys(dtype, key, asked):
    array, given = vector(dtype)
    found = [array[key] for _ in range(3)]
    assert not asked
    assert is_on_device(array)
    for each in found:
        assert each.base is array
        numpy.testing.assert_array_equal(numpy.asarray(each * 1), given[key])
    array[key] += array[key] * 2
    given[key] += given[key] * 2
    numpy.testing.assert_array_equal(numpy.asarray(array + 0), given)


def test_small_parts_of_matrices_are_numpys(asked):
    given = numpy.random.default_rng(5).random((300, 200))
    array = oxinp.array(given) * 1.0
    oxinp.evaluate(array)
    parts = [array[7], array[1:, 3], array[2:5][1, ::2]]
    assert not asked
    for found, wanted in zip(parts, (given[7], given[1:, 3], given[3, ::2]), strict=True):
        numpy.testing.assert_array_equal(numpy.asarray(found * 1), wanted)


def test_small_parts_of_a_pending_array_stay_pending(asked):
    array, given = vector()
    doubled = array * 2.0
    part = doubled[3:8]
    assert not asked
    assert doubled._storage.value[0].nodes
    numpy.testing.assert_array_equal(numpy.asarray(part + 0), given[3:8] * 2.0)


@pytest.mark.parametrize("dtype", ["int64", "bool"])
def test_elements_that_are_fetched_with_others_are_left_to_python(dtype, asked):
    array, given = vector(dtype)
    assert [bool(array[3]) for _ in range(2)] == [bool(given[3])] * 2
    assert asked


def test_what_is_pending_is_computed_first(asked):
    array, given = vector()
    doubled = array * 2.0
    assert doubled._storage.value[0].nodes
    found = doubled[5]
    assert not asked
    assert not doubled._storage.value[0].nodes
    assert float(found) == given[5] * 2.0


def test_what_a_call_gives_is_computed_first(asked):
    given = numpy.random.default_rng(5).random((40, 40))
    matrix = oxinp.array(given) * 1.0
    oxinp.evaluate(matrix)
    product = matrix @ matrix[0]
    asked.clear()
    found = product[5]
    assert not asked
    numpy.testing.assert_allclose(float(found), (given @ given[0])[5])


def counted(array):
    """Return what is known of accesses to an array, by the mask's being its own."""
    for reference, (count, mask, least, used) in placement.accesses.items():
        if reference() is array._storage:
            return count, mask == array._storage.value[2], least, used
    return None


def read(array, config, *, is_native):
    """Read elements and parts in turn; return what is known of the accesses each time."""
    config.machine_code = is_native
    known = []
    for key in (0, 1, slice(0, 3), 2, slice(1, 2), 0):
        array[key]
        known.append(counted(array))
    return known


def test_accesses_are_counted_as_python_counts_them(config):
    placement.singles.num_used += 1
    (first, _), (second, _) = vector(), vector()
    found = read(first, config, is_native=True)
    assert found == read(second, config, is_native=False)
    assert [each[:3] for each in found[:3]] == [(1, True, 8), (2, True, 8), (3, True, 8)]


def test_a_new_value_is_counted_as_python_counts_it(config):
    found = []
    for is_native in (True, False):
        config.machine_code = is_native
        array, _ = vector()
        known = []
        for _ in range(2):
            array[0], array[1]
            known.append(counted(array)[:3])
            array += 1.0
            array[0]
            known.append(counted(array)[:3])
        found.append(known)
    assert found[0] == found[1]
    assert not found[0][1][1]


@pytest.mark.parametrize("is_native", [True, False])
def test_many_elements_are_fetched(is_native, config):
    config.machine_code = is_native
    array, given = vector()
    found = [array[i] for i in range(placement.ACCESSES_BEFORE_MIRROR + 1)]
    assert not is_on_device(array)
    assert [float(each) for each in found] == list(given[: len(found)])


def test_others_of_its_like_are_asked_of(asked):
    array, _ = vector()
    placement.alike[(1000,), array.dtype] = ()
    for _ in range(placement.ACCESSES_OF_ANOTHER):
        array[0]
    assert not asked
    array[0]
    assert asked


@pytest.mark.parametrize("many", ["followers", "accesses"])
def test_others_accesses_are_pythons(many, asked):
    array, given = vector()
    others = [oxinp.ones(2000) + i for i in range(placement.MAX_IN_TURN)]
    for other in others:
        if many == "accesses":
            placement.accesses[placement.ref(other._storage)] = 1, 1, 8, 0
    if many == "followers":
        placement.followers[placement.ref(others[0]._storage)] = placement.Follower()
    asked.clear()
    assert float(array[4]) == given[4]
    assert asked


def test_large_arrays_are_pythons(asked):
    large = oxinp.ones(placement.MIN_WINDOWED_NBYTES // 8) * 1.0
    oxinp.evaluate(large)
    assert float(large[3]) == 1.0
    assert asked


def test_an_index_that_is_beyond_is_refused():
    array, _ = vector()
    for key in (1000, -1001):
        with pytest.raises(IndexError, match="out of bounds"):
            array[key]


def test_nothing_is_held_or_lost():
    array, _ = vector()
    array[0], array[1]
    storage = array._storage
    layout = array._layout
    placement.accesses.clear()
    before = [sys.getrefcount(each) for each in (array, storage, layout, storage.value, storage.value[1][0])]
    for _ in range(500):
        placement.accesses.clear()
        array[0], array[1]
    placement.accesses.clear()
    oxinp.cuda.synchronize()
    after = [sys.getrefcount(each) for each in (array, storage, layout, storage.value, storage.value[1][0])]
    assert after == before


def test_what_python_raises_is_raised(monkeypatch):
    array, _ = vector()
    pending = array * 3.0

    def fail(_):
        raise MemoryError("no room")

    monkeypatch.setattr(index.schedule, "materialise", fail)
    with pytest.raises(MemoryError, match="no room"):
        pending[0]


def state_after(accesses, config, *, is_native):
    """Return what has been found and counted of accesses to a storage by calls of `wants_mirror`."""
    config.machine_code = is_native
    placement.alike.clear()
    array, _ = vector()
    storage, found = array._storage, []
    for args, kwargs in accesses:
        found.append((placement.wants_mirror(storage, *args, **kwargs), counted(array)))
    return found


CALLS = [
    [((8,), {})] * 4,
    [((8,), {"is_given_result": True})] * 4,
    [((8, True), {})] * 18,
    [((800,), {}), ((16, True), {}), ((900,), {}), ((8,), {})],
    [((0,), {}), ((placement.SMALL_NBYTES,), {}), ((placement.SMALL_NBYTES + 1,), {}), ((8,), {})],
    [((8, False, True), {})] * 17,
    [((8,), {"is_read_by_elements": True})] * 3,
]


@pytest.mark.parametrize("accesses", CALLS)
def test_calls_count_what_python_counts(accesses, config):
    found = state_after(accesses, config, is_native=True)
    assert found == state_after(accesses, config, is_native=False)
    assert {type(wanted) for wanted, _ in found} == {bool}


@pytest.mark.parametrize("limit", [100, 1 << 20])
def test_what_is_the_hosts_by_its_size_is_wanted_there(limit, config, monkeypatch):
    found = []
    for is_native in (True, False):
        monkeypatch.setattr(balance, "limit", 0)
        config.machine_code = is_native
        array, _ = vector()
        monkeypatch.setattr(balance, "limit", limit)
        found.append([placement.wants_mirror(array._storage, 8) for _ in range(2)])
    assert found == [[limit > 8000] * 2] * 2


def test_there_is_code():
    assert reading.address_of(oxinp.ndarray)
