"""Elements selected by a mask that nobody has counted: what is made of them, written back, and who asks for them."""

# ruff: noqa: ICN001, ARG001, ARG005 - oxinp is np, and programs take either

import copy
import operator
import pickle

import numpy
import pytest

import oxinp as np
from oxinp._core.lazy import selections
from oxinp._core.lazy.balance import Balance, balance
from oxinp._core.lazy.selections import Masked
from oxinp._core.memory.storage import Storage
from tests.comparator import assert_same
from tests.core.test_masks import escape

pytestmark = pytest.mark.usefixtures("on_device", "fresh")


@pytest.fixture
def fresh(monkeypatch):
    monkeypatch.setattr(selections, "_scores", {})


def values(kind="d", shape=(60, 50), seed=4):
    draw = numpy.random.default_rng(seed)
    x = draw.normal(0, 2, shape)
    return (x + 1j * draw.normal(0, 2, shape) if kind == "D" else x * 9).astype(kind)


def on_both(*arrays):
    ours = [np.asarray(x) * np.asarray(x).dtype.type(1) for x in arrays]
    np.evaluate(*ours)
    return ours


def is_waiting(array):
    return type(array._held) is Masked


@pytest.mark.parametrize("shape", [(3000,), (40, 70)], ids=str)
def test_loops_take_a_launch_or_two_in_each_turn(shape, launches, stats):
    c = values("D", shape) / 60
    (ours,) = on_both(c)
    for wanted, mine in zip(escape(numpy, c, 20), escape(np, ours, 20), strict=True):
        assert_same(mine, wanted)
    fetched = stats().d2h_bytes
    assert launches(lambda: escape(np, ours, 20)) <= 30
    assert stats().d2h_bytes == fetched


UPDATES = {
    "numbers": lambda np, x, y, m: operator.setitem(x, m, 2 * x[m] - 1),
    "of two": lambda np, x, y, m: operator.setitem(x, m, x[m] * y[m] + x[m]),
    "of another": lambda np, x, y, m: operator.setitem(x, m, y[m]),
    "in place": lambda np, x, y, m: operator.setitem(x, m, operator.iadd(x[m], 1)),
    "in place of two": lambda np, x, y, m: operator.setitem(x, m, operator.isub(x[m], y[m])),
    "functions": lambda np, x, y, m: operator.setitem(x, m, np.sqrt(np.abs(x[m])) + np.maximum(x[m], y[m])),
    "negated": lambda np, x, y, m: operator.setitem(x, m, -x[m]),
    "written out": lambda np, x, y, m: operator.setitem(x, ~m, x[~m] + y[~m]),
    "powers": lambda np, x, y, m: operator.setitem(x, m, x[m] ** 2 + 1 / y[m]),
    "a scalar of the device": lambda np, x, y, m: operator.setitem(x, m, x[m] * y.sum()),
    "where others are": lambda np, x, y, m: operator.setitem(x, x > 0, x[x > 0] * 0.5),
}


def test_updates_that_come_again_enter_few_functions(entered):
    x, m = values("l"), values(seed=6) > 1
    ours, mask = on_both(x, m)

    def turn(np, x, m):
        flips = m & (x > -5)
        x[flips] *= -1
        return flips

    for _ in range(40):
        turn(np, ours, mask), turn(numpy, x, m)
    counts = [len(entered(lambda: turn(np, ours, mask))) for _ in range(8)]
    for _ in counts:
        turn(numpy, x, m)
    assert_same(ours, x)
    assert sorted(counts)[4] <= 60, counts  # two of them the chain's, and what computes it, and what was written


def test_whole_arrays_are_updated_by_numbers_in_few_functions(entered):
    x = values()
    (ours,) = on_both(x)
    for _ in range(5):
        ours *= 0.5
        x *= 0.5
        np.evaluate(ours)
    assert len(entered(lambda: ours.__imul__(0.5))) <= 8
    x *= 0.5
    for kind, number in (("i4", 3), ("f4", 2), ("f4", 0.5), ("D", 2j), ("B", 2)):
        mine, wanted = on_both(values(kind))[0], values(kind)
        for _ in range(3):
            mine -= number
            wanted -= number
        assert_same(mine, wanted)
    with pytest.raises(TypeError, match="Cannot cast ufunc 'multiply' output"):
        on_both(values("l"))[0].__imul__(0.5)
    assert_same(ours, x)


NUMBERS = [0, 1, -3, True, 0.5, -0.0, 2**40, 1e300, float("nan")]


@pytest.mark.parametrize("kind", ["d", "f", "e", "l", "b", "B", "?", "D"])
@pytest.mark.parametrize("key", [..., slice(None), "mask", "part"], ids=str)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_numbers_are_written_to_all_and_where_a_mask_is_true(kind, key):
    def fill(np, x, m, number):
        x = np.asarray(x) if x.dtype == bool else np.asarray(x) * x.dtype.type(1)
        if np is not numpy:
            np.evaluate(x)
        for _ in range(2):  # what has been met is written in another way
            try:
                if key == "part":
                    x[3:][m[3:]] = number
                else:
                    x[m if key == "mask" else key] = number
            except (OverflowError, ValueError, TypeError) as error:
                return type(error), str(error)
        return x

    x, m = values(kind), values(seed=6) > 1
    (mask,) = on_both(m)
    for number in NUMBERS:
        found, wanted = fill(np, x, mask, number), fill(numpy, x.copy(), m, number)
        if isinstance(wanted, tuple):
            assert found == wanted
        else:
            assert_same(found, wanted)


def test_numbers_are_written_in_few_functions(entered):
    x, m = values(), values(seed=6) > 1
    ours, mask = on_both(x, m)
    for _ in range(5):
        for key, mine in ((m, mask), (..., ...)):
            x[key] = 1
            ours[mine] = 1
            np.evaluate(ours)
            assert_same(ours, x)
            ours *= 2
            x *= 2
            np.evaluate(ours)
    assert len(entered(lambda: operator.setitem(ours, mask, 1))) <= 13
    np.evaluate(ours)
    assert len(entered(lambda: operator.setitem(ours, ..., 1))) <= 13


OF_REAL = ("functions", "where others are")


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in "dfD" for name in UPDATES if kind != "D" or name not in OF_REAL]
)
def test_updates(name, kind, launches):
    x, y = values(kind), values(kind, seed=5)
    m = numpy.abs(values(seed=6)) < 12
    ours = on_both(x, y, m)
    ulp = 500 if name == "a scalar of the device" else 4 if kind == "D" else 0  # sums are added up in another order
    for _ in range(3):
        UPDATES[name](numpy, x, y, m)
        UPDATES[name](np, *ours)
        assert_same(ours[0], x, ulp=ulp)
    assert launches(lambda: (UPDATES[name](np, *ours), np.evaluate(ours[0]))) <= 3  # a sum takes two


@pytest.mark.parametrize(("to", "of"), ["df", "fd", "dl", "lh", "ld", "DF", "Dd", "dD", "hl", "?d"])
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_dtypes_of_what_is_written(to, of):
    x, y, m = values(to), values(of, seed=5), values(seed=6) > 1
    mine, others, mask = on_both(x, y, m) if to != "?" else (np.asarray(x), *on_both(y, m))
    x[m] = y[m] + y[m]
    mine[mask] = others[mask] + others[mask]
    assert_same(mine, x)


def test_masks_of_rows():
    x, y = values(), values(seed=5)
    m = x[:, 0] > 1
    mine, others, mask = on_both(x, y, m)
    for _ in range(3):
        x[m] += y[m] * 0.5
        mine[mask] += others[mask] * 0.5
        assert_same(mine, x)
    part = mine[mask]
    assert is_waiting(part)
    assert part.shape == (m.sum(), 50)


def test_masks_of_parts_and_of_other_orders():
    x, m = values(), values(seed=6) > 1
    mine, mask = on_both(x, m)
    for part in ((slice(10, 40),), (slice(None), slice(None, None, 2)), (slice(None, None, -1), slice(3, 30))):
        x[part][m[part]] *= 0.5
        mine[part][mask[part]] *= 0.5
        assert_same(mine, x)
    x.T[m.T] += 1
    mine.T[mask.T] += 1
    assert_same(mine, x)
    assert_same(mine.T[mask.T], x.T[m.T])


USES = {
    "shape": lambda a: a.shape,
    "dtype": lambda a: a.dtype,
    "size": lambda a: a.size,
    "ndim": lambda a: a.ndim,
    "nbytes": lambda a: a.nbytes,
    "strides": lambda a: a.strides,
    "len": len,
    "sum": lambda a: a.sum(),
    "element": lambda a: a[3],
    "last": lambda a: a[-1],
    "part": lambda a: a[2:9],
    "copy": copy.copy,
    "deep copy": copy.deepcopy,
    "pickle": lambda a: pickle.loads(pickle.dumps(a)),  # noqa: S301
    "tolist": lambda a: a.tolist(),
    "list": lambda a: [float(x) for x in a],
    "numbers": lambda a: a[[1, 5, 7]],
    "mask": lambda a: a[a > 0.5],
    "with itself": lambda a: a + a,
    "with another": lambda a: a + numpy.arange(len(a)),
    "with an element": lambda a: a * a[0],
    "comparison": lambda a: (a > 0.7).any(),
    "reshape": lambda a: a.reshape(1, -1),
    "astype": lambda a: a.astype("f4"),
    "sorted": lambda a: (a.sort(), a)[1],
    "written element": lambda a: (operator.setitem(a, 3, 9.0), a)[1],
    "written part": lambda a: (operator.setitem(a, slice(2, 5), 9.0), a)[1],
    "written mask": lambda a: (operator.setitem(a, a > 0.5, 1.0), a)[1],
    "filled": lambda a: (a.fill(2), a)[1],
    "power": lambda a: abs(a) ** a,
    "reflected power": lambda a: 2.0**a,
    "divmod": lambda a: divmod(a, 0.25)[1],
    "asarray": numpy.asarray,
    "round": lambda a: a.round(2),
    "argmax": lambda a: a.argmax(),
    "view": lambda a: a.view("i8"),
    "NumPy's number": lambda a: numpy.float64(2) * a,
    "repr": lambda a: repr(a[:3]).replace("array", ""),
}


@pytest.mark.parametrize("name", USES)
def test_whoever_asks_has_them_selected(name):
    x = values()
    m = x > 1
    ours, mask = on_both(x, m)
    part = ours[mask]
    assert is_waiting(part)
    found, wanted = USES[name](part), USES[name](x[m])
    if name == "repr":
        assert str(found) == str(wanted)
    elif isinstance(wanted, numpy.ndarray):
        assert_same(np.asarray(found), wanted, ulp=4 if "power" in name else 0)
    else:
        assert found == wanted or abs(found - wanted) < 1e-8 * abs(wanted)
    assert_same(ours, x)


REDUCTIONS = {
    "sum": lambda np, x, m: x[m].sum(),
    "function": lambda np, x, m: np.sum(x[m] * 2),
    "of none": lambda np, x, m: x[m & ~m].sum(),
    "of a dtype": lambda np, x, m: x.astype("i1")[m].sum(),
    "of negative zeros": lambda np, x, m: np.copysign(1, (x * -0.0)[m & (x > 0)].sum()),
    "of rows": lambda np, x, m: x[m[:, 0]].sum(axis=0),
    "any": lambda np, x, m: (x[m] > 7).any(),
    "any of none": lambda np, x, m: np.any(x[m & ~m]),
    "all": lambda np, x, m: np.all(x[m] > -3),
    "all of rows": lambda np, x, m: (x > 7)[m[:, 0]].all(axis=0),
    "product": lambda np, x, m: np.prod(x[m & (x > 8)] / 8),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_of_what_a_mask_selects_wait_for_nobody(name, stats):
    x = numpy.random.default_rng(5).integers(-9, 10, (60, 50)).astype(float)
    m = x > 1
    ours, mask = on_both(x, m)
    fetched = stats().d2h_bytes
    found = REDUCTIONS[name](np, ours, mask)
    assert stats().d2h_bytes == fetched
    assert_same(found, REDUCTIONS[name](numpy, x, m), ulp=200 if name == "product" else 0)


def test_reductions_that_have_to_know_how_many_there_are():
    x, m = values(), values(seed=6) > 1
    ours, mask = on_both(x, m)
    assert_same(ours[mask].max(), x[m].max())
    assert_same(ours[mask].sum(keepdims=True), x[m].sum(keepdims=True), ulp=200)
    assert_same(ours[mask[:, 0]].sum(axis=1), x[m[:, 0]].sum(axis=1), ulp=200)
    with pytest.raises(ValueError, match="zero-size array"):
        ours[mask & ~mask].min()


def written_meanwhile(np, x, y, m):
    first, doubled, of_rows = x[m], x[m] * 2, x[m[:, 0]]
    x[3] = 7.0
    yield first
    x += 1
    second = x[m]
    x *= y
    yield second
    third, fourth = x[m], y[~m]
    m[5:20] = True
    yield third
    y[m] = 0.0
    yield fourth
    m ^= True
    fifth = x[m]
    m[...] = y > 0
    yield fifth
    x[m] = x[m]
    sixth = x[m] + y[m]
    m[7] = False
    x[m] = y[m] * 2
    yield sixth
    yield doubled
    yield of_rows
    yield x
    yield y


def test_what_is_written_meanwhile_is_not_selected():
    given = values(), values(seed=5), values(seed=6) > 1
    ours = on_both(*given)
    for mine, wanted in zip(written_meanwhile(np, *ours), written_meanwhile(numpy, *given), strict=True):
        selections._scores.clear()
        assert_same(mine, wanted)


def test_a_mask_that_was_written_to_is_another_one():
    x, m = values(), values(seed=6) > 1
    mine, mask = on_both(x, m)
    found, wanted = mine[mask] * 2, x[m] * 2
    changed = numpy.flatnonzero(m)[:7]
    for flat, of in ((mask.ravel(), mask), (m.ravel(), m)):
        flat[changed] = False
        flat[changed + 1] = True
        of[...] = flat.reshape(of.shape)
    for array, key, value in ((mine, mask, found), (x, m, wanted)):
        if m.sum() == len(wanted):
            array[key] = value
        else:
            with pytest.raises(ValueError, match="NumPy boolean array indexing assignment cannot assign"):
                array[key] = value
    assert_same(mine, x)


def test_other_masks_and_shapes_are_refused_as_ever():
    x, m, other = values(), values(seed=6) > 1, values(seed=7) > 3
    mine, mask, others = on_both(x, m, other)
    with pytest.raises(ValueError, match="could not be broadcast"):
        mine[mask] + mine[others]
    with pytest.raises(ValueError, match="cannot assign"):
        mine[others] = mine[mask]
    with pytest.raises(TypeError, match="Cannot cast ufunc"):
        (part := (mine > 0)[mask]).__iadd__(part * 1.5)
    with pytest.raises(IndexError):
        mine[mask[:-1]]
    assert_same(mine, x)


def test_integers_refuse_negative_powers_of_what_is_selected_alone():
    x = values("l")
    m = x == numpy.iinfo(int).max
    mine, mask = on_both(x, m)
    assert_same(mine[mask] ** -1, x[m] ** -1)
    exponents, chosen = numpy.abs(x), numpy.abs(x)
    exponents[m] = -1
    chosen[0, 0] = -1
    keep = chosen >= 0
    ours, powers, kept = on_both(x, chosen, keep)
    assert_same(ours[kept] ** powers[kept], x[keep] ** chosen[keep])


def test_what_is_kept_is_selected_before_there_are_many():
    x = values()
    (mine,) = on_both(x)
    kept = []
    for n in range(2 * selections.MAX_WAITING):
        selections._scores.clear()
        kept.append(mine[mine > n])
    assert sum(map(is_waiting, kept)) <= selections.MAX_WAITING
    for n, part in enumerate(kept):
        assert_same(part, x[x > n])


def test_what_is_always_asked_for_is_selected_at_once():
    (mine,) = on_both(values())
    found = []
    for n in range(20):
        part = mine[mine > n]
        found.append(is_waiting(part))
        assert part[0] > n
    assert found == [True] + [False] * 19


def test_a_selection_is_a_storage_like_any_other_once_it_is_asked_for():
    (mine,) = on_both(values())
    part = mine[mine > 1]
    held = part._held
    assert type(held) is Masked
    assert part[0] > 1
    assert part._held is held
    assert type(held) is Storage
    part += 1
    np.evaluate(part)
    assert_same(part, values()[values() > 1] + 1)


def shrunk(np, x, y, steps, *, by_ufuncs):
    at = np.arange(len(x))
    found, last = np.zeros(len(x), int), np.zeros(len(x))
    for n in range(steps):
        if not len(x):
            break
        if by_ufuncs:
            np.multiply(x, x, x)
            np.add(x, y, out=x)
            out = np.abs(x) > 30
            found[at[out],] = n + 1
            last[at[out],] = x[out]
            np.logical_not(out, out)
            x, y, at = x[out], y[out], at[out]
        else:
            x = x * 1.25 + y
            out = np.abs(x) > 30
            found[at[out],] = n + 1
            x, y, at = x[~out], y[~out], at[~out]
    return found, last, x, y, at


@pytest.mark.parametrize("by_ufuncs", [False, True])
@pytest.mark.parametrize("scale", [0.2, 1.0])
def test_masks_of_what_masks_select(by_ufuncs, scale, launches, stats):
    x, y = values(shape=6000) * scale, values(shape=6000, seed=5) * 0.1
    ours = on_both(x, y)
    for mine, wanted in zip(
        shrunk(np, *[each * 1 for each in ours], 20, by_ufuncs=by_ufuncs),
        shrunk(numpy, x.copy(), y.copy(), 20, by_ufuncs=by_ufuncs),
        strict=True,
    ):
        assert_same(mine, wanted)
    selections._scores.clear()
    fetched = stats().d2h_bytes

    def run():
        found, last, *_ = shrunk(np, *[each * 1 for each in ours], 20, by_ufuncs=by_ufuncs)
        np.evaluate(found, last)

    count = launches(run)
    if scale < 1:  # else few are left at once
        assert count < 20 * (11 if by_ufuncs else 8)
    assert stats().d2h_bytes - fetched <= 30 * 8  # what asks how many there are, and what is selected when they are few


def test_what_is_updated_is_a_selection_of_its_own():
    x, m = values(), values(seed=6) > 1
    mine, mask = on_both(x, m)
    first, theirs = mine[mask], x[m]
    second, other = first[first > 2], theirs[theirs > 2]
    kept, keeps = first > 2, theirs > 2
    outside, others = ~kept, ~keeps
    first += 100
    theirs += 100
    np.negative(second, out=second)
    numpy.negative(other, out=other)
    kept &= first > 105
    keeps &= theirs > 105
    third, their_third = first[kept], theirs[keeps]
    np.logical_not(outside, outside)
    numpy.logical_not(others, others)
    assert is_waiting(third)
    for ours, wanted in (
        (third, their_third), (first, theirs), (second, other), (outside, others), (kept, keeps), (~kept, ~keeps)
    ):  # fmt: skip
        assert_same(ours, wanted)
    assert_same(mine, x)


@pytest.mark.parametrize("kind", ["d", "D", "l", "B"])
@pytest.mark.parametrize("index", ["l", "i", "h"])
def test_writes_at_indices_that_a_mask_selects(kind, index):
    rows, columns = numpy.arange(3000, dtype=index) % 60 - 60, ((numpy.arange(3000) * 7) % 50).astype(index)
    given, m = values(kind, 3000), values("d", 3000) > 1
    for value in (3, None):
        x = values(kind)
        mine, at, across, what, mask = on_both(x, rows, columns, given, m)
        x[rows[m], columns[m]] = given[m] if value is None else value
        mine[at[mask], across[mask]] = what[mask] if value is None else value
        assert_same(mine, x)


def test_indices_out_of_bounds_count_where_the_mask_is_true():
    rows = numpy.arange(3000)
    mine, at = on_both(numpy.zeros(1000), rows)
    low = at < 1000
    mine[at[low],] = 1.0
    assert_same(mine, numpy.ones(1000))
    mine[at[at < 1001],] = 2.0
    with pytest.raises(IndexError, match="index 1000 is out of bounds for axis 0 with size 1000"):
        numpy.asarray(mine)


def test_errors_of_what_is_not_selected_are_nobodys():
    x = values()
    m = x > 1
    mine, mask = on_both(x, m)
    part, another = mine[mask], mine[mask] * 1
    with np.errstate(all="raise"):
        assert_same(np.sqrt(part), numpy.sqrt(x[m]))
        another /= part
    assert_same(another, x[m] / x[m])


def test_how_many_there_are_is_counted_alone(launches):
    x = values()
    (mine,) = on_both(x)
    part = mine[mine > 1]
    assert part.shape == x[x > 1].shape
    assert part.size == x[x > 1].size
    assert len(part) == len(x[x > 1])
    assert is_waiting(part)
    few = mine[mine > 20]
    assert len(few) == len(x[x > 20])
    assert not is_waiting(few)
    assert_same(part, x[x > 1])


def test_masks_that_have_come_to_belong_on_the_host_are_counted_there(config, monkeypatch):
    config.offload_threshold = 4096
    x = values()
    (mine,) = on_both(x)
    part = mine[mine > 1]
    assert is_waiting(part)
    monkeypatch.setattr(balance, "limit", 1 << 30)
    assert len(part) == (x > 1).sum()
    assert_same(part, x[x > 1])


def test_of_what_is_very_large_elements_are_selected_at_once(monkeypatch):
    x = values()
    (mine,) = on_both(x)
    assert is_waiting(mine[mine > 1])
    monkeypatch.setattr(selections, "MAX_NBYTES", x.nbytes - 1)
    assert not is_waiting(mine[mine > 1])
    assert_same(mine[mine > 1], x[x > 1])


def test_where_floating_point_errors_are_told_of_all_are_selected():
    x = values()
    m = x > 1
    mine, mask = on_both(x, m)
    with np.errstate(all="raise"):
        assert not is_waiting(mine[mask])
        assert_same(np.log(mine[mask]), numpy.log(x[m]), ulp=2)


@pytest.fixture
def small_on_host(on_device, config):
    """Have masks of 3000 elements on the host, and eight times as large arrays on the device."""
    config.adaptive_placement = False
    config.offload_threshold = 4096


ON_HOST = {
    **REDUCTIONS,
    "numbers": lambda np, x, m: x[m] * 2 - 1,
    "shape": lambda np, x, m: x[m].shape,
    "rows": lambda np, x, m: x[m[:, 0]],
    "rows written": lambda np, x, m: (operator.setitem(x, m[:, 0], x[m[:, 0]] * 2), x)[1],
    "written": lambda np, x, m: (operator.setitem(x, m, x[m] * 2), x)[1],
    "in place": lambda np, x, m: (operator.setitem(x, m, operator.iadd(x[m], 1)), x)[1],
    "of a part": lambda np, x, m: x[:, ::2][m[:, ::2]].sum(),
    "few": lambda np, x, m: (x[m & (m.cumsum().reshape(m.shape) < 9)] * 2).sum(),
    "with a mask of the device": lambda np, x, m: x[m][x[m] > 3],
}


@pytest.mark.parametrize("name", ON_HOST)
@pytest.mark.usefixtures("small_on_host")
def test_masks_of_the_host(name):
    x = numpy.random.default_rng(5).integers(-9, 10, (60, 50)).astype(float)
    m = x > 1
    for _ in range(3):
        (ours,), mask = on_both(x.copy()), np.asarray(m)
        assert ours._held.host is None
        assert mask._held is None or mask._held.host is not None
        found, wanted = ON_HOST[name](np, ours, mask), ON_HOST[name](numpy, x.copy(), m)
        assert_same(found, wanted, ulp=200 if name == "product" else 0)


@pytest.mark.usefixtures("small_on_host")
def test_reductions_by_masks_of_the_host_read_all(launches, entered, stats):
    x = numpy.random.default_rng(5).integers(-9, 10, (600, 50)).astype(float)
    m = x[:, 0] > 1
    (ours,), mask = on_both(x), np.asarray(m)
    for n in range(20):
        m[n] ^= True
        mask[n] = m[n]
        part = ours[mask]
        assert is_waiting(part)
        assert_same(part.sum(axis=0), x[m].sum(axis=0))
    assert launches(lambda: ours[mask].sum(axis=0)) == 1
    fetched = stats().d2h_bytes
    assert len(entered(lambda: ours[mask].sum(axis=0))) <= 45
    assert stats().d2h_bytes == fetched


@pytest.mark.usefixtures("small_on_host")
@pytest.mark.parametrize("name", ["any", "all", "sum"])
def test_rows_that_a_mask_selects_are_reduced_again_by_one_look_up(name, entered):
    x = numpy.random.default_rng(5).integers(0, 2, (600, 50)).astype(bool)
    m = numpy.arange(600) % 3 < 1
    (ours,) = on_both(x) if name == "sum" else (np.asarray(x) & np.asarray(x),)
    np.evaluate(ours)

    for n in range(8):
        m[n] ^= True
        assert_same(getattr(ours[np.asarray(m)], name)(axis=0), getattr(x[m], name)(axis=0))
    mask = np.asarray(m)
    names = entered(lambda: getattr(ours[mask], name)(axis=0))
    assert not {"express", "reduced", "chain", "view_at"} & {*names}
    assert len(names) <= 40


@pytest.mark.usefixtures("small_on_host")
def test_what_was_reduced_by_a_mask_is_no_other_reduction():
    """Of another axis, dtype, part or mask, or of what has been written to between selection and reduction."""
    x = numpy.random.default_rng(5).integers(-9, 10, (90, 90)).astype(float)
    m = numpy.arange(90) % 3 < 1
    (ours,), mask = on_both(x), np.asarray(m)
    both = ((np, ours, mask), (numpy, x, m))
    programs = [
        lambda np, x, m: x[m].sum(axis=0),
        lambda np, x, m: x[m].sum(),
        lambda np, x, m: x[m].sum(axis=1),
        lambda np, x, m: np.sum(x[m], axis=0, dtype="f"),
        lambda np, x, m: x[m].any(axis=0),
        lambda np, x, m: x[1:][m[1:]].sum(axis=0),
        lambda np, x, m: x.T[m].sum(axis=0),
        lambda np, x, m: x[m[::-1]].sum(axis=0),
        lambda np, x, m: (x + 1)[m].sum(axis=0),
        lambda np, x, m: x[:, 0][m].sum(axis=0),
        written_between,
        mask_written_between,
    ]
    for _ in range(5):
        for program in programs:
            found, wanted = [program(*each) for each in both]
            for mine, theirs in zip(found, wanted, strict=True) if type(found) is tuple else [(found, wanted)]:
                assert_same(mine, theirs)


def written_between(np, x, m):
    part = x[m]
    x[:2] += 1
    return part.sum(axis=0), x[m].sum(axis=0)


def mask_written_between(np, x, m):
    part = x[m]
    m[:4] ^= True
    total = part.sum(axis=0), x[m].sum(axis=0)
    m[:4] ^= True
    return total


@pytest.mark.usefixtures("small_on_host")
def test_masks_of_the_host_that_are_written_to_are_others():
    x, m = values(), values(seed=6) > 1
    (ours,), mask = on_both(x), np.asarray(m)
    part, other = ours[mask], x[m]
    first, second = ours[mask] * 2, x[m] * 2
    for each in (mask, m):
        each[:30] ^= True
    if m.sum() == len(second):
        ours[mask], x[m] = first, second
    else:
        with pytest.raises(ValueError, match="cannot assign"):
            ours[mask] = first
    for each in (mask, m):
        each[:30] ^= True
    ours[mask], x[m] = first, second  # which is the same again
    ours += 1
    x += 1
    assert_same(ours, x)
    assert_same(part, other)
    assert_same(first, second)


@pytest.mark.parametrize("share", [0.01, 1.0])
def test_what_a_mask_of_the_host_leaves_out_is_nothing_that_the_device_gains(share, config):
    config.offload_threshold = 4096
    balance.begin(4096, is_adaptive=True)
    rows = numpy.arange(600) < share * 600
    (ours,) = on_both(numpy.ones((600, 400)))
    weights = []
    for _ in range(70):
        found = ours[np.asarray(rows)].any(axis=0)
        np.evaluate(found)
        weights.append(sum(balance._weights))
        balance._weights = [0.0] * len(balance._weights)
    assert sum(weights) < 0 if share < 1 else sum(weights) > 70 * 100
    balance.begin(4096, is_adaptive=True)


def test_rows_of_a_mask_that_nobody_has_counted_are_weighed_as_few(monkeypatch):
    x = values()
    rows = np.asarray(x) * 1.0
    np.evaluate(rows)
    costs = []
    monkeypatch.setattr(Balance, "recorded", lambda _, nbytes, cost, price: costs.append(cost))
    selected = rows[rows[:, 0] > 1]
    assert type(selected._held) is Masked
    assert costs == [selections.beside_chains(rows._layout) * len(x) + rows.nbytes / 4]
    assert_same(selected, x[x[:, 0] > 1])
