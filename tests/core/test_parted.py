"""Parts of device arrays in NumPy's hands: no more is moved than they are, and both sides see what the other writes."""

import contextlib
import copy
import gc
import pickle
import warnings

import numpy as np
import pytest

import oxinp
from oxinp import _runtime
from oxinp._core.lazy.eviction import evict
from oxinp._core.lazy.parted import parted
from oxinp._core.memory.storage import is_pinned
from tests.comparator import assert_same

SHAPE = (160, 100)  # doubles: above the threshold


@pytest.fixture(autouse=True)
def _on_a_device(config):
    config.offload_threshold = 65_536
    if _runtime.current() is None:
        pytest.skip("there is no device")


def made(library=oxinp):
    """Return an array that is on the device alone, if there is one."""
    return library.arange(float(SHAPE[0] * SHAPE[1])).reshape(SHAPE) * 1.0


PARTS = {
    "row": lambda x: x[3],
    "rows": lambda x: x[2:5],
    "part of rows": lambda x: x[2:5, 1:4],
    "backwards": lambda x: x[5:2:-1, ::-2],
    "element": lambda x: x[4, 5:6],
    "last": lambda x: x[-1],
}


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_no_more_is_fetched_than_numpy_sees(part, stats):
    x = made()
    oxinp.evaluate(x)
    before = stats()
    seen = np.asarray(part(x))
    low, high = part(x)._layout.byte_bounds
    fetched = stats().d2h_bytes - before.d2h_bytes
    assert fetched == high - low < x.nbytes // 20
    assert_same(seen, part(made(np)))
    again = np.asarray(part(x))
    assert np.shares_memory(seen, again)
    assert stats().d2h_bytes - before.d2h_bytes == fetched
    assert stats().h2d_bytes == before.h2d_bytes


def test_no_more_is_uploaded_than_numpy_saw(stats):
    x = made()
    seen = np.asarray(x[3])
    seen[:] = -1
    del seen
    before = stats()
    total = (x * 2).sum()
    assert float(total) == 2 * (made(np).sum() - made(np)[3].sum() - SHAPE[1])
    assert stats().h2d_bytes - before.h2d_bytes == SHAPE[1] * 8
    assert stats().d2h_bytes - before.d2h_bytes == 8


def _with_strides(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        x.strides = (8, 8)
    return x


def _with_shape(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        x.shape = (100, 160)
    return x


def _read_only(x):
    x.flags.writeable = False
    x.flags.writeable = True
    x += 1
    return x


def _written(key, value):
    def write(x):
        x[key] = value(x) if callable(value) else value
        return x

    return write


def _updated(x):
    x += x[::-1].copy()
    return x


def _updated_row(x):
    x[2] -= x[3]
    x[3] *= 2.0
    return x


def _into(x):
    np.add(x, 1.0, out=x) if type(x) is np.ndarray else oxinp.add(x, 1.0, out=x)
    return x


def _filled(x):
    x.fill(3.0)
    return x


def _sorted(x):
    x[:, ::-1].sort(axis=0)
    return x


def _in_loop(x):
    return [float(x[i, 0]) for i in range(30)]


def _written_in_loop(x):
    for i in range(20):
        x[i, i] = x[i, i] + 1.0
    return x


OPERATIONS = {
    "add": lambda x: x + x,
    "with number": lambda x: 1.0 - x,
    "negative": lambda x: -x,
    "small sum": lambda x: x[2] + x[3],
    "comparison": lambda x: x > 300.0,
    "in place": _updated,
    "row in place": _updated_row,
    "out": _into,
    "sum": lambda x: x.sum(),
    "max along": lambda x: x.max(axis=0),
    "mean of rows": lambda x: x[1:4].mean(axis=1),
    "cumulative": lambda x: x.cumsum(axis=1),
    "argmax": lambda x: x.argmax(),
    "sorted": lambda x: -(x.copy()),
    "sort in place": _sorted,
    "product": lambda x: x[:5] @ x.T,
    "element": lambda x: x[3, 4],
    "another element": lambda x: x[100, 7],
    "row": lambda x: x[3],
    "column": lambda x: x[:, 3],
    "by mask": lambda x: x[x > 300.0],
    "by index": lambda x: x[[3, 4, 100]],
    "written element": _written((3, 4), -5.0),
    "written row": _written(3, lambda x: x[4]),
    "written column": _written((slice(None), 4), lambda x: x[:, 5] * 2.0),
    "written whole": _written(..., lambda x: x * 2.0),
    "written by mask": _written((slice(2, 9),), lambda x: x[2:9] * 0.5),
    "filled": _filled,
    "loop": _in_loop,
    "written loop": _written_in_loop,
    "iterated": lambda x: [float(row[0]) for row in x],
    "flat": lambda x: [float(x.flat[i]) for i in (0, 303, 15_000)],
    "list": lambda x: x[2:5].tolist(),
    "copy": lambda x: x.copy(),
    "copied": copy.copy,
    "cast": lambda x: x.astype("f4"),
    "reshaped": lambda x: x.reshape(-1)[290:310],
    "transposed": lambda x: x.T + 1.0,
    "real": lambda x: x.real + x.imag,
    "view": lambda x: x.view("i8")[3],
    "strides": _with_strides,
    "shape": _with_shape,
    "flags": _read_only,
    "pickled": lambda x: pickle.loads(pickle.dumps(x)),  # noqa: S301 - our own
    "bytes": lambda x: x[2:5].tobytes(),
    "text": repr,
    "repeated": lambda x: x.repeat(2, axis=0),
    "solved": lambda x: (x[:5, :5] + 1e5 * (x[:5, :5] > 0)).trace(),
    "taken": lambda x: x.take([3, 4]),
    "contains": lambda x: 303.0 in x,
    "rolled": lambda x: x[::-1] - x,
    "item": lambda x: x.item(303),
    "diagonal": lambda x: x.diagonal(),
    "put": lambda x: (x.put([1, 301], 5.0), x)[1],
    "array": np.array,
    "part of another": lambda x: np.asarray(x[50:60]).sum(),
    "overlapping part": lambda x: np.asarray(x[2:8]).sum(),
}


@pytest.mark.parametrize("is_held", [True, False], ids=["held", "let go"])
@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_both_sides_see_what_the_other_writes(operation, is_held):
    x, expected = made(), made(np)
    before = x + 0.5  # which has not been computed when the part is lent
    seen, view = np.asarray(x[2:5]), expected[2:5]
    for each in (seen, view):
        each[1] = -7.0
        each[:, 3] += 1.0
    if not is_held:
        del seen
        gc.collect()
    assert parted(x._storage) is not None
    result, wanted = operation(x), operation(expected)
    if isinstance(wanted, str | bytes | list | float | bool):
        assert result == wanted
    else:
        assert_same(np.asarray(result), np.asarray(wanted))
    assert_same(np.asarray(x), expected)
    if is_held and x.shape == SHAPE:
        assert_same(seen, view)
        seen[2] = view[2] = 11.0
        assert_same(np.asarray(x + 1.0), expected + 1.0)
        x *= 2.0
        expected *= 2.0
        assert_same(seen, view)
        del seen
        assert not is_pinned(x._storage)
    assert_same(np.asarray(x + 1.0), expected + 1.0)
    assert_same(np.asarray(before), made(np) + 0.5)


def test_the_only_copy_of_the_rest_is_not_dropped():
    x = made()
    seen = np.asarray(x[3])
    seen[0] = -1.0
    evict(_runtime.current(), 1 << 20)
    expected = made(np)
    expected[3, 0] = -1.0
    assert_same(np.asarray(x), expected)


def test_arrays_that_leave_the_device_take_the_rest_along(config):
    x = made()
    seen = np.asarray(x[3])
    seen[0] = -1.0
    expected = made(np)
    expected[3, 0] = -1.0
    backend = config.backend
    config.backend = "host"
    try:
        assert_same(np.asarray(x), expected)
        seen[1] = -2.0
        assert float(x[3, 1]) == -2.0
    finally:
        config.backend = backend


def test_a_part_of_what_may_not_be_written_is_lent_to_be_read():
    x = made()
    x.flags.writeable = False
    seen = np.asarray(x[3])
    assert not seen.flags.writeable
    with contextlib.suppress(ValueError):
        seen[0] = 1.0
    assert_same(np.asarray(x), made(np))


def test_a_view_of_no_elements_may_lie_beyond_them(config):
    config.offload_threshold = 0

    def done(library):
        x = library.arange(-2, -2, 1, dtype="f8").reshape((1, 0, 1, 2))
        part = x[1:, :1, :, 1]
        part[:, :, ::2] = part
        return np.asarray(part), np.asarray(part.T)

    for ours, theirs in zip(done(oxinp), done(np), strict=True):
        assert_same(ours, theirs)


def test_rows_of_an_array_of_which_one_is_lent_are_read_one_by_one(config):
    config.offload_threshold = 1000
    wanted = np.arange(41 * 43, dtype="u1").reshape(41, 43)
    array = oxinp.arange(41 * 43, dtype="u1").reshape(41, 43)
    lent = np.asarray(array[1])
    assert [row.shape for row in array] == [(43,)] * 41
    assert_same(lent, wanted[1])
    assert_same(array, wanted)
