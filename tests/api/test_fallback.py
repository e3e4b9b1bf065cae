"""The fallback: what is counted and told, what moves, what is written back, and what a result is a view of."""

import importlib
import io
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import oxinp
from oxinp._core.host import fallback
from oxinp._core.lazy.handle import Handle
from oxinp._runtime.counters import stats as counters
from tests.comparator import assert_same

LARGE = 100_000


@pytest.fixture(autouse=True)
def fresh_counts():
    counters.reset()


@pytest.fixture
def warned(config):
    config.fallback = "warn"
    fallback._warned.clear()


def is_ours(value):
    return type(value) is oxinp.ndarray


# -- counted and told --------------------------------------------------------------------------------------------------


def test_counts_by_numpys_name():
    x = oxinp.arange(5.0)
    oxinp.polydiv(x, x + 1)
    np.polydiv(x, x + 1)
    x.byteswap()
    oxinp.poly(x)
    oxinp.lib.scimath.logn(2, x + 1)
    oxinp.subtract.accumulate(x)
    oxinp.hypot.reduceat(x, [0, 2])
    assert counters.fallbacks == {
        "polydiv": 2,
        "ndarray.byteswap": 1,
        "poly": 1,
        "lib.scimath.logn": 1,
        "subtract.accumulate": 1,
        "hypot.reduceat": 1,
    }


def test_counts_what_makes_arrays():
    oxinp.fromiter(range(3), int)
    oxinp.random.default_rng(1).gamma(2.0, size=3)
    _ = oxinp.r_[0:3]
    assert counters.fallbacks == {"fromiter": 1, "random.Generator.gamma": 1, "r_": 1}


@pytest.mark.usefixtures("on_device")
def test_native_work_is_not_counted():
    x = oxinp.arange(12.0).reshape(3, 4)
    y = oxinp.zeros_like(x)
    y[1:] = oxinp.where(x[1:] > 2, x[1:], 0)
    oxinp.copyto(y, oxinp.concatenate([x[:1], y[1:]]))
    oxinp.stack([oxinp.flip(x), oxinp.rot90(x, 2)]).sum(axis=0).max()
    oxinp.split(oxinp.linspace(0, 1, 8), 2)
    oxinp.eye(3, k=1)
    assert (oxinp.shape(x), oxinp.result_type(x, 1.0), oxinp.shares_memory(x, x.T)) == ((3, 4), np.float64, True)
    assert counters.fallbacks == {}


def test_own_objects_are_not_counted():
    assert oxinp.issubdtype(oxinp.float32, oxinp.floating)
    with oxinp.errstate(all="ignore"), oxinp.printoptions(precision=3):
        assert oxinp.isscalar(3)
        assert oxinp.promote_types("i4", "f4") == "f8"
    assert counters.fallbacks == {}


def test_silent_says_nothing(config):
    config.fallback = "silent"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        oxinp.sort_complex(oxinp.arange(3.0))


@pytest.mark.usefixtures("warned")
def test_warns_once_per_line_of_the_users():
    x = oxinp.arange(3.0)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(3):
            oxinp.polydiv(x, x + 1)
        x.byteswap(), np.exp(x)
    assert [Path(one.filename).name for one in told] == ["test_fallback.py", "test_fallback.py"]
    assert told[1].lineno == told[0].lineno + 1
    assert told[0].category is oxinp.FallbackWarning
    assert str(told[0].message) == "numpy.polydiv ran on the host: it has no kernel"
    assert counters.fallbacks["polydiv"] == 3


@pytest.mark.usefixtures("warned")
def test_warns_of_the_users_line_through_numpys_own_code():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        np.testing.assert_array_equal(oxinp.arange(3.0), [0, 1, 2])
    assert {Path(one.filename).name for one in told} == {"test_fallback.py"}


def test_error_names_the_function_and_the_setting(config):
    x = oxinp.arange(3.0)
    config.fallback = "error"
    for refused in (lambda: oxinp.polydiv(x, x + 1), x.byteswap, lambda: np.polydiv(x, x)):
        with pytest.raises(
            oxinp.FallbackError, match=r"numpy\.(ndarray\.byteswap|polydiv) .*config\.fallback = 'error'"
        ):
            refused()
    with pytest.raises(oxinp.FallbackError):
        np.asarray(x)
    assert_same(oxinp.sum(x), np.float64(3))


def test_error_leaves_the_arguments_alone(config):
    x, out = oxinp.arange(3.0), oxinp.zeros(3)
    config.fallback = "error"
    for refused in (
        lambda: x.byteswap(inplace=True),
        lambda: oxinp.subtract.accumulate(x, out=out),
        lambda: oxinp.heaviside.at(x, 0, 9),
    ):
        with pytest.raises(oxinp.FallbackError):
            refused()
    config.fallback = "silent"
    assert_same(x, np.arange(3.0))
    assert_same(out, np.zeros(3))


PLACED = {
    "put": (np.arange(3.0), 0, 9),
    "putmask": (np.arange(3.0), np.array([True, False, True]), 9),
    "place": (np.arange(3.0), np.array([True, False, True]), [7, 8]),
    "put_along_axis": (np.arange(3.0), np.array([1]), 9, 0),
    "take_along_axis": (np.arange(3.0), np.array([1]), 0),
    "median": (np.arange(3.0),),
    "percentile": (np.arange(3.0), 30),
    "choose": (np.array([0, 1]), [np.arange(2.0), np.ones(2)]),
    "interp": (np.arange(2.0), np.arange(3.0), np.ones(3)),
    "bincount": (np.arange(3),),
    "isin": (np.arange(3), np.arange(2)),
}


@pytest.mark.parametrize("name", PLACED)
def test_what_belongs_on_the_host_is_no_fallback(name, config, stats):
    config.offload_threshold = 1000
    config.fallback = "error"
    given = [oxinp.array(x) if isinstance(x, np.ndarray) else x for x in PLACED[name]]
    expected = [x.copy() if isinstance(x, np.ndarray) else x for x in PLACED[name]]
    found = getattr(oxinp, name)(*given)
    assert not stats().fallbacks
    config.fallback = "silent"
    assert_same(found, getattr(np, name)(*expected))
    assert_same(given[0], expected[0])


def test_numpys_exceptions_pass_and_are_not_tried_again(config):
    calls = []

    def failing(array):
        calls.append(array)
        raise ZeroDivisionError

    config.offload_threshold = 0
    with pytest.raises(ZeroDivisionError):
        fallback.call(failing, (oxinp.arange(8.0)[:2],), {}, name="failing")
    assert len(calls) == 1


class Pair(NamedTuple):
    left: Any
    right: Any


# -- arguments ---------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("offload_threshold")
def test_arrays_are_found_in_containers():
    seen = []

    def record(*args, **kwargs):
        seen.append((args, kwargs))

    x = oxinp.arange(4.0)
    fallback.call(record, ([x, (x, 1)], Pair(x, 2)), {"k": {"deep": [x]}, "s": x.sum(), "plain": [1.0] * 5}, name="r")
    (args, kwargs), expected = seen[0], np.arange(4.0)
    assert_same(args[0], [expected, (expected, 1)])
    assert type(args[1]) is Pair
    assert_same(args[1].left, expected)
    assert_same(kwargs["k"], {"deep": [expected]})
    assert type(kwargs["s"]) is np.float64
    assert all(type(a) is np.ndarray for a in (args[0][0], args[0][1][0], args[1].left, kwargs["k"]["deep"][0]))


def test_lists_without_arrays_are_passed_as_they_are():
    values = [[1, 2], [3, 4]]
    given = []
    fallback.call(given.append, (values,), {}, name="append")
    assert given[0] is values


def test_host_arrays_are_not_copied(config):
    config.offload_threshold = float("inf")
    x = oxinp.arange(4.0)
    seen = []
    fallback.call(seen.append, (x,), {}, name="look")
    x[0] = 7
    assert seen[0][0] == 7


@pytest.mark.usefixtures("on_device")
def test_a_small_part_of_a_large_array_moves_alone():
    x = oxinp.arange(float(LARGE))
    for part, expected in ((x[10:20], np.arange(10.0, 20)), (x[::1000], np.arange(0.0, LARGE, 1000))):
        counters.reset()
        assert_same(oxinp.partition(part, 1)[:2], expected[:2])  # the order of the rest is anybody's
        assert counters.d2h_bytes <= 2 * expected.nbytes
    assert x._storage.host is None


@pytest.mark.usefixtures("on_device")
def test_a_fetched_part_that_is_viewed_is_fetched_as_a_view():
    x = oxinp.arange(float(LARGE))
    given = fallback.call(lambda a: a[2:4], (x[10:20],), {}, name="part")
    given[...] = 0
    assert_same(x[11:15], np.array([11.0, 0, 0, 14]))
    assert given.base is not None


@pytest.mark.usefixtures("on_device")
def test_a_small_part_in_another_order_is_seen_in_it():
    x = oxinp.arange(10_000.0).reshape(100, 100)
    given = fallback.call(lambda a: a.ravel("K").copy(), (x.T[:3, :2],), {}, name="ravel")
    assert_same(given, np.arange(10_000.0).reshape(100, 100).T[:3, :2].ravel("K"))


@pytest.mark.usefixtures("on_device")
def test_what_may_be_written_but_is_not_stays_on_the_device():
    x = oxinp.arange(100.0)
    oxinp.nan_to_num(x), oxinp.median(x), x.byteswap()
    before = counters.h2d_bytes
    _ = oxinp.evaluate(x + 1)
    assert counters.h2d_bytes == before


@pytest.mark.usefixtures("on_device")
def test_a_second_fallback_moves_nothing():
    x = oxinp.arange(1000.0)
    oxinp.polydiv(x, [2.0, 1.0])
    before = counters.d2h_bytes
    oxinp.polydiv(x, [3.0, 1.0])
    assert counters.d2h_bytes == before


# -- what is written ---------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("offload_threshold")
def test_what_is_written_on_the_host_is_what_the_device_reads_next():
    x = oxinp.arange(8.0)
    y = x + 1
    x[2:6].sort()
    oxinp.put(x, [0], [50])
    x[5:].fill(3)
    oxinp.negative(x, out=x)
    expected = -np.array([50.0, 1, 2, 3, 4, 3, 3, 3])
    assert_same(x * 1, expected)
    assert_same(y, np.arange(1.0, 9))


@pytest.mark.usefixtures("offload_threshold")
def test_pending_readers_keep_what_they_read():
    x = oxinp.arange(100.0)
    later = x * 2 + 1
    np.negative(x, out=x)
    assert_same(later, np.arange(100.0) * 2 + 1)
    assert_same(x + 0, -np.arange(100.0) + 0)


@pytest.mark.usefixtures("offload_threshold")
@pytest.mark.parametrize("position", ["keyword", "positional", "tuple"])
def test_out(position):
    x, out = oxinp.arange(4.0), oxinp.zeros(4)
    calls = {
        "keyword": lambda: oxinp.exp(x, out=out),
        "positional": lambda: oxinp.exp(x, out),
        "tuple": lambda: oxinp.exp(x, out=(out,)),
    }
    assert calls[position]() is out
    assert_same(out, np.exp(np.arange(4.0)))


@pytest.mark.usefixtures("offload_threshold")
def test_out_that_is_numpys_is_written_and_returned():
    x, out = oxinp.arange(4.0), np.zeros(4)
    for give in (lambda: np.exp(x, out=out), lambda: oxinp.cumsum(x, out=out), lambda: oxinp.add(x, x, out=out)):
        assert give() is out
    first, second = np.zeros(4), oxinp.zeros(4)
    given = oxinp.divmod(x, 3, out=(first, second))
    assert given[0] is first
    assert given[1] is second
    assert_same(second, np.arange(4.0) % 3)


def test_numpys_array_changed_in_place_by_ours():
    host = np.zeros(4)
    alias = host
    host += oxinp.arange(4.0)
    assert host is alias
    assert type(host) is np.ndarray
    assert_same(host, np.arange(4.0))


READ_ONLY = (
    "x.sort()",
    "np.put(x, 0, 1)",
    "np.place(x, x > 0, 1)",
    "np.copyto(x, 1)",
    "np.copyto(x, 1, where=x > 0)",
    "np.exp(x, out=x)",
    "np.add(x, 1, out=x)",
    "x.sum(axis=1, out=x[:, 0])",
    "x.cumsum(axis=1, out=x)",
    "x.__ipow__(2)",
    "x.__iadd__(2)",
    "np.add.at(x, 0, 1)",
    "np.fill_diagonal(x, 1)",
    "np.nan_to_num(x, copy=False)",
    "np.random.default_rng(0).shuffle(x)",
    "x.fill(3)",
    "x.__setitem__((0, 0), 3)",
    "x.__setitem__(x > 0, 3)",
)


@pytest.mark.usefixtures("offload_threshold")
@pytest.mark.parametrize("view", ["broadcast", "flags", "diagonal"])
@pytest.mark.parametrize("code", READ_ONLY)
def test_read_only_arrays_raise_what_numpy_raises(code, view):
    outcomes = []
    for xp in (oxinp, np):
        base = xp.arange(1.0, 10).reshape(3, 3)
        if view == "flags":
            x = base[:]
            x.flags.writeable = False
        else:
            x = xp.broadcast_to(base[0], (3, 3)) if view == "broadcast" else xp.diagonal(base[:, :, None]).reshape(1, 3)
        try:
            eval(code, {"np": xp, "x": x})  # noqa: S307 - our own code
        except Exception as error:  # noqa: BLE001 - the exception is the outcome
            outcomes.append(type(error))
        else:
            outcomes.append(None)
        assert_same(base, np.arange(1.0, 10).reshape(3, 3))
    assert outcomes[0] is outcomes[1] is ValueError


@pytest.mark.usefixtures("offload_threshold")
def test_a_functions_of_the_users_may_write_to_its_views():
    results = []
    for xp in (oxinp, np):
        x = xp.arange(6.0).reshape(2, 3)

        def halve(row):
            row /= 2
            return row

        xp.apply_along_axis(halve, 1, x)
        results.append(x + 0)
    assert_same(*results)


# -- results -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("offload_threshold")
def test_a_view_of_an_argument_is_a_view_both_ways():
    x = oxinp.arange(6.0)
    view = oxinp.lib.stride_tricks.sliding_window_view(x, 2, writeable=True)
    field = fallback.call(lambda a: a.reshape(2, 3)[:, ::-1], (x,), {}, name="part")
    assert field.base is x
    assert field._storage is view._storage is x._storage
    x += 1
    assert_same(field, (np.arange(6.0) + 1).reshape(2, 3)[:, ::-1])
    field[0] = 0
    assert_same(x, np.array([0.0, 0, 0, 4, 5, 6]))
    assert_same(view[3], np.array([4.0, 5]))


@pytest.mark.usefixtures("offload_threshold")
def test_a_view_of_a_read_only_argument_is_read_only():
    x = oxinp.arange(6.0)
    x.flags.writeable = False
    view = fallback.call(lambda a: a[1:], (x,), {}, name="part")
    assert not view.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        fallback.call(lambda a: a.fill(1), (x,), {}, name="fill")


def test_an_argument_returned_is_the_argument():
    x = oxinp.arange(3.0)
    assert oxinp.atleast_1d(x) is x
    assert oxinp.asarray_chkfinite(x) is x
    assert oxinp.real(x) is x
    assert x.conj() is x
    assert np.broadcast_arrays(x, oxinp.zeros(3))[0] is x


@pytest.mark.usefixtures("offload_threshold")
def test_two_results_in_one_memory_share_a_storage():
    def overlapping():
        whole = np.arange(4.0)
        return whole[:3], whole[1:]

    first, second = fallback.call(overlapping, (), {}, name="overlapping")
    first[1:] = 9
    assert_same(second, np.array([9.0, 9, 3]))


def test_what_views_a_numpy_array_of_the_callers_is_a_copy():
    host = np.arange(4.0)
    ours = oxinp.atleast_2d(host)
    ours[...] = 0
    assert host[1] == 1
    assert is_ours(ours)


def test_namedtuples_stay_namedtuples():
    x = oxinp.arange(4.0)
    given, expected = oxinp.unique_all(x), np.unique_all(np.arange(4.0))
    assert type(given) is type(expected)
    assert all(map(is_ours, given))
    assert is_ours(oxinp.linalg.svd(oxinp.eye(2)).S)


def test_lists_stay_lists():
    given = oxinp.split(oxinp.arange(4.0), 2)
    assert type(given) is list
    assert all(map(is_ours, given))


def test_scalars_stay_scalars():
    assert type(oxinp.median(oxinp.arange(3.0))) is np.float64
    assert oxinp.array_equal(oxinp.arange(3), oxinp.arange(3)) is True


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_subclasses_stay_numpys():
    x = oxinp.arange(4.0)
    masked = np.ma.array([1.0, 2, 3, 4], mask=[0, 1, 0, 0])
    assert type(np.add(x, masked)) is np.ma.MaskedArray
    assert type(x + masked) is type(masked + x) is type(oxinp.add(masked, 1)) is np.ma.MaskedArray
    matrix = oxinp.asmatrix(x)
    assert type(matrix) is np.matrix
    matrix[0, 0] = 9
    assert x[0] == 9
    assert type(oxinp.rec.fromarrays([x, x])) is np.recarray


def test_host_dtypes():
    for values in (["a", "bc"], np.array(["2020-01-01"], "M8[D]"), [1 + 2j], [None, 3]):
        assert_same(oxinp.sort(oxinp.array(values[:1])), np.sort(np.array(values[:1])))


def test_files(tmp_path):
    x = oxinp.arange(6.0).reshape(2, 3)
    oxinp.save(tmp_path / "x.npy", x)
    oxinp.savez(tmp_path / "x.npz", x=x)
    assert is_ours(oxinp.load(tmp_path / "x.npy"))
    with oxinp.load(tmp_path / "x.npz") as archive:
        assert list(archive) == ["x"]
        assert is_ours(archive["x"])
        assert_same(archive["x"], np.load(tmp_path / "x.npy"))
    x.tofile(tmp_path / "raw")
    assert_same(oxinp.fromfile(tmp_path / "raw"), np.arange(6.0))
    text = io.StringIO()
    oxinp.savetxt(text, x)
    text.seek(0)
    assert_same(oxinp.loadtxt(text), np.arange(6.0).reshape(2, 3))


def test_nothing_of_ours_is_left_to_numpys_conversion():
    # What falls back must not go through `__array__`, which copies.
    x = oxinp.arange(6.0).reshape(2, 3)
    assert all(map(is_ours, (oxinp.nanmedian(x, axis=0), x @ x.T, oxinp.r_[x[0], x[1]], oxinp.select([x > 1], [x]))))
    assert "__array__" not in counters.fallbacks


def test_a_process_without_a_device(tmp_path):
    script = "import oxinp as np; x = np.arange(9.); x.sort(); print(np.median(x), type(x**2).__name__)"
    environment = {"OXINP_BACKEND": "host", "PYTHONPATH": str(Path(__file__).resolve().parents[2]), "PATH": ""}
    printed = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment, cwd=tmp_path
    ).stdout
    assert printed == "4.0 ndarray\n"


def test_handles_are_what_is_exchanged():
    assert issubclass(oxinp.ndarray, Handle)
    assert importlib.import_module("oxinp._core.lazy.results").types.fall_back is fallback.call
