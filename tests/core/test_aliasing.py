"""Views, in-place operations and writes: what reads what, and when."""

# ruff: noqa: ARG001, ARG005, ICN001 - fixtures that set up, programs of one signature, and oxinp is np

import gc

import numpy
import pytest

import oxinp as np
from oxinp._core.lazy.writing import MAX_SPARED
from oxinp._core.ops import index
from tests.comparator import assert_same


def _both_in_place(xp):
    x = xp.arange(10.0)
    v = x[1:]
    v += 1
    x *= 2
    return x, v


def _captured_by_chain(xp):
    x = xp.arange(10.0)
    t = x * 2
    u = x[2:5] + 1
    s = x.sum()
    x[0] = 5
    x[3:] = -1
    return t, u, s, x


def _captured_by_copy(xp):
    x = xp.arange(10.0)
    y = x * 3
    copies = [x.copy(), y.copy(), x[::2].copy(), y[1:].astype(numpy.int64), xp.array(x)]
    x[...] = 0
    y[::3] = 0
    return *copies, x, y


def _captured_scalars(xp):
    x = xp.arange(10.0)
    a, b = x[2], x[-1]
    x[2] = 100
    c = x[2]
    x += 1
    return a, b, c, x[2], x


def _element_of_pending(xp):
    x = xp.arange(10.0)
    y = x + 1
    s = y[3]
    y *= 2
    return s, y[3], y


def _whole_seen_through_views(xp):
    x = xp.arange(12.0).reshape(3, 4)
    views = [x[1], x.T, x[:, ::-2], x.reshape(-1)[3:7]]
    x += 10
    first = [v + 0 for v in views]
    x[...] = x.T.sum()
    return first, views, x


def _views_outlive_bases(xp):
    x = xp.arange(12.0) * 2
    v = x[3:9]
    w = v[::2]
    del x
    gc.collect()
    v += 1
    del v
    gc.collect()
    return w, w.base is not None


def _transpose_into_itself(xp):
    x = xp.arange(16.0).reshape(4, 4)
    x[...] = x.T
    y = xp.arange(16.0).reshape(4, 4)
    y += y.T
    z = xp.arange(16.0).reshape(4, 4)
    z[...] = z[::-1, ::-1] * 2 + z.T
    return x, y, z


def _shifted_into_itself(xp):
    x = xp.arange(3000.0)
    x[1:] = x[:-1]
    y = xp.arange(3000.0)
    y[:-1] = y[1:] + y[:-1]
    z = xp.arange(3000.0)
    z[::2] += z[1::2]
    w = xp.arange(3000.0)
    w[1:] += w[:-1]
    return x, y, z, w


def _chain_held_while_written(xp):
    x = xp.arange(10.0)
    y = x[1:] * 2
    z = y + 1
    x[1:] = y
    y += 1
    return x, y, z


def _source_read_after_write(xp):
    x = xp.arange(10.0)
    y = x[1:] * 2
    x[1:] = y
    x[5] = -1
    return x, y


def _source_shifted(xp):
    x = xp.arange(10.0)
    y = x[:-1] * 2
    z = y - 1
    x[1:] = y
    x[5] = -1
    return x, y, z


def _out_overlaps(xp):
    x = xp.arange(10.0)
    xp.add(x[1:], x[:-1], out=x[1:])
    y = xp.arange(10.0)
    xp.multiply(y[::-1], y, out=y)
    z = xp.arange(12.0).reshape(3, 4)
    xp.subtract(z, z[0], out=z)
    w = xp.arange(12.0).reshape(3, 4)
    xp.add(w[:, :1], w, out=w)
    return x, y, z, w


def _out_is_returned(xp):
    x = xp.arange(10.0)
    out = xp.zeros(10)
    v = out[2:]
    r = xp.sqrt(x, out=out)
    return r is out, v, x.sum(out=out[:1].reshape(())), out


def _names_deleted(xp):
    x = xp.arange(10.0)
    y = x * 2
    z = y + 1
    del y
    w = z * z
    del z
    x[0] = 9
    del x
    gc.collect()
    return w


def _rebound_twice(xp):
    x = xp.arange(10.0)
    a = x + 0
    x += 1
    b = x + 0
    x *= x
    c = x + 0
    x -= c
    return a, b, c, x


def _reductions_into_views(xp):
    x = xp.arange(12.0).reshape(3, 4)
    x.sum(axis=0, out=x[1])
    x.max(axis=1, out=x[:, 2])
    return x


def _broadcast_writes(xp):
    x = xp.zeros((3, 4))
    x[:] = xp.arange(4.0)
    x[1:, :2] = xp.arange(2.0)[:, None]
    x[:, -1] = 7
    x[0] = x[2]
    x.T[0] += x[0, :3]
    return x


def _chain_of_views(xp):
    x = xp.arange(24).reshape(2, 3, 4)
    v = x.swapaxes(0, 2)[1:, ::-1][..., 0]
    v[1] = 0
    v[...] = v + v
    return x, v


def _different_dtype(xp):
    x = xp.arange(10)
    x[2:4] = xp.arange(2.0) + 0.75
    x[5:] *= True
    y = xp.arange(4.0)
    y[...] = xp.arange(4) > 1
    return x, y


def _interior_of_two(xp):
    x = xp.arange(10.0)
    c = x + 1
    d = c * 2
    e = c * 3
    c -= 1
    f = d + e
    d[0] = 100
    return c, d, e, f


def _memory_orders(xp):
    x = xp.asarray(numpy.asfortranarray(numpy.arange(12.0).reshape(3, 4)))
    y = xp.array(numpy.arange(24).reshape(2, 3, 4).transpose(1, 2, 0)[:, ::-1])
    x -= xp.arange(4.0)
    z = x + x.T.copy().T
    v = x.T[1]
    v *= 2
    x[1:] = x[:-1]
    made = [x, y, z, v, x * 2, y + 1, z.copy(), z.astype(int), xp.array(z)]
    return made, [(a.flags.c_contiguous, a.flags.f_contiguous, a.strides) for a in made]


def _swap(xp):
    x, y = xp.arange(5.0), xp.arange(5.0) * 2
    x[1:], y[1:] = y[1:], x[1:]
    a, b = xp.arange(6.0).reshape(2, 3)
    t = a.copy()
    a[:] = b
    b[:] = t
    return x, y, a, b


def _fallback_between(xp):
    x = xp.arange(10.0) * 2
    y = x + 1
    xp.cumsum(x, out=x)
    z = x + 1
    x[[1, 2]] = 0
    x[x > 50] = -1
    return x, y, z


PROGRAMS = [
    value for name, value in list(globals().items()) if name.startswith("_") and name.islower() and callable(value)
]


@pytest.mark.usefixtures("offload_threshold")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__.strip("_"))
def test_program_gives_numpys_values(program, twin):
    twin(program)


def _stencil(x, y):
    y[1:-1, 1:-1] = 0.25 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])


def _assign(x, part):
    x[part] = x[part] * 2 + 1


def _subtracted(x, read, i):
    change = read * 3
    x[i] -= change  # whose value is still wanted


WRITES = {
    "stencil into another": (1, _stencil),
    "slice of the same layout": (1, lambda x, y: _assign(x, (slice(1, None), slice(2, -1)))),
    "in place on a view": (1, lambda x, y: x[1:].__iadd__(1)),
    "view from another": (1, lambda x, y: y[:3].__setitem__(..., x[3:6])),
    "scalar": (1, lambda x, y: y.__setitem__((slice(None), 2), 5)),
    "whole, transposed": (1, lambda x, y: x.__setitem__(..., x.T)),
    "whole, from itself": (1, lambda x, y: x.__imul__(x + 1)),
    "sum into a view": (1, lambda x, y: (x * 2).sum(axis=0, out=y[0])),
    "from itself, turned": (1, lambda x, y: x.__setitem__(..., x[::-1] + x.T)),
    "rows from other rows": (1, lambda x, y: x[0].__setitem__(..., x[1] * x[3])),
    "rows from other rows, backwards": (1, lambda x, y: x[5:3:-1].__setitem__(..., x[:2])),
    "sum of other rows into a row": (1, lambda x, y: x[1:].sum(axis=0, out=x[0])),
    "columns from others of the same bytes": (1, lambda x, y: x[:, 0].__setitem__(..., x[:, 1])),
    "every other element from those between": (1, lambda x, y: x[0, ::2].__setitem__(..., x[0, -1::-2] * 2)),
    "columns from those between": (1, lambda x, y: x[:, ::2].__setitem__(..., x[::-1, 1::2] * 2)),
    "row, by way of a name": (1, lambda x, y: _subtracted(x, x[2], 4)),
    "column, by way of a name": (1, lambda x, y: _subtracted(x.T, x[:, 2], 4)),
    "row from the column of its first element": (1, lambda x, y: x[2, 2:].__setitem__(..., x[2:, 2] + 1)),
    "column from the row of its first element": (1, lambda x, y: x[2:, 2].__imul__(x[2, 2:])),
    "stencil of a copy": (2, lambda x, y: _stencil(x.copy(), x)),
    # Through a temporary:
    "row from a column that it meets": (2, lambda x, y: x[2].__setitem__(..., x[:, 3] + 1)),
    "column from the row of its last element": (2, lambda x, y: x[:, 7].__setitem__(..., x[7] + 1)),
    "row from the column of its first element, backwards": (2, lambda x, y: x[2, 2:].__setitem__(..., x[:1:-1, 2] + 1)),
    "rows that meet": (2, lambda x, y: x[:3].__setitem__(..., x[2:5])),
    "shifted": (2, lambda x, y: x[1:].__setitem__(..., x[:-1])),
    "shifted chain": (2, lambda x, y: x[1:].__setitem__(..., x[:-1] * 2)),
    "view, transposed": (2, lambda x, y: x[:4, :4].__setitem__(..., x[:4, :4].T)),
    "row that it reads, by way of a name": (2, lambda x, y: _subtracted(x, x[4], 4)),
    "in place, shifted operand": (2, lambda x, y: x[1:].__iadd__(x[:-1])),
}


@pytest.mark.parametrize(("count", "write"), WRITES.values(), ids=WRITES)
def test_writes_go_direct_where_they_can(count, write, on_device, launches):
    theirs = numpy.arange(64.0).reshape(8, 8), numpy.zeros((8, 8))
    ours = [np.asarray(a) for a in theirs]
    write(*theirs)
    assert launches(lambda: (write(*ours), *ours)) == count
    assert_same(ours, list(theirs))


def test_partial_write_computes_the_readers_of_that_array_alone(on_device, stats):
    x, y = np.arange(50.0), np.arange(50.0)
    np.evaluate()
    reads_x, reads_y, reads_others = x + 1, y + 1, x[20:30] - x[:10]
    before = stats().launches
    x[10:20] = 5
    assert stats().launches - before == 2
    assert not reads_x._storage.value[0].nodes
    assert reads_y._storage.value[0].nodes
    assert reads_others._storage.value[0].nodes
    assert_same([reads_x, reads_y], [numpy.arange(50.0) + 1] * 2)
    assert_same(reads_others, numpy.full(10, 20.0))


def test_of_many_readers_of_other_elements_few_stay_pending(on_device):
    x, theirs = np.arange(60.0).reshape(20, 3), numpy.arange(60.0).reshape(20, 3)
    readers = [x[:, 1] + i for i in range(2 * MAX_SPARED)]
    x[:, 0] = x[:, 2] = -1
    assert sum(bool(reader._storage.value[0].nodes) for reader in readers) == MAX_SPARED
    assert_same(readers, [theirs[:, 1] + i for i in range(2 * MAX_SPARED)])
    x[:, 1] = 0
    assert_same(readers, [theirs[:, 1] + i for i in range(2 * MAX_SPARED)])


def test_rows_of_a_recurrence_are_written_in_one_launch_each(on_device, launches):
    def body(n, c, d):
        for i in range(1, 4):
            pivot = d[i] - 0.5 * c[i - 1]
            c[i] = d[i] / pivot
        for i in range(2, -1, -1):
            d[i] -= c[i] * d[i + 1]
        return c, d

    c, d = numpy.arange(28.0).reshape(4, 7), numpy.arange(28.0)[::-1].reshape(4, 7) + 60
    ours = [np.array(c), np.array(d)]
    assert launches(lambda: body(np, *ours)) == 6
    assert_same(ours, list(body(numpy, c, d.copy())))


def test_broadcast_target_is_read_only(offload_threshold, twin):
    def body(xp):
        xp.broadcast_to(xp.arange(3.0), (4, 3))[1] = 0

    twin(body)


def test_overlapping_target_keeps_numpys_order_where_it_is_defined(offload_threshold, twin):
    def body(xp):
        x = xp.arange(10.0)
        v = x[:0]
        v += 1
        v[...] = 3
        return x

    twin(body)


def test_many_views_of_a_pending_value_have_it_computed(on_device, launches):
    x = np.asarray(numpy.arange(1200.0).reshape(40, 30))
    y = np.maximum(x, 50)
    sums = [y[i : i + 2].sum() for i in range(39)]
    assert not y._storage.value[0].nodes
    assert_same(sums, [numpy.maximum(numpy.arange(1200.0).reshape(40, 30), 50)[i : i + 2].sum() for i in range(39)])
    few = np.maximum(x, 60)
    assert launches(lambda: few[1:] + few[:-1]) == 1


def assigned_whole(xp, x, y):
    view, before = x[2:5, 1:], x + 1
    made = y * 2 - x
    x[:] = made
    yield x, view, before, made
    made += 1
    x[...] = xp.minimum(x, y) + x[:, :1]
    yield x, view, made
    x[:] = made * x.astype("f4")
    view *= 3
    yield x, view, made
    x[:] = y > 1
    x[:] = x.T[::-1].T * 2
    x[...] = (x + y)[:1]
    yield x, view
    x[:] = x
    x[:] = x + x
    y[:] = x
    x += 1
    yield x, y, view, made


def test_a_whole_array_is_assigned_what_is_still_to_be_computed(on_device, monkeypatch):
    draw = numpy.random.default_rng(5)
    given = [draw.normal(size=(40, 30)) for _ in range(2)]
    ours = [np.asarray(x) * 1 for x in given]
    for mine, wanted in zip(assigned_whole(np, *ours), assigned_whole(numpy, *given), strict=True):
        for x, y in zip(mine, wanted, strict=True):
            assert_same(x, y)
    x, y = ours
    z = x - y
    wanted = z._storage.value
    monkeypatch.setattr(index, "assign", None)  # the general way
    x[:] = z
    assert x._storage.value is wanted
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        x[:] = y + z


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("part", [lambda a: a[:], lambda a: a.T, lambda a: a[::-1], lambda a: a[1:]])
@pytest.mark.parametrize("work", [lambda a: -a, lambda a: a * 2 + 1, numpy.sqrt])
def test_what_is_written_over_what_it_was_made_of_stays_as_it_is(part, work):
    found = []
    for xp in (np, numpy):
        array = xp.arange(1.0, 17.0).reshape(4, 4) * xp.ones((4, 4))  # which has not been computed, nor are these:
        result, other = work(array), work(array) + 1
        target = part(array)
        target[...] = result[: len(target)]
        whole = work(array)
        part(array)[...] = whole[: len(target)]
        found.append((array, result, other, whole, result + array))
    for one, wanted in zip(*found, strict=True):
        assert_same(one, wanted)


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("part", [lambda a: a[:], lambda a: a.T, lambda a: a[::-1]])
def test_what_is_written_over_all_that_it_was_made_of_stays_as_it_is(part):
    found = []
    for xp in (np, numpy):
        array = xp.arange(1.0, 17.0).reshape(4, 4) * xp.ones((4, 4))
        result = -array
        part(array)[...] = result
        found.append((array, result, result + array))
    for one, wanted in zip(*found, strict=True):
        assert_same(one, wanted)
