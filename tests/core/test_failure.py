"""What fails leaves everything as it was: pending work can be tried again, nothing is half written."""

# ruff: noqa: ARG001, ARG005, ICN001 - fixtures that set up, programs of one signature, and oxinp is np

import subprocess
import sys

import numpy
import pytest

import oxinp as np
from oxinp import _runtime
from oxinp._core.lazy import eviction, executor, lost, steps
from oxinp._core.lazy.calls import is_waiting
from oxinp._kernels.plan import in_order
from tests.comparator import assert_same


class Fault(Exception):
    """What the backend raises here."""


@pytest.fixture
def fail(monkeypatch):
    """Return a function that makes a method of the backend raise at its n-th call from now on, once."""

    def arm(name, error, at=1):
        backend = _runtime.current()
        work = getattr(backend, name)
        left = at

        def method(*args):
            nonlocal left
            left -= 1
            if left == 0:
                raise error
            return work(*args)

        monkeypatch.setitem(vars(backend), name, method)  # which leaves nothing behind

    return arm


def fail_launch(array, error):
    """Let the launch that computes a pending array raise, once."""
    program = array._storage.value[0].program
    launch = program.launch

    def failing(*args):
        program.launch = launch
        raise error

    program.launch = failing


def test_failed_launch_can_be_tried_again(on_device, stats):
    x = np.arange(40.0)
    np.evaluate()
    np.evaluate(x * 2 + 1)  # its program exists now
    y = x * 2 + 1
    for _ in range(3):
        fail_launch(y, Fault())
        with pytest.raises(Fault):
            np.evaluate(y)
        fail_launch(y, Fault())
        with pytest.raises(Fault):
            np.cuda.synchronize()
        assert y._storage.value[0].nodes
    before = stats().launches
    x[0] = 100  # still known as a reader of x
    assert stats().launches == before + 2
    assert_same(y, numpy.arange(40.0) * 2 + 1)


def test_write_whose_readers_fail_writes_nothing(on_device):
    x = np.arange(40.0)
    np.evaluate()
    np.evaluate(x * 3)
    y = x * 3
    for write in (lambda: x.__setitem__(0, 100), lambda: x[1:].__iadd__(1), lambda: x[:20].__setitem__(..., x[20:])):
        fail_launch(y, Fault())
        with pytest.raises(Fault):
            write()
    assert_same([x, y], [numpy.arange(40.0), numpy.arange(40.0) * 3])


def test_write_that_fails_writes_nothing(on_device, monkeypatch):
    x = np.arange(40.0)
    np.evaluate()
    backend = _runtime.current()
    make = backend.launcher

    def launcher(*args):
        launch = make(*args)

        def failing(*varying):
            raise Fault

        return failing if armed else launch

    armed = True
    monkeypatch.setitem(vars(backend), "launcher", launcher)
    y = x[3:17] * 5 - 2
    with pytest.raises(Fault):
        x[2:16] = y
    with pytest.raises(Fault):
        x[4:18] -= 17
    armed = False
    np.config.offload_threshold = 0  # what was built with the failing launcher is built again
    assert_same([x, y], [numpy.arange(40.0), numpy.arange(40.0)[3:17] * 5 - 2])
    x[2:16] = y
    theirs = numpy.arange(40.0)
    theirs[2:16] = theirs[3:17] * 5 - 2
    assert_same(x, theirs)


@pytest.mark.parametrize("at", [1, 2])
def test_out_of_memory_leaves_work_pending(at, on_device, fail):
    x = np.arange(40.0)
    np.evaluate()
    error = MemoryError("no room")
    fail("allocate", error, at)
    np.config.offload_threshold = 0  # programs hold the method that allocates
    y = x + 1
    z = y * 2
    w = z + 5
    with pytest.raises(MemoryError):
        np.evaluate(w)
    theirs = numpy.arange(40.0) + 1
    assert_same([y, z, w], [theirs, theirs * 2, theirs * 2 + 5])


def test_out_of_memory_in_place_leaves_the_old_value(on_device, fail):
    x = np.arange(40.0)
    v = x[10:]
    np.evaluate()
    fail("allocate", MemoryError())
    np.config.offload_threshold = 0
    x *= 3
    with pytest.raises(MemoryError):
        v += 1
    v += 1
    theirs = numpy.arange(40.0) * 3
    theirs[10:] += 1
    assert_same([x, v], [theirs, theirs[10:]])


@pytest.mark.usefixtures("uploaded_at_once")
def test_upload_that_fails_can_be_tried_again(config, fail):
    config.offload_threshold = 0
    big = np.arange(100.0)
    config.offload_threshold = 65536
    small = np.asarray(numpy.arange(100.0))
    fail("upload", Fault())
    with pytest.raises(Fault):
        np.evaluate(big + small)
    assert_same(big + small, numpy.arange(100.0) * 2)
    small[5] = 7  # uploads a range
    fail("upload", Fault())
    with pytest.raises(Fault):
        np.evaluate(big + small)
    theirs = numpy.arange(100.0)
    theirs[5] = 7
    assert_same([big + small, small], [numpy.arange(100.0) + theirs, theirs])


def test_download_that_fails_can_be_tried_again(on_device, fail):
    x = np.arange(40.0) + 1
    s = x.sum()
    for read in (numpy.asarray, repr, lambda a: a.tolist(), list):
        fail("download", Fault())
        with pytest.raises(Fault):
            read(x)
    fail("download", Fault())
    with pytest.raises(Fault):
        float(s)
    assert_same([x, s], [numpy.arange(40.0) + 1, (numpy.arange(40.0) + 1).sum()])


def test_sum_in_two_launches_whose_second_fails(on_device, fail):
    x = np.ones(200_000)
    s = x.sum()
    np.evaluate(x)
    fail("allocate", MemoryError(), at=2)
    np.config.offload_threshold = 0
    try:
        np.evaluate(s)
    except MemoryError:
        assert is_waiting(s._storage.value)
    assert s == 200_000


def fail_at(monkeypatch, at, error):
    """Have a launch raise, the first one or a later one."""
    left, run = at, steps.LaunchStep.__call__

    def launch(self, values):
        nonlocal left
        left -= 1
        if not left:
            raise error
        run(self, values)

    monkeypatch.setattr(steps.LaunchStep, "__call__", launch)
    monkeypatch.setattr(steps, "_MOST", None)  # so that it is called


@pytest.mark.parametrize("at", [1, 2])
@pytest.mark.parametrize("error", [Fault, MemoryError])
def test_updates_in_several_launches_that_fail_leave_nothing_half_written(at, error, on_device, monkeypatch):
    """The second launch takes back what the first one has added to elements, where an index is out of bounds."""
    index, expected = numpy.arange(30) * 2 - 20, numpy.arange(40)
    x, ours, values = np.asarray(expected) * 1, np.asarray(index) * 1, np.ones(30, int) * 5
    np.evaluate(x, ours, values)
    np.add.at(x, ours, values)  # its kernels exist now
    numpy.add.at(expected, index, 5)
    y, wrong = x * 1, ours + 100 * (ours == 38)
    np.evaluate(y, wrong)
    monkeypatch.setattr(_runtime.current().pool, "notes_uses", False)  # which eviction changes
    fail_at(monkeypatch, at, error)
    with pytest.raises(error):
        np.add.at(y, wrong, values)
    if at == 2:
        with pytest.raises(IndexError):
            np.cuda.synchronize()
    if at == 1 and error is MemoryError:  # nothing has been launched
        assert_same(y, expected)
    else:
        for read in (numpy.asarray, repr, lambda y: np.evaluate(y + 1), lambda y: y.sum().item()):
            with pytest.raises(RuntimeError, match="its elements are lost"):
                read(y)
        assert eviction.evict(_runtime.current(), 1 << 30)  # of what is not lost
        assert y._storage.host is None
    assert_same(x, expected)


def test_updates_in_one_launch_that_fail_write_nothing(on_device, monkeypatch):
    expected, index = numpy.arange(40.0), numpy.arange(30)
    x, ours, values = np.asarray(expected) * 1, np.asarray(index) * 1, np.ones(30) * 5
    np.evaluate(x, ours, values)
    np.multiply.at(x, ours, values)
    numpy.multiply.at(expected, index, 5)
    for at in range(1, 6):
        with monkeypatch.context() as patch:
            fail_at(patch, at, Fault)
            try:
                np.multiply.at(x, ours, values)
            except Fault:
                pass
            else:  # of fewer launches
                numpy.multiply.at(expected, index, 5)
        assert_same(x, expected)


def test_an_update_whose_index_is_still_to_be_built_loses_nothing(on_device, monkeypatch):
    """What is missing for an operand is built, and the update begun once more: nothing has been written yet."""
    monkeypatch.setattr(executor, "_ANYWHERE", {})  # as in a new process
    expected = numpy.random.default_rng(5).integers(0, 7, 331)
    assert_same(np.add.reduceat(np.asarray(expected), [0, 5, 200, 7]), numpy.add.reduceat(expected, [0, 5, 200, 7]))


def _failing(statement):
    """Return a program that runs a statement which raises and gives what the arrays are afterwards."""

    def program(xp):
        x = xp.arange(12.0).reshape(3, 4)
        i = xp.arange(12).reshape(3, 4)
        view = x[1:]
        reader = x + 1
        frozen = xp.arange(3.0)
        frozen.flags.writeable = False
        try:
            statement(xp, x, i, view, frozen)
        except Exception as error:  # noqa: BLE001 - the exception is the outcome
            return error, x, i, view, reader, frozen
        return x, i, view, reader, frozen

    return program


def _set(target, key, value):
    target[key] = value


STATEMENTS = {
    "shapes": lambda xp, x, i, v, f: x + xp.ones(3),
    "shapes in a chain": lambda xp, x, i, v, f: (x * 2)[:2] + (x * 3),
    "shapes in place": lambda xp, x, i, v, f: x.__iadd__(xp.ones(5)),
    "in place grows": lambda xp, x, i, v, f: v.__iadd__(xp.ones((3, 2, 4))),
    "in place on a row grows": lambda xp, x, i, v, f: x[0].__iadd__(x),
    "out shape": lambda xp, x, i, v, f: xp.add(x, 1, out=v),
    "out not an array": lambda xp, x, i, v, f: xp.add(x, 1, out=[1]),
    "casting in place": lambda xp, x, i, v, f: i.__iadd__(1.5),
    "casting in place, array": lambda xp, x, i, v, f: i.__imul__(x),
    "division in place": lambda xp, x, i, v, f: i.__itruediv__(2),
    "casting out": lambda xp, x, i, v, f: xp.sqrt(x, out=i),
    "comparison out": lambda xp, x, i, v, f: xp.less(x, 1, out=i),
    "complex in place": lambda xp, x, i, v, f: x.__iadd__(1j),
    "sum out shape": lambda xp, x, i, v, f: x.sum(axis=0, out=v[0, :3]),
    "sum out ndim": lambda xp, x, i, v, f: x.sum(axis=0, out=x),
    "sum out casting": lambda xp, x, i, v, f: x.sum(axis=0, out=i[0]),
    "axis": lambda xp, x, i, v, f: x.sum(axis=2),
    "axis negative": lambda xp, x, i, v, f: x.max(axis=-3),
    "axis twice": lambda xp, x, i, v, f: x.sum(axis=(0, 0)),
    "max of nothing": lambda xp, x, i, v, f: x[:0].max(),
    "read-only set": lambda xp, x, i, v, f: _set(f, 0, 1),
    "read-only slice set": lambda xp, x, i, v, f: _set(f, slice(1, None), x[0, :2]),
    "read-only in place": lambda xp, x, i, v, f: f.__iadd__(1),
    "read-only view in place": lambda xp, x, i, v, f: f[1:].__imul__(2),
    "read-only out": lambda xp, x, i, v, f: xp.add(1, 2, out=f),
    "read-only fancy": lambda xp, x, i, v, f: _set(f, [0, 1], 5),
    "read-only fill": lambda xp, x, i, v, f: f.fill(1),
    "broadcast in place": lambda xp, x, i, v, f: xp.broadcast_to(x, (2, 3, 4)).__iadd__(1),
    "index": lambda xp, x, i, v, f: x[3],
    "index negative": lambda xp, x, i, v, f: x[0, -5],
    "too many indices": lambda xp, x, i, v, f: x[0, 0, 0],
    "float index": lambda xp, x, i, v, f: x[1.0],
    "two ellipses": lambda xp, x, i, v, f: x[..., ...],
    "zero step": lambda xp, x, i, v, f: x[::0],
    "string index": lambda xp, x, i, v, f: x["a"],
    "set index": lambda xp, x, i, v, f: _set(x, 3, 1),
    "set shape": lambda xp, x, i, v, f: _set(x, slice(1), xp.ones((3, 4))),
    "set shape, list": lambda xp, x, i, v, f: _set(x, 0, [1, 2, 3]),
    "set element to array": lambda xp, x, i, v, f: _set(x, (0, 0), xp.ones(2)),
    "set element to string": lambda xp, x, i, v, f: _set(x, (0, 0), "a"),
    "set element to None": lambda xp, x, i, v, f: _set(i, (0, 0), None),
    "set element to complex": lambda xp, x, i, v, f: _set(x, (0, 0), 1j),
    "set int to nan": lambda xp, x, i, v, f: _set(i, (0, 0), float("nan")),
    "set ints to inf": lambda xp, x, i, v, f: _set(i, 1, float("inf")),
    "set int too large": lambda xp, x, i, v, f: _set(i, 1, 2**63),
    "int too large": lambda xp, x, i, v, f: i + 2**63,
    "int too large in place": lambda xp, x, i, v, f: i.__iadd__(2**63),
    "int32 too large": lambda xp, x, i, v, f: i.astype(numpy.int32) * 2**31,
    "int too large compared": lambda xp, x, i, v, f: _set(x, ..., i < 2**63),
    "float too large": lambda xp, x, i, v, f: _set(x, ..., x.astype(numpy.float32) + 1e300),
    "int too large for float": lambda xp, x, i, v, f: x + 10**400,
    "None operand": lambda xp, x, i, v, f: x + None,
    "string operand": lambda xp, x, i, v, f: x * "a",
    "bool minus bool": lambda xp, x, i, v, f: (x > 1) - (x > 2),
    "astype string": lambda xp, x, i, v, f: x.astype("nonsense"),
    "astype casting": lambda xp, x, i, v, f: x.astype(int, casting="safe"),
    "reshape": lambda xp, x, i, v, f: x.reshape(5, -1),
    "transpose": lambda xp, x, i, v, f: x.transpose(0, 0),
    "truth": lambda xp, x, i, v, f: bool(x),
    "truth of nothing": lambda xp, x, i, v, f: bool(x[:0]),
    "float of many": lambda xp, x, i, v, f: float(x),
    "index of many": lambda xp, x, i, v, f: [1, 2][i],
    "index of float": lambda xp, x, i, v, f: [1, 2][x[0, 0]],
    "len": lambda xp, x, i, v, f: len(x.sum()),
    "len of 0-d": lambda xp, x, i, v, f: len(x[0, 0, ...]),
    "iteration of 0-d": lambda xp, x, i, v, f: list(x[0, 0, ...]),
    "hash": lambda xp, x, i, v, f: hash(x),
    "item": lambda xp, x, i, v, f: x.item(),
    "zeros": lambda xp, x, i, v, f: xp.zeros(-1),
    "where shapes": lambda xp, x, i, v, f: xp.where(x > 1, i[:2], x),
    "delete": lambda xp, x, i, v, f: x.__delitem__(0),
    "negative power": lambda xp, x, i, v, f: i**-1,
}


@pytest.mark.usefixtures("offload_threshold")
@pytest.mark.parametrize("statement", STATEMENTS.values(), ids=STATEMENTS)
@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_error_is_numpys_and_nothing_is_written(statement, twin):
    twin(_failing(statement))


@pytest.mark.parametrize("statement", ["shapes", "casting in place", "axis", "int too large", "read-only in place"])
def test_errors_are_raised_when_recorded(statement, on_device, stats):
    x, i, frozen = np.ones((3, 4)), np.ones((3, 4), dtype=np.int64), np.ones(3)
    frozen.flags.writeable = False
    np.evaluate()
    before = stats().launches
    with pytest.raises((ValueError, TypeError, OverflowError)):
        STATEMENTS[statement](np, x, i, x[1:], frozen)
    assert stats().launches == before


FIRST_IMPORT = """
import numpy as np
import oxinp
x = oxinp.arange(8827, dtype=np.int32).reshape(91, 97)
pending = x - np.inf
try:
    x[:, 1] = 2**31
except OverflowError as error:
    print(error)
"""


def test_numpy_may_import_what_it_needs_to_refuse_a_number():
    """It does so once in a process, for the code that wrote the number, whose globals must have `__import__`."""
    done = subprocess.run([sys.executable, "-c", FIRST_IMPORT], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("Python integer 2147483648 out of bounds for int32\n", "")


@pytest.mark.parametrize("at", [1, 2])
@pytest.mark.parametrize("error", [Fault, MemoryError])
def test_a_result_of_several_launches_that_fail_leaves_the_view_as_it_was(at, error, on_device, monkeypatch):
    """The first launch of a large sum writes to a workspace, the second one to the view."""
    theirs, expected = numpy.arange(200_000.0), numpy.arange(5.0)
    x, z = np.asarray(theirs) * 1, np.asarray(expected) * 1
    np.evaluate(x, z)
    with monkeypatch.context() as patch:
        fail_at(patch, at, error)
        with pytest.raises(error):
            z[2] = x.sum()
    assert_same(z, expected)
    z[2] = x.sum()
    expected[2] = theirs.sum()
    assert_same([z, x], [expected, theirs])


@pytest.mark.parametrize("function", [np.sum, np.argmin, np.mean, np.cumsum])
def test_what_gives_views_writes_its_result_in_one_step(function, on_device, monkeypatch):
    """So a view that is given a result is never half written, see `Op.gives_views`."""
    plans = []
    make = executor.Executable.__init__

    def init(self, plan, *args):
        plans.append(plan)
        make(self, plan, *args)

    monkeypatch.setattr(executor.Executable, "__init__", init)
    for shape in ((70_000,), (3, 20_000), (20_000, 3)):
        x = np.ones(shape)
        for axis in range(len(shape)):
            np.evaluate(function(x, axis=axis))
    assert plans
    for plan in plans:
        assert sum(map(lost.writes, in_order(plan.steps))) <= 1


@pytest.mark.parametrize("key", [(1, 2, 3, 4), (2, 3, 2, 4, 6, 1), (1,) * 3])
def test_keys_are_not_taken_for_parts_that_their_numbers_describe(key, on_device):
    x = np.arange(600.0).reshape(20, 30) * 1
    np.evaluate(x)
    assert_same(x[1, 2:14:4].sum(), numpy.float64(108))
    assert x[2:8:2, 4:10].shape == (3, 6)
    for access in (lambda: x[key], lambda: x.__setitem__(key, 5.0)):
        with pytest.raises(IndexError, match="too many indices"):
            access()
    assert_same(x, numpy.arange(600.0).reshape(20, 30))
