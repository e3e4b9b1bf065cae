"""`config.backend` changes while arrays live on a device: they keep their values, and new work goes where it says."""

# ruff: noqa: ICN001 - oxinp is np

import numpy
import pytest

import oxinp as np
from oxinp import _runtime
from oxinp._core.lazy import handle
from oxinp._runtime import emulator, here, select
from tests.comparator import assert_same

ROWS, COLUMNS = 6, 10


@pytest.fixture(autouse=True)
def _on_the_emulator(config, monkeypatch):
    monkeypatch.setattr(select, "_opened", dict(select._opened))
    config.backend = "emulator"
    config.offload_threshold = 0


@pytest.fixture
def another_device(monkeypatch):
    """Let `config.backend = "cuda"` mean a second device, whose addresses are of its own."""
    device = emulator.EmulatorBackend()
    device.name = "cuda"
    device.allocate(1 << 20)  # what the first device gives out here is nobody's
    monkeypatch.setitem(select._opened, "cuda", device)
    monkeypatch.setattr(here, "are_several", False)  # where a GPU has been used, streams are those of its own device
    return device


def theirs():
    return numpy.arange(float(ROWS * COLUMNS)).reshape(ROWS, COLUMNS)


def evaluated():
    x = np.asarray(theirs()) * 1
    np.evaluate(x)
    return x


def mirrored():
    x = evaluated()
    x[0, 0].item()
    list(x.reshape(-1))
    return x


def stale():
    x = mirrored()
    with np.config.override(offload_threshold=float("inf")):
        x[2, 3] = -5.0
    return x


# What lies on the device in each of the ways that there are, and what NumPy has instead.
ARRAYS = {
    "evaluated": (evaluated, theirs),
    "pending": (lambda: np.asarray(theirs()) * 2 + 1, lambda: theirs() * 2 + 1),
    "mirrored": (mirrored, theirs),
    "written on the host": (stale, lambda: numpy.where(theirs() == 2 * COLUMNS + 3, -5.0, theirs())),
    "view": (lambda: evaluated()[1::2, ::-1], lambda: theirs()[1::2, ::-1]),
    "Fortran order": (lambda: np.asarray(numpy.asfortranarray(theirs())) * 1, theirs),
    "reduction": (lambda: evaluated().sum(0), lambda: theirs().sum(0)),
    "scalar": (lambda: evaluated().sum(), lambda: theirs().sum()),
    "element": (lambda: evaluated()[2, 3], lambda: theirs()[2, 3]),
    "product": (lambda: evaluated() @ evaluated().T, lambda: theirs() @ theirs().T),
    "complex": (lambda: evaluated() * 1j, lambda: theirs() * 1j),
    "empty": (lambda: evaluated()[:0] + 1, lambda: theirs()[:0]),
}


@pytest.mark.parametrize(("make", "expected"), ARRAYS.values(), ids=ARRAYS)
@pytest.mark.parametrize("after", ["read", "compute", "write", "return"])
def test_arrays_outlive_their_device(config, make, expected, after, stats):
    x, wanted = make(), expected()
    config.backend = "host"
    launches = stats().launches
    if after == "compute":
        x, wanted = x * 2 + 1, wanted * 2 + 1
    elif after == "write" and np.ndim(wanted):
        x[...] += 1
        x[:1] = 7
        wanted = wanted + 1
        wanted[:1] = 7
    elif after == "return":
        config.backend = "emulator"
        x, wanted = x + 1, wanted + 1
    assert_same(numpy.asarray(x)[()], wanted)
    if after == "return":
        assert not np.ndim(wanted) or not np.size(wanted) or stats().launches > launches
    else:
        assert stats().launches == launches


@pytest.mark.parametrize(("make", "expected"), ARRAYS.values(), ids=ARRAYS)
@pytest.mark.usefixtures("another_device")
def test_arrays_go_from_one_device_to_another(config, make, expected, stats):
    x, wanted = make(), expected()
    config.backend = "cuda"
    launches = stats().launches
    assert_same(numpy.asarray(x + 1)[()], wanted + 1)
    assert not np.ndim(wanted) or not np.size(wanted) or stats().launches > launches
    config.backend = "emulator"
    assert_same(numpy.asarray(x - 1)[()], wanted - 1)


KEPT = {
    "numbers of rows and columns": lambda np: np.tril(np.ones((70, 70))),
    "edges of a histogram": lambda np: np.histogram(np.arange(300.0), 7)[0],
    "tables of a distribution": lambda np: np.random.default_rng(3).standard_normal(300),
    "polynomials of a stream": lambda np: np.random.RandomState(3).random_sample(5000),
}


@pytest.mark.parametrize("body", KEPT.values(), ids=KEPT)
@pytest.mark.usefixtures("another_device")
def test_what_is_kept_on_a_device_is_made_anew_for_another(config, monkeypatch, body):
    assert_same(numpy.asarray(body(np)), body(numpy))
    monkeypatch.setattr(handle, "storages", list)  # as where the collector does not list what is kept
    config.backend = "cuda"
    assert_same(numpy.asarray(body(np)), body(numpy))


def test_a_block_on_the_host(config):
    x = evaluated()
    y = x[1:] * 2
    with config.override(backend="host"):
        z = x + 1
        x[0] = 9
        assert_same(numpy.asarray(y), theirs()[1:] * 2)
    wanted = theirs()
    assert_same(numpy.asarray(z + 0), wanted + 1)
    wanted[0] = 9
    assert_same(numpy.asarray(x + 0), wanted)


def test_new_work_is_on_the_host(config):
    x = evaluated()
    config.backend = "host"
    for array in (x, x + 1, np.zeros(1000) + 1, x.sum(1)):
        assert array._storage.host is not None
        assert array._storage.value is None


def test_what_was_not_found_is_still_reached(config, monkeypatch):
    """As where servers call `gc.freeze` before they fork. Here that would let go of what the suite has frozen."""
    x, y = evaluated(), evaluated() * 3
    monkeypatch.setattr(handle, "storages", list)
    config.backend = "host"
    assert_same(numpy.asarray(x), theirs())
    assert_same(numpy.asarray(y + x), theirs() * 4)
    x[2] = 5
    assert_same(numpy.asarray(x)[2], numpy.full(COLUMNS, 5.0))


@pytest.mark.usefixtures("another_device")
def test_what_the_library_keeps_for_itself_follows(config, monkeypatch):
    expected = numpy.random.default_rng(1).standard_normal(1000)
    assert_same(numpy.asarray(np.random.default_rng(1).standard_normal(1000)), expected)
    monkeypatch.setattr(handle, "storages", list)
    config.backend = "cuda"
    assert_same(numpy.asarray(np.random.default_rng(1).standard_normal(1000)), expected)


def test_without_room_nothing_changes(config, monkeypatch):
    x = evaluated()

    def fail(*_):
        raise MemoryError("injected")

    with monkeypatch.context() as patch:
        patch.setitem(vars(_runtime.current()), "download", fail)
        with pytest.raises(MemoryError, match="injected"):
            config.backend = "host"
    assert config.backend == "emulator"
    assert_same(numpy.asarray(x + 1), theirs() + 1)


def test_names_of_one_backend_move_nothing(config, stats, another_device):
    config.backend = "cuda"
    x = evaluated()
    before = stats()
    config.backend = "auto"
    assert stats().d2h_bytes == before.d2h_bytes
    assert _runtime.current() is another_device
    assert x._storage.host is None
