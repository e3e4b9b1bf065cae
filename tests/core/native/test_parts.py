"""Parts of arrays on the device that machine code finds and makes: what `memory.parts` says, and `ops.index`."""

import ctypes
import gc
import re
import sys
import threading
from weakref import ref

import numpy as np
import pytest

import oxinp
from oxinp import config
from oxinp._core.lazy import placement
from oxinp._core.memory import parts as in_python
from oxinp._core.memory.layout import MAX_NESTED_PARTS, Layout
from oxinp._core.native import objects, parts
from oxinp._core.ops.keys import locate
from tests.comparator import assert_same

pytestmark = pytest.mark.skipif(not objects.ARE_KNOWN, reason="this Python's objects are laid out in another way")


class Index:
    """What Python takes for an integer."""

    def __index__(self):
        return 1

    def __repr__(self):
        return "Index()"


class Truthful(int):
    """A class of integers of somebody's own."""


BOUNDS = [
    *(slice(None), slice(1, None), slice(None, -1), slice(1, -1), slice(None, None, 2), slice(None, None, -1)),
    *(slice(-1, 0, -2), slice(5, 2), slice(2, 5, -1), slice(-99, 99), slice(99, -99, -3), slice(0, 0), slice(3, 3, -1)),
    *(slice(2**29, None), slice(2**30, None), slice(2**70), slice(-(2**70), 2**70), slice(None, None, 2**40)),
    *(slice(None, None, 2**29), slice(None, None, -(2**30)), slice(None, None, 2**64), slice(None, None, 0)),
    *(slice(True, 3), slice(np.int64(1), 3), slice(1.0, 3), slice("a"), slice(Index(), 3), slice(None, Truthful(2))),
]
INTEGERS = [0, 1, -1, 2, 3, -4, 4, 6, -7, 2**30, -(2**30), 2**62, 2**64, -(2**64)]
OTHERS = [True, None, ..., 1.5, "x", np.int64(1), Truthful(1), Index(), [0], np.array([0]), 1j, b"a"]
ONE = [*BOUNDS, *INTEGERS, *OTHERS]
FEW = [slice(None), slice(1, -1), slice(2, 0, -1), slice(2, 2), slice(None, None, 2), 1, -1, 9, None, ..., True]
KEYS = [
    *ONE,
    (),
    *((key,) for key in ONE),
    *((first, second) for first in FEW for second in FEW),
    *((first, FEW[1]) for first in ONE),
    *((FEW[0], second) for second in ONE),
    *((first, second, third) for first in FEW for second in FEW[:7] for third in FEW),
    *((first, 1, second, FEW[1]) for first in FEW for second in FEW),
    (1,) * 5,
    (slice(None),) * 5,
    (None,) * 40,
]


def _layouts():
    """Yield layouts of arrays whole and of parts, that overlap or have no elements, of many types and sizes."""
    for dtype in ("f8", "i1", "?", "c16", "f4", "U3", "V12", "M8[s]", "O", ">i2", "V1"):
        yield Layout.at(np.dtype(dtype), (5, 6), (6 * np.dtype(dtype).itemsize, np.dtype(dtype).itemsize), 0)
    whole = np.zeros((7, 6, 5, 4))
    for view in (
        *(whole, whole[0], whole[0, 0], whole[0, 0, 0], whole[0, 0, 0, 0], whole.T, whole[::2, 1:, ::-1], whole[:, :0]),
        *(whole[:0], whole[2, :1], whole[2, :, :1], np.broadcast_to(whole[0, 0], (3, 5, 4)), whole[1, ..., 0]),
        *(np.broadcast_to(whole[0, 0, 0, 0], (6,)), np.broadcast_to(whole[0, 0, 0, :1], (3, 4)), whole[None]),
        *(np.zeros(2**12)[::3], np.lib.stride_tricks.sliding_window_view(np.zeros(9), 4), whole[0, 0].T),
        *(
            np.zeros((4, 5), "f8,i1")["f1"],
            np.zeros((4, 5), "i1,f8")["f1"],
            np.broadcast_to(whole[0, 0], (2**31, 5, 4)),
        ),
        *(np.broadcast_to(whole[0, 0, 0, 0], (2**29, 2**29)), np.broadcast_to(whole[0, 0, 0], (2**20, 2**20, 4))),
    ):
        for offset in (0, 8, 4096, 12, 2**31, 2**48):
            yield Layout.at(view.dtype, view.shape, view.strides, offset)


def _fresh(layout):
    """Return a layout of its own with nothing kept, as fresh ones are that know whether they overlap."""
    made = in_python.make_layout(layout.dtype, layout.shape, layout.strides, layout.offset)
    made.is_injective  # noqa: B018 - which machine code does not find out
    return made


def _code():
    """Return the code as a function of a layout and a key; it returns None where Python is to be asked."""
    address = parts._address(oxinp.ndarray)
    call = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.py_object)(address)

    def ask(layout, key):
        found = call(layout, key)
        if found is None:
            return None
        result = ctypes.cast(found, ctypes.py_object).value
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(result))
        return result

    return ask


def _attributes(layout):
    values = {name: getattr(layout, name) for name in Layout.__slots__}
    values["_dense"] = "itself" if layout._dense is layout else layout._dense
    return {name: (type(value), value) for name, value in values.items()}


@pytest.mark.parametrize("layout", list(_layouts()), ids=str)
def test_parts_are_what_python_makes(layout):
    ask = _code()
    for key in KEYS:
        one, other = _fresh(layout), _fresh(layout)
        expected, found = in_python.part_of(other, key), ask(one, key)
        if found is None:
            assert one.parts is None
            continue
        assert expected is not None, key
        assert type(found) is tuple
        assert found[1] is expected[1], key
        assert _attributes(found[0]) == _attributes(expected[0]), key
        assert all(type(n) is int for n in (*found[0].shape, *found[0].strides)), key
        assert list(one.parts) == list(other.parts), key
        assert [*map(type, one.parts)] == [*map(type, other.parts)], key
        assert in_python.part_of(one, key) is found, key
        assert ask(other, key) is expected, key
        assert gc.is_tracked(found[0])


def test_usual_keys_are_answered():
    layout, ask = _fresh(Layout.of(np.dtype(float), (7, 6, 5))), _code()
    for key in (1, -1, slice(1, -1), (1,), (1, 2), (slice(1), 2), (1, 2, 3), (0, slice(None, None, -1), slice(2, 2))):
        assert ask(layout, key) is not None, key
    matrix = Layout.of(np.dtype("c16"), (7, 6))
    assert matrix.is_injective
    for key in (1, slice(2, None), (slice(3), 2), (2, slice(1, None)), (slice(1, -1), slice(None, -2)), (1, 2)):
        assert ask(matrix, key) is not None, key


def test_a_layout_that_does_not_know_whether_it_overlaps_is_asked_by_python():
    layout = in_python.make_layout(np.dtype(float), (4, 5), (8, 8), 0)
    assert _code()(layout, 1) is None
    assert not layout.is_injective
    assert _code()(layout, 1)[0]._injective is None


def test_python_forgets_parts_where_there_is_no_room():
    layout, ask = _fresh(Layout.at(np.dtype(float), (4000,), (16,), 8)), _code()
    for i in range(10 * MAX_NESTED_PARTS):
        key = slice(i, None)
        is_left = bool(layout.parts) and len(layout.parts) % MAX_NESTED_PARTS == 0
        assert (ask(layout, key) is None) == is_left
        assert in_python.part_of(layout, key)[0].shape == (4000 - i,)
    assert len(layout.parts) <= MAX_NESTED_PARTS


def test_nothing_leaks():
    layout, ask = _fresh(Layout.of(np.dtype(float), (700, 600))), _code()
    keys = [
        (slice(1, -1), slice(None, -2)),
        3,
        slice(2, None),
        (slice(None), 2),
        (1, 2),
        (True, 1),
        (slice("a"), 1),
        999,
    ]
    watched = [layout, layout.shape, layout.dtype, in_python.PART, None, True, False, *keys]
    for is_new in (False, True):
        for key in keys:
            ask(layout, key)
        before = [sys.getrefcount(each) for each in watched]
        for _ in range(10_000):
            for key in keys:
                if is_new:
                    layout.parts = None
                ask(layout, key)
        after = [sys.getrefcount(each) for each in watched]
        assert all(abs(one - other) < 150 for one, other in zip(before, after, strict=True)), (before, after)
    kept = len([each for each in gc.get_objects() if type(each) is Layout])
    for i in range(2000):
        layout.parts = None
        ask(layout, (slice(i % 600, None), 3))
    gc.collect()
    assert len([each for each in gc.get_objects() if type(each) is Layout]) <= kept


def test_what_is_made_goes_with_what_keeps_it():
    layout, ask = _fresh(Layout.of(np.dtype(float), (700, 600))), _code()
    part, is_element = located = ask(layout, (slice(1, 99), slice(2, 88)))
    assert not is_element
    del located
    assert sys.getrefcount(part) == 3  # of the variable, the tuple that the layout keeps, and the argument
    layout.parts.clear()
    assert sys.getrefcount(part) == 2
    counts = sys.getrefcount(part.shape), sys.getrefcount(part.strides)
    assert counts == (2, 2)  # of the layout and the argument


@pytest.fixture(params=[True, False], ids=["machine code", "Python"])
def on_device(request):
    """Have everything on the device, either way."""
    with config.override(machine_code=request.param, offload_threshold=0):
        placement.accesses.clear()
        yield request.param


def _device(host):
    made = oxinp.asarray(host) + 0
    oxinp.evaluate(made)
    assert made._storage.host is None
    return made


WHOLE = np.arange(80.0 * 90).reshape(80, 90)
LARGE = [
    *(slice(None), slice(1, None), slice(None, -1), slice(1, -1), slice(None, None, 2), slice(None, None, -1), ...),
    *(None, (slice(1, -1), slice(1, -1)), (slice(None, None, -1), slice(3, None, 2)), (slice(2, None),), ()),
    *((slice(None), None), (..., slice(1, None)), (slice(0, 999), slice(-999, 80))),
]
SMALL = [3, -1, (2,), (slice(None), 4), (4, slice(None)), (slice(2), slice(3)), slice(3, 3), (3, 4), 99, (1, 99)]


@pytest.mark.parametrize("key", [*LARGE, *SMALL, *OTHERS, *BOUNDS], ids=repr)
def test_elements_are_numpys(on_device, key):  # noqa: ARG001 - either way
    x = _device(WHOLE)
    for given, host in ((x, WHOLE), (x.T, WHOLE.T), (x[2:], WHOLE[2:])):
        try:
            expected = host[key]
        except Exception as error:  # noqa: BLE001 - whatever NumPy raises
            with pytest.raises(type(error), match=re.escape(str(error))):
                given[key]
            continue
        assert_same(given[key], expected)


@pytest.mark.parametrize("key", LARGE, ids=repr)
def test_handles_are_what_python_makes(on_device, key):  # noqa: ARG001 - either way
    x = _device(WHOLE)
    part = x[key]
    assert type(part) is oxinp.ndarray
    assert gc.is_tracked(part)
    assert part._held is x._held
    assert part._view is x
    assert part._at is key
    assert part._known is locate(x._layout, key)[0]
    assert part._host is None
    assert part._seen is None
    assert part.base is x
    again = part[...]
    assert again.base is x
    inner = x[1:][1:]
    assert inner._view is x
    assert inner._known.offset == 2 * 90 * 8


def test_what_is_written_to_a_part_is_in_the_array(on_device):  # noqa: ARG001 - either way
    host, x = WHOLE.copy(), _device(WHOLE)
    for each in (host, x):
        each[1:-1, 1:-1] = each[:-2, 1:-1] + each[2:, 1:-1]
        each[3:] += each[:-3]
        each[5:, 3] = each[5:, 4]
        part = each[::2]
        part *= 0.5
        each[7] = 1.0
        each[3, 4] = 2.0
        each[-1, 2:] -= each[0, 2:]
    assert_same(x, host)


GIVEN = {
    "a number": 2.5,
    "an integer": 3,
    "a row": np.arange(90.0),
    "two numbers": np.arange(2.0),
    "a column": np.arange(80.0)[:, None],
    "a complex number": 1j,
    "a list": [1.0],
}


@pytest.mark.parametrize("given", GIVEN, ids=str)
@pytest.mark.parametrize("is_ours", [True, False], ids=["ours", "NumPy's"])
def test_writes_are_numpys(on_device, given, is_ours):  # noqa: ARG001 - either way
    value = GIVEN[given]
    for key in (*LARGE, *SMALL, True, 1.5, np.int64(1), [0, 1], (slice(None), slice(None, None, 0))):
        host, x = WHOLE.copy(), _device(WHOLE)
        ours = _device(value) if is_ours and isinstance(value, np.ndarray) else value
        try:
            host[key] = value
        except Exception as error:  # noqa: BLE001 - whatever NumPy raises
            with pytest.raises(type(error), match=re.escape(str(error))):
                x[key] = ours
        else:
            x[key] = ours
        assert_same(x, host)


def test_nothing_is_deleted(on_device):  # noqa: ARG001 - either way
    x = _device(WHOLE)
    with pytest.raises(ValueError, match="cannot delete array elements"):
        del x[1:]


def test_what_python_raises_is_told(on_device):  # noqa: ARG001 - either way
    x = _device(WHOLE)

    class Failing:
        def __index__(self):
            raise ZeroDivisionError

    for key in (slice(Failing()), (slice(Failing()), 1), (1, slice(None, Failing()))):
        with pytest.raises(ZeroDivisionError):
            x[key]
        with pytest.raises(ZeroDivisionError):
            x[key] = 1.0


def test_read_only_views_and_derived_classes_stay_so(on_device):  # noqa: ARG001 - either way
    class Derived(oxinp.ndarray):
        pass

    x = _device(WHOLE)
    view = np.broadcast_to(x, (80, 90))
    with pytest.raises(ValueError, match="read-only"):
        view[1:][...] = 1.0
    derived = x.view(Derived)
    assert type(derived[1:]) is Derived
    assert_same(np.asarray(derived[1:]), WHOLE[1:])


def test_accesses_are_counted_as_before(on_device):  # noqa: ARG001 - either way
    x, y = _device(WHOLE), _device(WHOLE)
    assert_same(x[3, 4], WHOLE[3, 4])
    counted = dict(placement.accesses)
    assert_same(y[1:], WHOLE[1:])  # which is not counted, and leaves what is
    assert placement.accesses.keys() == counted.keys()
    assert_same(x[1:], WHOLE[1:])
    assert not placement.accesses  # what is read whole begins anew


def test_arrays_and_keys_are_given_back(on_device):  # noqa: ARG001 - either way
    x = _device(WHOLE)
    keys = [(slice(1, -1), slice(1, -1)), slice(2, None), (slice(None), slice(3, None))]
    storage, layout = x._held, x._layout
    other = _device(WHOLE[:9])._held
    reference, counted = ref(storage), (1, 0, 8, 0)
    watched = [x, storage, layout, other, reference, counted, None, *keys]
    for key in keys:
        x[key]
    for given in ({}, {ref(other): counted}, {reference: counted}):
        before = [sys.getrefcount(each) for each in watched]
        for _ in range(3000):
            placement.accesses.update(given)
            for key in keys:
                part = x[key]
            placement.accesses.clear()
        del part
        given.clear()
        after = [sys.getrefcount(each) for each in watched]
        assert all(abs(one - other) < 150 for one, other in zip(before, after, strict=True)), (before, after)


def test_writes_give_back_what_they_take(on_device):  # noqa: ARG001 - either way
    x, key, value = _device(WHOLE), (slice(1, -1), slice(1, -1)), _device(np.ones((78, 88)))
    x[key] = value
    watched = [x, key, value, value._held, x._held, None]
    before = [sys.getrefcount(each) for each in watched]
    for _ in range(300):
        x[key] = value
        x[key] += value
        with pytest.raises(ValueError, match="broadcast"):
            x[1:] = value
    after = [sys.getrefcount(each) for each in watched]
    assert all(abs(one - other) < 150 for one, other in zip(before, after, strict=True)), (before, after)


def test_threads_find_and_make_parts(on_device):  # noqa: ARG001 - either way
    x = _device(np.arange(3000.0))
    failed = []

    def work(seed):
        for i in range(3000):
            start = (i * 7 + seed) % 900
            part = x[start : start + 2000]
            layout = part._known
            if layout.shape != (2000,) or layout.offset != 8 * start or part._view is not x:
                failed.append((seed, i))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failed


def test_the_garbage_collector_may_run_at_any_time(on_device):  # noqa: ARG001 - either way
    x = _device(WHOLE)
    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for i in range(1, 60):
            assert x[i:, 1:].shape == (80 - i, 89)
            assert x[:, i:][1:].shape == (79, 90 - i)
    finally:
        gc.set_threshold(*before)


def test_nothing_is_left_where_there_is_no_memory(on_device):  # noqa: ARG001 - either way
    failing = pytest.importorskip("_testcapi")
    x = _device(np.zeros((1200, 1500)))
    layout, part_of = _fresh(x._layout), in_python.part_of
    x._known = layout
    keys = [(slice(1, -1), slice(1000, -2)), slice(600, None), (slice(None), 1100), (1, slice(300, None))]
    expected = [_attributes(part_of(_fresh(layout), key)[0]) for key in keys]
    watched = [x, x._held, layout, layout.shape, layout.strides, layout.dtype, in_python.PART, *keys]
    gc.collect()
    before = [sys.getrefcount(each) for each in watched]
    for key, attributes in zip(keys, expected, strict=True):
        for count in range(40):
            for of_layout in (True, False):
                result = layout.parts = None
                failing.set_nomemory(count, count + 1)
                try:
                    result = part_of(layout, key) if of_layout else x[key]
                except MemoryError:
                    pass
                finally:
                    failing.remove_mem_hooks()
                if result is not None:
                    assert _attributes(result[0] if of_layout else result._known) == attributes
    del result, key
    layout.parts = None
    gc.collect()
    assert [sys.getrefcount(each) for each in watched] == before
