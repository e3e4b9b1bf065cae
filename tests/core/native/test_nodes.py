"""What machine code makes where something is recorded of arrays on the device: what the functions of Python's make."""

import contextlib
import ctypes
import functools
import gc
import sys

import numpy as np
import pytest

import oxinp
from oxinp import config
from oxinp._core.lazy import handle, results, schedule
from oxinp._core.lazy.calls import CALLS, Pending, forget
from oxinp._core.lazy.chains import copying, entry_at, line_again, line_of, matrix_of
from oxinp._core.lazy.combining import NUMBERS, combine, renew_pair
from oxinp._core.lazy.expr import Graph, Record, graph_of, leaf, reading, recorded
from oxinp._core.memory import layout as layouts
from oxinp._core.memory.layout import Layout, dense_layout, dense_of, line_layout, make_layout, spread
from oxinp._core.memory.storage import SHARED, Leaf, Storage
from oxinp._core.native import objects, writers
from oxinp._core.native.pages import mapped
from oxinp._core.ops.vector_product import operand, summed
from oxinp._core.ufunc.objects import UFUNC_OBJECTS
from tests.comparator import assert_same

pytestmark = pytest.mark.skipif(objects.VECTORCALL is None, reason="calls of functions have no other code")

OURS = oxinp.ndarray
FLOAT = np.dtype(float)
_refused = ctypes.CFUNCTYPE(ctypes.c_void_p)(lambda: None)  # what goes on in Python returns nothing without an error


def _code(name):
    """Return the code of a function as one of its arguments; it returns None where Python is to do it."""
    before = ctypes.cast(_refused, ctypes.c_void_p).value
    (address,) = mapped([writers.internal(OURS, name, before)])
    kind = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    call = kind(address)

    def ask(*given):
        items = (ctypes.py_object * len(given))(*given)
        found = call(None, ctypes.addressof(items), len(given), None)
        if not found:
            return None
        result = ctypes.cast(found, ctypes.py_object).value
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(result))
        return result

    return ask


def _attributes(made, *but):
    return {
        name: (type(value), value)
        for name in type(made).__slots__
        if name not in but
        for value in [getattr(made, name)]
    }


SIZES = iter(range(10_000, 10**9))


def _lines():
    """Yield vectors whose layouts nobody has met."""
    for kind in ("f8", "f4", "i8", "?", "c16", "u1", "f2", "M8[s]", "U3"):
        dtype = np.dtype(kind)
        for offset in (0, 8, 16, 256, 264, 2**20, 2**40 + 32):
            for step in (1, 2, -1, 0):
                size = next(SIZES)
                yield lambda d=dtype, o=offset, s=step, n=size: line_layout(d, n, s * d.itemsize, o)


def _others():
    """Yield layouts of other dimensions that nobody has met."""
    for offset in (0, 8, 512, 776):
        for n in (next(SIZES),):
            yield lambda o=offset, n=n: make_layout(FLOAT, (n, 7), (80, 8), o)
            yield lambda o=offset, n=n: make_layout(np.dtype("c16"), (n, 5), (16, 160), o)
            yield lambda o=offset, n=n: make_layout(FLOAT, (n, 7, 3), (8, 8, 0), o)
    yield lambda: make_layout(FLOAT, (), (), 64)
    yield lambda: line_layout(FLOAT, 0, 8, 0)


@pytest.mark.parametrize("make", [*_lines(), *_others()])
def test_layouts_are_read_by_the_graphs_that_python_makes(make):
    ask, given, other = _code("reading"), make(), make()
    found = ask(given)
    assert (found is not None) == (given.dtype.kind not in "MU")
    if found is None:
        return
    expected = reading(other)
    assert found is given.read
    assert given._form is other._form or (given._form is given and other._form is other)
    if given._form is not given:
        assert found is expected
    assert ask(given) is found
    form = given._form
    assert type(found) is Graph
    assert found.layout is form
    assert found.leaves == (form,)
    assert found is form.graph
    assert _attributes(found, "layout", "leaves") == _attributes(expected, "layout", "leaves")
    again = make_layout(form.dtype, form.shape, form.strides, form.offset)
    kept = "_form", "read", "graph", "parts", "met", "_dense", "_extent", "_injective"
    assert _attributes(form, *kept) == _attributes(again, *kept)


@pytest.mark.parametrize("make", [*_lines(), *_others()])
def test_leaves_are_the_graphs_that_python_makes(make):
    ask, given, other = _code("leaf"), make(), make()
    found, expected = ask(given), leaf(other)
    assert (found is not None) == (given.dtype.kind not in "MU")
    if found is not None:
        assert found is given.graph is ask(given)
        assert found.layout is given
        assert found.leaves == (given,)
        assert _attributes(found, "layout", "leaves") == _attributes(expected, "layout", "leaves")


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("make", [*_lines()])
def test_spread_vectors_are_what_python_makes(make, axis):
    ask, line = _code("spread"), make()
    shape = (line.size, 3) if axis == 0 else (3, line.size)
    found, expected = ask(line, shape, axis), spread(line, shape, axis)
    assert _attributes(found) == _attributes(expected)
    for other in ((1, 3), (3, 1), (0, 3), (3, 1 << 40), (3,), (3, 4, 5), (3, True), [3, 4]):
        assert ask(line, other, axis) is None
    assert ask(line, shape, 2) is None
    assert ask(make_layout(FLOAT, (4, 7), (80, 8), 0), shape, axis) is None


@pytest.mark.parametrize("kind", ["f8", "f4", "i8", "?", "c16", "f2", "M8[s]", "U3"])
def test_layouts_without_gaps_are_what_python_makes(kind):
    ask, dtype, n = _code("layout_of"), np.dtype(kind), next(SIZES)
    is_answered = dtype.kind not in "MU"
    found = ask(dtype, (n,))
    assert (found is not None) == is_answered
    expected = Layout.of(dtype, (n,))
    assert found is expected or not is_answered
    again = line_layout(dtype, n, dtype.itemsize, 0)
    assert expected._dense is expected
    assert _attributes(expected, "_dense") == _attributes(again, "_dense")
    assert (ask(dtype, (n,)) is expected) == is_answered
    for shape in ((n, 3), (0,), (), (True,), (1 << 40,), (np.int64(n + 1),)):
        assert ask(dtype, shape) is None or shape in {(), (0,)} or (shape == (True,) and ask(dtype, (1,)) is not None)
    matrix = Layout.of(dtype, (n, 3))
    assert (ask(dtype, (n, 3)) is matrix) == is_answered


@pytest.mark.parametrize("make", [*_lines(), *_others()])
def test_dense_layouts_are_what_python_makes(make):
    ask, given = _code("dense_of"), make()
    found = ask(given)
    is_made = given.ndim in {1, 2} and given.size > 0
    assert found is not None or given.dtype.kind in "MU" or not is_made
    if found is None:
        return
    if not is_made:  # the table has had it
        assert found is dense_of(make())
        return
    assert given._dense is found
    assert found._dense is found
    assert found is Layout.of(given.dtype, given.shape)
    again = dense_layout(given.dtype, given.shape)
    assert _attributes(found, "_dense", "_form") == _attributes(again, "_dense", "_form")
    assert found._form is (None if given.ndim == 1 else found)
    assert given.ndim == 1 or found is Layout.at(found.dtype, found.shape, found.strides, 0)
    assert ask(given) is found
    assert dense_of(make()) is found


def test_full_tables_are_left_to_python(monkeypatch):
    monkeypatch.setattr(layouts, "ROOM", 1)
    for name in ("reading", "dense_of"):
        assert _code(name)(line_layout(FLOAT, next(SIZES), 16, 8 + 256)) is None
    monkeypatch.undo()
    given = line_layout(FLOAT, next(SIZES), 16, 264)
    form = given.form
    monkeypatch.setattr(layouts.INTERNED, "old", dict(layouts.INTERNED))
    kept = dict(layouts.INTERNED)
    layouts.INTERNED.clear()
    try:
        assert _code("reading")(line_layout(FLOAT, given.size, 16, 520)) is None  # Python brings it back
        assert line_layout(FLOAT, given.size, 16, 520).form is form
    finally:
        layouts.INTERNED.update(kept)


def test_graphs_and_records_are_what_python_makes():
    layout = Layout.of(FLOAT, (12, 5))
    structure = leaf(layout).structure
    one, other = _code("graph_of")(structure, layout, (layout,)), graph_of(structure, layout, (layout,))
    assert _attributes(one) == _attributes(other)
    given = structure, layout, (layout,), (None, float), ((1, float),)
    one, other = _code("recorded")(*given), recorded(*given)
    assert type(one) is Record
    assert _attributes(one.graph) == _attributes(other.graph)
    one.cost = other.cost = 1.0
    assert _attributes(one, "graph") == _attributes(other, "graph")
    assert _code("graph_of")(structure, None, ()) is None


def test_pending_arrays_are_what_python_makes():
    graph, leaves = leaf(Layout.of(FLOAT, (12, 5))), (1.0,)
    one = _code("pending")(graph, leaves, 2)
    assert schedule.PENDING[-1]() is one._held
    other = results.pending(graph, leaves, 2)
    assert type(one) is OURS
    assert type(one._held) is Storage
    assert one._held.value == other._held.value == (graph, leaves, 2)
    for name in ("host", "stale", "has_objects"):
        assert getattr(one._held, name) is getattr(other._held, name)
    for name in ("_known", "_view", "_host", "_seen"):
        assert getattr(one, name) is getattr(other, name)
    assert gc.is_tracked(one)
    scalar = leaf(Layout.of(FLOAT, ()))
    other = results.pending(scalar, leaves, 2)  # for which there is a class by now
    one = _code("pending")(scalar, leaves, 2)
    assert type(one) is type(other)
    assert one._held.value == other._held.value
    for name in ("_known", "_view", "_host", "_seen"):
        assert getattr(one, name) is getattr(other, name)
    one._held.value = other._held.value = None
    assert _code("pending")(leaf(Layout.of(np.dtype("M8[s]"), ())), leaves, 2) is None
    one, other = _code("pending")(graph, leaves, 2), results.pending(graph, leaves, 2)
    one._held.value = other._held.value = None


def test_pending_values_are_wrapped_where_there_is_room(monkeypatch):
    ask, given = _code("wrap_pending"), (leaf(Layout.of(FLOAT, (12, 5))), (1.0,), 2)
    one, other = ask(given), results.wrap_pending(given)
    assert type(one) is type(other) is OURS
    assert schedule.PENDING[-2]() is one._held
    assert one._held.value is given
    for name in ("_known", "_view", "_host", "_seen"):
        assert getattr(one, name) is getattr(other, name)
    scalar = leaf(Layout.of(FLOAT, ())), (1.0,), 1 << 59
    single = results.wrap_pending(scalar)
    assert type(ask(scalar)) is type(single)
    for refused in ((*given[:2], SHARED), (*given[:2], SHARED | 2), given[:1], list(given), None):
        assert ask(refused) is None
    for room in (-1, 0, len(schedule.PENDING)):
        monkeypatch.setattr(schedule, "room", room)
        assert ask(given) is None
    monkeypatch.setattr(schedule, "room", len(schedule.PENDING) + 1)
    assert ask(given) is not None
    one._held.value = other._held.value = single._held.value = None


def test_results_are_wrapped_as_python_does():
    layout = Layout.of(FLOAT, (12, 5))
    for is_waiting in (False, True):
        entries = [Pending(None) if is_waiting else 1.0 for _ in range(2)]
        one = _code("wrap_result")(given := (leaf(layout), (entries[0],), 2))
        other = results.wrap_result((leaf(layout), (entries[1],), 2))
        assert type(one) is type(other) is OURS
        assert one._held.value is given
        for name in ("host", "stale", "has_objects"):
            assert getattr(one._held, name) is getattr(other._held, name)
        for name in ("_known", "_view", "_host", "_seen"):
            assert getattr(one, name) is getattr(other, name)
        if is_waiting:
            assert entries[0].owner() is one._held
            assert entries[1].owner() is other._held
    scalar = leaf(Layout.of(FLOAT, ())), (1.0,), 2
    other = results.wrap_result(scalar)
    assert type(_code("wrap_result")(scalar)) is type(other)


@pytest.fixture
def product():
    with config.override(offload_threshold=0):
        m, v = oxinp.ones((70, 50)) + 1, oxinp.arange(70.0) + 1
        oxinp.evaluate(m, v)
        yield summed(v._layout, m._layout), (operand(v)[0], operand(m)[0])


def test_operations_are_asked_for_as_python_does(product):
    bound, leaves = product
    one, other = _code("deferred")(bound, leaves, 3), results.deferred(bound, leaves, 3)
    assert type(one) is type(other) is OURS
    for name in ("_known", "_view", "_host", "_seen"):
        assert getattr(one, name) is getattr(other, name)
    (first, second) = (each._held.value for each in (one, other))
    assert first[0] is second[0]
    assert first[2].bit_count() == 1
    for array, (_, (result,), _) in ((one, first), (other, second)):
        assert type(result) is Pending
        assert result.owner() is array._held
        assert (result.place, result._buffer) == (0, None)
        call = result.call
        assert (call.bound, call.leaves, call.mask, call.buffers) == (bound, leaves, 3, None)
        assert [each() for each in call.results] == [result]
        assert call._entry in CALLS
        assert call._entry() is call
    assert_same(np.asarray(one), np.asarray(other))


def test_a_result_that_nobody_wants_takes_its_call_with_it(product):
    before = len(CALLS)
    made = _code("deferred")(*product, 3)
    assert len(CALLS) == before + 1
    del made
    assert len(CALLS) == before


def test_what_is_asked_for_otherwise_is_left_to_python(product, monkeypatch):
    bound, leaves = product
    ask = _code("deferred")
    assert ask(bound, leaves, SHARED) is None
    assert ask(bound, leaves, SHARED | 2) is None
    assert ask(None, leaves, 2) is None
    for name, value in (("room", -1), ("MAX_CALLS", len(CALLS))):
        with monkeypatch.context() as patch:
            patch.setattr(schedule, name, value)
            assert ask(bound, leaves, 2) is None
    assert ask(bound, leaves, 2) is not None


def test_what_is_asked_for_is_given_back(product):
    ask, counts = _code("deferred"), []
    for _ in range(3):
        for _ in range(50):
            ask(*product, 2)
        gc.collect()
        counts.append([sys.getrefcount(each) for each in (*product, product[0].layouts[0], forget)])
    assert counts[1] == counts[2]


def test_entries_are_what_python_makes():
    x = oxinp.arange(100_000.0) + 1
    oxinp.evaluate(x)
    (buffer,) = x._held.value[1]
    ask = _code("entry_at")
    assert ask(0, buffer) is None
    for offset in (8, 256, 2**33):
        one, other = ask(offset, buffer), entry_at(offset, buffer)
        assert type(one) is type(other)
        assert (one.ptr, one.buffer) == (other.ptr, other.buffer)
    assert ask(8, Pending(None)) is None


def test_chains_are_what_python_makes():
    with config.override(offload_threshold=0):
        x = oxinp.arange(5000.0)
        oxinp.evaluate(x)
        ask = _code("chain")
        for part in (x, x[7:], x[::2], x[:33], x[::-1]):
            one, other = ask(part), handle.chain(part)
            assert one[0] is other[0]
            assert one[2] == other[2]
            (entry,), (expected,) = one[1], other[1]
            assert type(entry) is type(expected)
            assert entry.ptr == expected.ptr
            assert entry.buffer is expected.buffer
            assert type(entry) is not Leaf or entry is not expected
        y = x + 1
        assert ask(y) is y._held.value
        assert ask(y[1:]) is None
        assert ask(np.arange(3)) is None
    assert ask(oxinp.asarray([1.0, 2.0])) is None


def test_launches_of_lines_are_what_python_finds():
    ask, num_answered = _code("line_again"), 0
    with config.override(offload_threshold=0):
        x, y = oxinp.arange(9000.0) + 1, oxinp.arange(9000.0) + 2
        oxinp.evaluate(x, y)
        for start, step in ((0, 1), (1, 1), (32, 1), (0, 3), (5, -1)):
            for stop in (700, 4000):
                made = x[start:stop:step] * y[0 : len(x[start:stop:step])] if step > 0 else x[stop:start:step] * 2.0
                graph = made._held.value[0]
                oxinp.evaluate(made)
                planner = graph.structure.plans[((graph.result, FLOAT),)]
                for n in (2, 3, 31, 32, 33, 1000, 1024, 8192, 8193, 2**20 + 7, 2**27, 2**29):
                    entries = [Layout.of(FLOAT, (n,))]
                    for entry in graph.leaves:
                        is_layout = type(entry) is Layout
                        entries.append(line_layout(FLOAT, n, *entry.strides, entry.offset) if is_layout else entry)
                    expected = line_again(planner, tuple(entries))
                    found = ask(planner, tuple(entries))
                    num_answered += found is not None
                    assert found is None or found == expected
                    if found is not None:
                        assert [*map(type, found)] == [*map(type, expected)]
                        assert all(type(number) is int for number in (*found[1], *found[2]))
                assert ask(planner, (Layout.of(FLOAT, (1,)),)) is None
                assert ask(planner, (make_layout(FLOAT, (9, 2), (32, 8), 0),)) is None
    assert num_answered > 20
    assert ask(None, ()) is None


def test_operands_are_what_python_finds():
    ask = _code("operand")
    with config.override(offload_threshold=0):
        x = oxinp.arange(6000.0).reshape(60, 100) + 1
        oxinp.evaluate(x)
        for given in (x, x[7:], x.T, x[3], x[:, 5:], x[:33, ::-1]):
            one, other = ask(given), operand(given)
            assert type(one) is tuple
            assert one[1] == other[1]
            assert type(one[0]) is type(other[0])
            assert (one[0].ptr, one[0].buffer) == (other[0].ptr, other[0].buffer)
            assert (one[0] is other[0]) == (type(one[0]) is not Leaf)
        pending = x + 1
        assert ask(pending) is operand(pending) is None
        waiting = oxinp.sum(x, axis=0)
        assert ask(waiting) is operand(waiting) is None
        assert ask(x[3, 4]) is None
    assert ask(oxinp.asarray([1.0, 2.0])) is None


def test_matrices_are_what_python_finds():
    ask = _code("matrix_of")
    some = [
        *(Layout.of(FLOAT, (9, 2)), make_layout(FLOAT, (9, 2), (-32, 8), 64), make_layout(FLOAT, (9, 2), (0, -8), 72)),
        *(make_layout(np.dtype("c16"), (9, 2), (2**20, 0), 2**33), Layout.of(np.dtype("?"), (9, 2))),
    ]
    for first in some:
        for second in some:
            found, expected = ask([first, second, first]), matrix_of([first, second, first])
            assert found == expected
            assert all(type(n) is int for pair in found[0] for n in pair)
    assert ask([some[0], make_layout(FLOAT, (9, 2), (12, 8), 0)]) is None
    assert matrix_of([make_layout(FLOAT, (9, 2), (12, 8), 0)]) is None
    for odd in (make_layout(np.dtype("U3"), (9, 2), (24, 12), 0), make_layout(FLOAT, (9, 2), (2**33, 8), 0), FLOAT):
        assert ask([some[0], odd]) is None
    assert ask(tuple(some)) is None


OPERATIONS = [UFUNC_OBJECTS[name].operations[0] for name in ("add", "multiply", "divide", "less", "power")]
UNARY = [UFUNC_OBJECTS[name].operations[0] for name in ("negative", "exp", "isnan")]


def _vectors(n, dtype=FLOAT):
    """Return graphs of vectors of a size: of parts, of a chain, and of what does not lie as it should."""
    whole = leaf(Layout.of(dtype, (n,)))
    chain = graph_of(COPY_OF_VECTOR, Layout.of(FLOAT, (n,)), (Layout.of(FLOAT, (n,)),))
    parts = [reading(line_layout(dtype, n, dtype.itemsize * step, offset)) for step, offset in ((1, 8), (-3, 512))]
    return [whole, chain, *parts, leaf(line_layout(dtype, n, dtype.itemsize, 4))]


COPY_OF_VECTOR = copying(Layout.of(FLOAT, (3,)), FLOAT).structure


def _keys(n):
    """Yield what `Operation.pairs` has operands by: vectors of a size and of another, numbers, and other shapes."""
    singles, ints = _vectors(n, np.dtype("f4")), _vectors(n, np.dtype("i8"))
    others = [leaf(Layout.of(FLOAT, shape)) for shape in ((), (n + 1,), (1,), (2, n), (n, 1), (1,) * 9)]
    others += [reading(make_layout(FLOAT, shape, (24, 8), 8)) for shape in ((n, 3), (n, 2))]
    steps = (8 * n + 64, 8), (-8 * n - 64, 8), (64, 8 * n + 64), (8 * n + 64, -8), (16, 16), (8, 16), (0, 8), (8, 0)
    others += [reading(make_layout(FLOAT, (2, n), each, 64)) for each in steps]
    others += [reading(make_layout(np.dtype(kind), (2, n), (16 * n + 64, 16), 64)) for kind in ("f4", "f8")]
    others += [reading(make_layout(FLOAT, (2, 2, n), (32 * n, 16 * n, 8), 64)), leaf(Layout.of(FLOAT, (1, n)))]
    others += [reading(make_layout(FLOAT, shape, (16 * n, 16), 64)) for shape in ((1, n), (n, 1), (2, 0))]
    for number in (int, float, complex):
        for graph in (*_vectors(n), *singles, *ints, *others):
            yield graph, number
            yield number, graph
    for one in (*_vectors(n), singles[2], ints[2], *others):
        for other in (*_vectors(n), singles[2], *others):
            yield one, other
            yield one, other, 0
        yield one, one, 0
    yield int, float


def _graphs(n):
    """Yield what a single operand is looked up by."""
    in_rows = [reading(make_layout(np.dtype(kind), (3, n), (16 * n + 64, 16), 64)) for kind in ("f4", "f8", "c16")]
    for graph in (*_vectors(n), *_vectors(n, np.dtype("f4")), *_vectors(n, np.dtype("c16")), *in_rows):
        yield (graph,)


@pytest.mark.parametrize(("operations", "_keys"), [(OPERATIONS, _keys), (UNARY, _graphs)], ids=["two", "one"])
def test_records_are_what_python_finds(operations, _keys):
    ask, num_answered = _code("renew_pair"), 0
    for operation in operations:
        for _ in range(2):  # structures that have been met by the second time
            for one, other in zip(_keys(n := next(SIZES)), _keys(n), strict=True):
                if (int, float) == one:
                    assert ask(operation, one) is None
                    continue
                graphs = [graph for graph in other if isinstance(graph, Graph)]
                for graph in (*graphs, *one):
                    if isinstance(graph, Graph):
                        graph.met = 0
                found = ask(operation, one)
                met = [graph.met for graph in one if isinstance(graph, Graph)]
                for graph in graphs:
                    graph.met = 0
                expected = renew_pair(operation, other)
                if found is None:
                    assert met == [0] * len(met)
                    with contextlib.suppress(Exception):  # so that it is known the next time
                        positions = ((0,), (0,)) if len(one) == 3 else None
                        combine(operation, tuple([NUMBERS.get(each, each) for each in one[:2]]), positions)
                    continue
                num_answered += 1
                assert expected is not None
                assert met == [graph.met for graph in graphs]
                assert type(found.cost) is type(expected.cost)
                assert _attributes(found, "graph", "layout") == _attributes(expected, "graph", "layout")
                assert found.layout is found.graph.layout
                assert found.layout is expected.layout
                assert found.graph.structure is expected.graph.structure
                assert [each.shape if type(each) is Layout else each for each in found.graph.leaves] == [
                    each.shape if type(each) is Layout else each for each in expected.graph.leaves
                ]
    assert num_answered > (200 if operations is OPERATIONS else 12)


def test_what_comes_often_is_entered_by_python():
    operation, ask, n = OPERATIONS[1], _code("renew_pair"), next(SIZES)
    m = next(SIZES)
    others = tuple([reading(line_layout(FLOAT, m, 8, offset)) for offset in (8, 16)])
    combine(operation, others, None)
    renew_pair(operation, others)
    one, other = (reading(line_layout(FLOAT, n, 8, offset)) for offset in (8, 16))
    assert ask(operation, (one, other)) is not None
    assert (one.met, other.met) == (1, 1)
    assert ask(operation, (one, other)) is None
    assert (one.met, other.met) == (1, 1)
    for _ in range(2):
        renew_pair(operation, (one, other))
    assert (one, other) in operation.pairs
    operation.pairs.age()
    one.met = other.met = 0
    assert ask(operation, (one, other)) is None  # which brings it back
    assert ask(operation, (other, one)) is not None


def _entries():
    """Yield tuples of layouts that a kernel reads and writes, and of what is none."""
    some = [
        *(
            Layout.of(FLOAT, (9,)),
            line_layout(FLOAT, 9, 16, 8),
            line_layout(FLOAT, 9, -24, 640),
            Layout.of(FLOAT, (9, 2)),
        ),
        *(
            line_layout(FLOAT, 9, 0, 8),
            line_layout(np.dtype("c16"), 9, 2**20, 2**33),
            line_layout(np.dtype("?"), 9, 3, 5),
        ),
        *(line_layout(FLOAT, 9, 12, 8), line_layout(FLOAT, 9, 8, 4), make_layout(FLOAT, (9, 2), (32, 8), 0)),
        *(make_layout(FLOAT, (), (), 8), line_layout(FLOAT, 1, 99 * 8, 8), line_layout(FLOAT, 0, 8, 0), float, FLOAT),
        *(line_layout(np.dtype("f4"), 9, 2**33, 8), line_layout(np.dtype("U3"), 9, 24, 12), Layout.of(FLOAT, (9, 1))),
    ]
    yield ()
    for first in some:
        yield (first,)
        for second in some:
            yield first, second
            yield first, float, second, first


def test_lines_are_what_python_finds():
    ask, num_answered = _code("line_of"), 0
    for entries in _entries():
        found = ask(entries)
        expected = line_of(entries)
        num_answered += found is not None
        assert found == expected or found is None
        if found is not None:
            assert all(type(n) is int for n in (found[0], *found[1], *found[2]))
    assert num_answered > 100
    assert ask([some for some in entries if some]) is None


def test_nothing_leaks():
    layout = line_layout(FLOAT, next(SIZES), 8, 264)
    structure = leaf(layout).structure
    convert, scalars, leaves = (None, float), ((1, float),), (layout,)
    x = oxinp.arange(5000.0) * 2
    with config.override(offload_threshold=0):
        twice = oxinp.arange(5000.0) * 2 + 1
        oxinp.evaluate(twice)
        made = twice[9:] * 2.0
        graph = made._held.value[0]
        entries = made._known, *graph.leaves
        oxinp.evaluate(made)
        planner = graph.structure.plans[((graph.result, FLOAT),)]
    line_again(planner, entries)
    renewed = reading(line_layout(FLOAT, layout.size, 8, 8))
    for key in ((renewed, float), (renewed, renewed, 0)):
        combine(OPERATIONS[1], (renewed, NUMBERS.get(key[1], renewed)), None if len(key) < 3 else ((0,), (0,)))
        renew_pair(OPERATIONS[1], key)
    with config.override(offload_threshold=0):
        y = oxinp.arange(5000.0) + 1
        oxinp.evaluate(y)
        part = y[7:]
    calls = [
        (_code("graph_of"), (structure, layout, leaves)),
        (_code("recorded"), (structure, layout, leaves, convert, scalars)),
        (_code("chain"), (part,)),
        (_code("reading"), (layout,)),
        (_code("dense_of"), (layout,)),
        (_code("leaf"), (layout,)),
        (_code("leaf"), (line_layout(FLOAT, layout.size, 8, 16),)),
        (_code("spread"), (layout, (layout.size, 3), 0)),
        (_code("spread"), (layout, (layout.size, 0), 0)),
        (_code("layout_of"), (FLOAT, (layout.size,))),
        (_code("chain"), (x,)),
        (_code("operand"), (part,)),
        (_code("operand"), (x,)),
        (_code("line_again"), (planner, entries)),
        (_code("line_of"), ((layout, float, line_layout(FLOAT, layout.size, -80, 2**20)),)),
        (_code("renew_pair"), (OPERATIONS[1], (renewed, float))),
        (_code("renew_pair"), (OPERATIONS[1], (renewed, renewed, 0))),
        (_code("matrix_of"), ([Layout.of(FLOAT, (9, 2)), make_layout(FLOAT, (9, 2), (8000, 8888), 64)],)),
        (_code("line_of"), ((layout, make_layout(FLOAT, (layout.size, 2), (80, 8), 0)),)),
    ]
    watched = [
        planner,
        entries,
        *entries[:2],
        renewed,
        renewed.leaves,
        renewed.structure,
        OPERATIONS[1],
        layout,
        structure,
        convert,
        scalars,
        leaves,
        part,
        layout.shape,
        FLOAT,
        part._held,
        part._held.value,
    ]
    for code, given in calls:
        code(*given)
    before = [sys.getrefcount(each) for each in watched]
    for code, given in calls:
        for _ in range(10_000):
            layout.read = layout._form = layout._dense = None
            renewed.met = 0
            code(*given)
    layout.read = layout._form = layout._dense = None
    after = [sys.getrefcount(each) for each in watched]
    assert all(abs(one - other) < 50 for one, other in zip(before, after, strict=True)), (before, after)
    gc.collect()
    counts = [len([each for each in gc.get_objects() if type(each) is kind]) for kind in (Graph, Record, Storage)]
    for _ in range(2000):
        for code, given in calls:
            renewed.met = 0
            code(*given)
        _code_once("pending")(leaf(layout), (part,), 0)
        _code_once("wrap_pending")((leaf(layout), (part,), 0))
    gc.collect()
    assert [len([each for each in gc.get_objects() if type(each) is kind]) for kind in (Graph, Record, Storage)] <= [
        count + 5 for count in counts
    ]


_code_once = functools.cache(_code)


@pytest.mark.parametrize("is_native", [True, False], ids=["machine code", "Python"])
def test_statements_on_parts_are_numpys(is_native):
    rng = np.random.default_rng(3)
    A, B, v = rng.random((70, 80)), rng.random((70, 80)), rng.random(80)
    with config.override(machine_code=is_native, offload_threshold=0):
        a, b, w = (oxinp.asarray(each) + 0 for each in (A, B, v))
        for i in range(1, 60):
            a[i, i:] = b[i, i:] * 0.5 + w[i:]
            A[i, i:] = B[i, i:] * 0.5 + v[i:]
            a[i, i:] = (a[i, i:] - a[i - 1, i:]) * 0.5
            A[i, i:] = (A[i, i:] - A[i - 1, i:]) * 0.5
        assert_same(a, A)
