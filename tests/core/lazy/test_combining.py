"""What is found by arithmetic on layouts is what is found by asking: `renew` gives what `combine` gives."""

# ruff: noqa: ICN001, ARG001, ARG005 - oxinp is np where statements are written, all of which take the same

import itertools
import random
import sys
from types import SimpleNamespace

import numpy
import pytest

import oxinp as np
from oxinp._core.lazy import combining, record
from oxinp._core.lazy.balance import balance
from oxinp._core.lazy.combining import combine, renew
from oxinp._core.lazy.expr import leaf
from oxinp._core.memory.layout import Layout, make_layout
from oxinp._core.ufunc import operators
from oxinp._core.ufunc.objects import UFUNC_OBJECTS
from tests.comparator import assert_same

SHAPES = ((), (1,), (7,), (5, 7), (3, 5, 7))
STATEMENTS = (
    lambda x, y: x + y,
    lambda x, y: x * x,
    lambda x, y: (x - y) * x,
    lambda x, y: x < y,
    lambda x, y: 2 * x + 1.5,
    lambda x, y: np.sqrt(abs(x)) + y,
    lambda x, y: np.where(x > y, x, y),
    lambda x, y: np.where(x > 0, x * y, 0),
    lambda x, y: np.where(y + 1 > x, y + 1, x),
    lambda x, y: np.where(x < 1, 2.5, y),
    lambda x, y: -x,
    lambda x, y: x.reshape(-1)[0] - y,
    lambda x, y: (x * 0.5) * (y * 0.5) - (x * 0.5),
    lambda x, y: (x * 2 + y) * (x * 2 + y),
    lambda x, y: (x + y) * (y - x.reshape(-1)[-1]),
    lambda x, y: x * (x.reshape(-1)[0] + 1) * y,
    lambda x, y: y * (2 * x.reshape(-1)[-1] + x.reshape(-1)[0]),
)


@pytest.fixture
def found(monkeypatch):
    """Have every record that is renewed compared with the one that is made without; return how many were."""
    compared = []

    def both(operation, table, key, graphs, place=None, target=None):
        renewed = renew(operation, table, key, graphs, place, target)
        if renewed is None:
            return None
        places = (place,) if type(place) is int else place
        positions = None if place is None else (tuple(range(len(graphs[0].leaves))), places)
        if len(graphs) > 2:
            positions = place
        combined = combine(operation, graphs, positions, target)
        assert renewed.graph.structure is combined.graph.structure
        for one, other in zip(renewed.graph.leaves, combined.graph.leaves, strict=True):
            assert one.same(other) if isinstance(one, Layout) else one == other
        for name in ("dtype", "shape", "strides", "offset"):
            assert getattr(renewed.layout, name) == getattr(combined.layout, name), name
        assert renewed.graph.layout is renewed.layout
        for name in ("cost", "flush", "reason", "scalars", "convert"):
            assert getattr(renewed, name) == getattr(combined, name), name
        compared.append(operation.name)
        return renewed

    for module in (record, operators, combining):
        monkeypatch.setattr(module, "renew", both)
    return compared


def drawn(draw, dtype):
    """Return an array of ours, laid out in one of many ways."""
    shape = draw.choice(SHAPES)
    held = tuple(draw.choice((1, 2)) * length + draw.randrange(3) for length in shape)
    x = np.asarray(numpy.random.default_rng(draw.randrange(99)).integers(-4, 5, held).astype(dtype))
    x = x[tuple(slice(None, None, draw.choice((1, 1, -1))) for _ in shape)]
    x = x[tuple(slice(draw.randrange(2), None, draw.choice((1, 2))) for _ in shape)]
    x = x[tuple(slice(length) for length in shape)]
    return x.T if draw.random() < 0.2 else x


@pytest.mark.parametrize("seed", range(2))
def test_renewed_is_combined(on_device, found, seed):
    draw = random.Random(seed)
    for _ in range(200):
        x, y = (drawn(draw, draw.choice(("f4", "f8", "i4"))) for _ in range(2))
        statement = draw.choice(STATEMENTS)
        try:
            expected = statement(numpy.asarray(x), numpy.asarray(y))
        except (ValueError, IndexError) as error:
            with pytest.raises(type(error), match=r"broadcast|out of bounds"):
                statement(x, y)
            continue
        given = statement(x, y)
        assert given.dtype == expected.dtype
        numpy.testing.assert_array_equal(numpy.asarray(given), expected)
    assert len(found) > 100


@pytest.mark.parametrize(("num_entries", "num_layouts", "most"), [(4, 3, 4), (20, 1, 20), (60, 2, 20)])
def test_two_chains_are_joined_as_many_are(num_entries, num_layouts, most):
    entries, layouts = [object() for _ in range(num_entries)], [object() for _ in range(num_layouts)]
    draw = random.Random(7)
    for _ in range(500):
        sides = []
        for _ in range(2):
            pairs = [(draw.choice(entries), draw.choice(layouts)) for _ in range(draw.randint(1, most))]
            graph = SimpleNamespace(leaves=tuple(layout for _, layout in pairs), is_scalar=False)
            sides.append((graph, tuple(entry for entry, _ in pairs), draw.randrange(8)))
        assert record.join_two(*sides) == record.join_leaves(sides)


def test_a_chain_is_joined_with_itself_as_with_one_that_is_equal():
    """Of leaves that differ in their numbers, their layouts, or nothing, too."""
    entries, layouts = [object() for _ in range(4)], [object() for _ in range(3)]
    draw, asked = random.Random(8), []
    operation = SimpleNamespace(records=SimpleNamespace(get=asked.append))
    for _ in range(500):
        pairs = [(draw.choice(entries), draw.choice(layouts)) for _ in range(draw.randrange(1, 12))]
        graph = SimpleNamespace(leaves=tuple(layout for _, layout in pairs), is_scalar=False, shape=draw.random())
        leaves, mask = tuple(entry for entry, _ in pairs), draw.randrange(8) & ~record.SHARED
        value = graph, leaves, mask
        wanted = record.join_leaves((value, value))
        asked.clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(record, "renew", lambda *_: None)
            record.joined(operation, value, value)
        assert [key[2] for key in asked] == [wanted[0]]


def test_a_pending_chain_by_itself_has_numpys_elements():
    x, y = (numpy.random.default_rng(1).random(70_000) for _ in range(2))
    ours = [np.array(each) for each in (x, y)]
    for size in range(69_900, 69_930):
        a, b = x[:size] - y[:size], ours[0][:size] - ours[1][:size]
        numpy.testing.assert_array_equal(numpy.asarray(b * b), a * a)
        numpy.testing.assert_allclose(float(b @ b), a @ a, rtol=1e-12)
        numpy.testing.assert_allclose(float(np.linalg.norm(b)), numpy.linalg.norm(a), rtol=1e-12)


def test_common_shapes_are_numpys():
    lengths = (0, 1, 2, 3)
    shapes = [shape for ndim in (1, 2, 3) for shape in itertools.product(lengths, repeat=ndim)]
    for one, other in itertools.product(shapes, repeat=2):
        try:
            expected = numpy.broadcast_shapes(one, other)
        except ValueError:
            expected = ()
        assert combining.common_shape(one, other) == expected


def test_layouts_are_spread_as_they_are_broadcast():
    dtype = numpy.dtype(float)
    for shape in ((3, 5), (1, 5), (3, 1), (1, 1), (0, 5), (2, 3, 5)):
        for own in ((5,), (1,), (), (3, 1), (1, 5), (1, 1), (0, 1), (2, 1, 1), shape):
            if combining.common_shape(shape, own or (1,)) != shape:
                continue
            layout = make_layout(dtype, own, (64, 24, 8)[-len(own) :] if own else (), 16)
            assert combining._spread_over(layout, shape).same(layout.broadcast(shape))


def test_what_is_renewed_of_rows_and_columns_is_combined():
    operation, dtype = UFUNC_OBJECTS["add"].operations[0], numpy.dtype(float)
    num_found = 0
    for _ in range(2):  # structures that have been met by the second time
        for n in (7, 8, 9, 11):
            matrices = [Layout.of(dtype, (4, n)), make_layout(dtype, (4, n), (8 * n + 8, 8), 8)]
            matrices += [make_layout(dtype, (4, n), (8, 40), 8), Layout.of(dtype, (4, 1)), Layout.of(dtype, (1, n))]
            others = [Layout.of(dtype, (4, 1)), Layout.of(dtype, (1, n)), make_layout(dtype, (4, 1), (24, 0), 8)]
            others += [make_layout(dtype, (1, n), (0, 16), 8), make_layout(dtype, (n,), (-8,), 800)]
            others += [Layout.of(dtype, (1, 1)), Layout.of(dtype, (1,))]
            for pair in itertools.product([*matrices, *others], repeat=2):
                graphs = tuple([leaf(each) for each in pair])
                expected = combining.combine(operation, graphs, None)
                found = combining.renew(operation, operation.pairs, graphs, graphs)
                if found is None:
                    continue
                assert found.layout is expected.layout
                assert found.cost == expected.cost
                leaves = zip(found.graph.leaves, expected.graph.leaves, strict=True)
                assert all(ours.same(combined) for ours, combined in leaves)
                num_found += 1
    assert num_found > 300


@pytest.mark.skipif(
    sys.version_info < (3, 12), reason="operators have machine code for arrays of the device from 3.12 on"
)
def test_chains_with_one_number_over_and_over_are_looked_up(on_device, entered):
    a, b = np.array(numpy.ones((70, 70))), np.array(numpy.ones((70, 70)) * 0.5)

    def body():
        a[:] = 0.5 * (a + b)

    names = []
    with balance.suspended():
        for _ in range(150):
            body()
        for _ in range(50):
            names += entered(body)
    assert len(names) <= 50 * 13, names
    expected, half = numpy.ones((70, 70)), numpy.ones((70, 70)) * 0.5
    for _ in range(200):
        expected[:] = 0.5 * (expected + half)
    assert_same(a, expected)


def test_a_number_that_is_there_twice_is_joined_with_others(on_device):
    def body(xp):
        a, b = xp.arange(30.0), xp.arange(30.0) * 0.25 + 1
        chains = [0.5 * (0.5 * a), 0.5 * (b + 0.5 * a), 0.25 + (0.5 * a + 0.5) * 0.5]
        found = []
        for one, other in itertools.product([*chains, a, b], repeat=2):
            found += [one + other, one - other * 0.5, xp.where(one > other, one, 0.5)]
        return found

    for _ in range(2):
        for ours, numpys in zip(body(np), body(numpy), strict=True):
            assert_same(ours, numpys)
