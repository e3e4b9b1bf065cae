"""Where work runs and where bytes are: read off the counters."""

# ruff: noqa: ARG001, ARG005, ICN001 - fixtures that set up, programs of one signature, and oxinp is np

import numpy
import pytest

import oxinp as np
from oxinp._core.lazy.placement import device
from tests.comparator import assert_same

KIB = 1024


def test_small_work_stays_on_the_host(config, stats):
    config.offload_threshold = 65536
    x = np.asarray(numpy.arange(8000.0))
    y = ((x * 2 + 1).sum(), np.sqrt(x[10:20]), x > 3, x.astype(np.float32), np.where(x > 3, x, 0), np.zeros(100))
    x[5:] += 1
    np.evaluate(*y)
    counts = stats()
    assert (counts.launches, counts.h2d_bytes, counts.d2h_bytes, counts.fallbacks) == (0, 0, 0, {})


def test_large_work_runs_on_the_device(config, stats):
    config.offload_threshold = 65536
    x = np.asarray(numpy.arange(8192.0))
    s = (x * 2 + 1).sum()
    np.evaluate(s)
    counts = stats()
    assert (counts.launches, counts.h2d_bytes, counts.d2h_bytes, counts.fallbacks) == (1, 65536, 0, {})
    assert s == (numpy.arange(8192.0) * 2 + 1).sum()
    assert stats().d2h_bytes == 8


@pytest.mark.parametrize(
    ("statement", "most"),  # what it writes or returns, and the elements of 8 bytes up to which it is the host's
    [
        *(("1.0 / x", 8191), ("x / y", 8191), ("np.divide(x, y)", 8191), ("np.divide(x, y, out=y, where=m)", 8191)),
        *(("np.sqrt(x)", 8191), ("np.sqrt(x, out=y)", 8191), ("np.reciprocal(x)", 8191), ("x.__itruediv__(y)", 8191)),
        *(("f / x", 8191), ("np.divide(x, 3.0, dtype='f8')", 8191), ("x * y", 8191)),
        ("np.exp(x)", 8191 if np.exp._row.weight < 4 else 4095),  # as NumPy has vector loops there, or not
        *(("x // 3.0", 4095), ("x % y", 4095), ("np.sin(x)", 4095), ("x ** y", 4095), ("np.hypot(x, 2.0)", 4095)),
    ],
)
def test_light_work_on_small_arrays_stays_on_the_host(config, stats, statement, most):
    config.offload_threshold = 65_536
    for size in (most, most + 1):
        names = {"np": np, "f": numpy.float64(0.5), "m": np.array(numpy.ones(size, bool))}
        names |= {name: np.array(numpy.ones(size)) for name in "xy"}
        before = stats().launches
        np.evaluate(eval(statement, names))  # noqa: S307 - one of the table's
        assert (stats().launches > before) == (size > most), size


@pytest.mark.parametrize(
    "statement", ["x @ y", "np.matmul(x, y)", "np.dot(x, y)", "x.dot(y)", "m[3] @ y", "x[::-1] @ m[1]"]
)
def test_products_of_vectors_that_are_on_the_host_as_well(config, stats, statement):
    config.offload_threshold, config.adaptive_placement = 65_536, False
    for size, is_on_host in ((32_767, True), (32_768, False)):
        ours, theirs = {"np": np}, {"np": numpy}
        for name, shape in (("x", size), ("y", size), ("m", (4, size))):
            theirs[name] = numpy.arange(float(numpy.prod(shape))).reshape(shape) % 7
            ours[name] = np.asarray(theirs[name])
            assert [ours[name][..., i].sum() for i in range(20)] == [theirs[name][..., i].sum() for i in range(20)]
        before = stats().launches
        product = eval(statement, ours)  # noqa: S307 - one of the table's
        np.evaluate(product)
        assert (stats().launches == before) == is_on_host
        assert product == eval(statement, theirs)  # noqa: S307


@pytest.mark.parametrize("bounds", [(0, 100_000, 1), (100_000, 0, -1), (0, -100_000, -1)])
def test_long_ranges_are_made_on_the_device(config, stats, bounds):
    config.offload_threshold = 65_536
    x = np.arange(*bounds)
    np.evaluate(x)
    counts = stats()
    assert (counts.launches, counts.h2d_bytes) == (1, 0)
    assert_same(x, numpy.arange(*bounds))


def test_small_gathers_stay_on_the_host(config, stats):
    config.offload_threshold = 65_536
    host, index = numpy.arange(10.0), np.asarray(numpy.array([1, 2]))
    assert_same(np.take(host, index), numpy.take(host, [1, 2]))
    assert_same(np.compress(host > 5, np.asarray(host)), host[6:])
    assert_same(np.extract(host > 5, np.asarray(host)), host[6:])
    assert_same(np.flatnonzero(host), numpy.arange(1, 10))
    assert_same(np.nonzero(host)[0], numpy.arange(1, 10))
    assert stats().launches == 0


@pytest.mark.parametrize(
    ("key", "is_light"),
    [
        *(((3, [0, 5, 7]), True), ((range(400), range(400)), True), (([1, 2],), True), (([1, 2], slice(None)), True)),
        *((numpy.arange(9), True), ((slice(2), numpy.arange(9)), True)),
        *((numpy.arange(200), False), ((numpy.arange(9).reshape(3, 3), 1), False)),
    ],
    ids=str,
)
def test_few_elements_of_what_is_on_the_host_alone_are_the_hosts_however_large_it_is(key, is_light, config, stats):
    config.offload_threshold = 65536
    theirs = numpy.add.outer(numpy.arange(400.0), numpy.arange(400.0))
    ours = np.frombuffer(theirs.tobytes()).reshape(400, 400)  # which lends NumPy's memory
    assert ours._storage.host is not None is ours._storage.value
    for convert in (np.asarray, numpy.asarray):
        parts = key if type(key) is tuple else (key,)
        given = tuple([convert(part) if type(part) is numpy.ndarray else part for part in parts])
        assert_same(ours[given if type(key) is tuple else given[0]], theirs[key])
        assert (stats().h2d_bytes == 0) is is_light
        assert not (is_light and stats().launches)


def test_infinite_threshold_never_uses_the_device(config, stats):
    config.offload_threshold = float("inf")
    x = np.ones((1000, 1000))
    x[1:] += x[:-1]
    assert (x.T + x).sum() > 0
    counts = stats()
    assert (counts.launches, counts.h2d_bytes, counts.d2h_bytes) == (0, 0, 0)


def test_result_larger_than_its_operands_decides(config, stats):
    config.offload_threshold = 65536
    row = np.asarray(numpy.arange(128.0))
    table = row[:, None] * row
    assert stats().launches == 0
    np.evaluate(table)
    assert stats().launches == 1


def test_size_of_a_view_decides_not_of_its_storage(config, stats):
    config.offload_threshold = float("inf")
    x = np.ones(100_000)
    config.offload_threshold = 65536
    np.evaluate(x[:100] * 2, x[::50] + 1)
    assert stats().launches == 0
    np.evaluate(x[:50_000] * 2)
    assert stats().launches == 1


def test_small_operand_goes_to_the_large_one(config, stats):
    config.offload_threshold = 65536
    large, small = np.ones((100, 1000)), np.asarray(numpy.arange(1000.0))
    np.evaluate(large + small, large * small, small - large)
    assert stats().h2d_bytes == 8000
    assert_same(large + small, numpy.ones((100, 1000)) + numpy.arange(1000.0))


def test_results_of_mirrored_arrays(config, stats):
    config.offload_threshold = 65536
    large, small = np.ones((100, 1000)), np.asarray(numpy.arange(1000.0))
    np.evaluate(large + small)
    launches = stats().launches
    t = small + 1  # both sides are valid: small work stays on the host
    assert stats().launches == launches
    small[3] = 50
    theirs = numpy.arange(1000.0)
    theirs[3] = 50
    assert_same([t, large + small, small], [numpy.arange(1000.0) + 1, numpy.ones((100, 1000)) + theirs, theirs])


def test_element_reads_fetch_a_mirror(on_device, stats):
    x = np.arange(5000.0)
    np.evaluate()
    total = sum(float(x[i]) for i in range(1000))
    counts = stats()
    assert total == sum(range(1000))
    assert counts.d2h_bytes <= 16 * 8 + x.nbytes
    assert counts.launches <= 1 + 16


def test_element_writes_fetch_a_mirror_and_upload_a_range(config, stats):
    config.offload_threshold = 65536
    x = np.zeros(100_000)
    np.evaluate(x)
    for i in range(200, 400):
        x[i] = i
    counts = stats()
    assert counts.d2h_bytes == x.nbytes
    assert counts.launches <= 17
    s = (x + 1).sum()
    np.evaluate(s)
    assert 0 < stats().h2d_bytes <= 200 * 8
    assert s == sum(range(200, 400)) + 100_000


def test_element_updates_by_index(config, stats):
    config.offload_threshold = 65536
    x = np.zeros((100, 1000))
    for i in range(100):
        x[i, i] += i
        x[i][5] = x[i, i] * 2
    counts = stats()
    assert counts.d2h_bytes <= x.nbytes + 100 * 8
    theirs = numpy.zeros((100, 1000))
    for i in range(100):
        theirs[i, i] += i
        theirs[i][5] = theirs[i, i] * 2
    assert_same(x + 0, theirs)


def test_reads_between_device_work_do_not_fetch_everything(on_device, stats):
    x = np.ones(10_000)
    for _ in range(100):
        x *= 0.5
        if float(x[0]) < 0:
            break
    # A loop that tests one element per step moves elements, not the array.
    assert stats().d2h_bytes < 4 * x.nbytes


def test_mirror_stays_while_it_is_read(config, stats):
    config.offload_threshold = 65536
    x = np.zeros(100_000)
    for i in range(100):
        float(x[i])
    before = stats().d2h_bytes
    np.evaluate(x * 2)
    for i in range(100):
        float(x[i])
    assert (stats().d2h_bytes, stats().h2d_bytes) == (before, 0)


def test_iteration_fetches_once(on_device, stats):
    x = np.arange(3000.0)
    assert sum(x) == 3000 * 2999 / 2
    assert stats().d2h_bytes == x.nbytes
    y = np.arange(3000.0).reshape(1000, 3)
    assert [float(row[0]) for row in y][:3] == [0.0, 3.0, 6.0]
    assert stats().d2h_bytes <= 2 * x.nbytes + 16 * 32


def test_one_element_moves_one_element(on_device, stats):
    x = np.ones(100_000)
    np.evaluate(x)
    assert float(x[77]) == 1
    assert stats().d2h_bytes == 8


def test_slice_to_numpy_moves_the_slice(on_device, stats):
    x = np.ones((1000, 100))
    assert_same(np.asnumpy(x[3:5]), numpy.ones((2, 100)))
    assert_same(np.asnumpy(x[:, 3]), numpy.ones(1000))
    assert stats().d2h_bytes == 200 * 8 + 1000 * 8


UNSUPPORTED = {
    "object": lambda: numpy.array([1, "a", None, (2,)] * 5, dtype=object),
    "strings": lambda: numpy.array(["abc", "d", "", "xyzzy"] * 5),
    "bytes": lambda: numpy.array([b"abc", b"d"] * 10),
    "datetime64": lambda: numpy.arange("2020-01-01", "2020-01-21", dtype="M8[D]"),
    "timedelta64": lambda: numpy.arange(20).astype("m8[s]"),
    "complex64": lambda: numpy.arange(20).astype(numpy.complex64) * (1 + 2j),
    "complex128": lambda: numpy.arange(20) * 1j,
    "int8": lambda: numpy.arange(20, dtype=numpy.int8),
    "uint64": lambda: numpy.arange(20, dtype=numpy.uint64),
    "float16": lambda: numpy.arange(20, dtype=numpy.float16),
    "longdouble": lambda: numpy.arange(20, dtype=numpy.longdouble),
    "structured": lambda: numpy.array([(i, i * 2.5) for i in range(20)], dtype=[("a", "i4"), ("b", "f8")]),
    "big endian": lambda: numpy.arange(20, dtype=">f8"),
    "packed": lambda: numpy.array([(1, i) for i in range(20)], dtype=[("a", "i1"), ("b", "f8")])["b"],
}
USES = {
    "copy": lambda xp, x: x.copy(),
    "slices": lambda xp, x: (x[3:9:2], x[::-1], x[4], x[None, ..., 2]),
    "shapes": lambda xp, x: (x.reshape(4, 5).T, x.reshape(5, 4).ravel("F")),
    "equality": lambda xp, x: x == x[::-1],
    "addition": lambda xp, x: x + x,
    "scalar": lambda xp, x: x * 2,
    "sum": lambda xp, x: x.sum(),
    "max": lambda xp, x: x.max(),
    "element write": lambda xp, x: (x.__setitem__(3, x[4]), x)[1],
    "slice write": lambda xp, x: (x.__setitem__(slice(2, 6), x[10:14]), x)[1],
    "in place": lambda xp, x: (x[1:].__iadd__(x[:-1]), x)[1],
    "where": lambda xp, x: xp.where(xp.arange(20) > 5, x, x[::-1]),
    "with floats": lambda xp, x: x + xp.arange(20.0),
    "into floats": lambda xp, x: (y := xp.zeros(20), y.__setitem__(slice(None), x))[0],
    "to float64": lambda xp, x: x.astype(numpy.float64),
    "to object": lambda xp, x: x.astype(object),
    "zeros": lambda xp, x: (xp.zeros(3, x.dtype), xp.full(3, x[2], dtype=x.dtype), xp.zeros_like(x)),
    "text": lambda xp, x: (repr(x), str(x[1:3]), x.tolist()),
    "sorted": lambda xp, x: xp.sort(x),
}


@pytest.mark.usefixtures("offload_threshold")
@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("make", UNSUPPORTED.values(), ids=UNSUPPORTED)
@pytest.mark.filterwarnings("ignore")
def test_dtypes_without_kernels(make, use, twin):
    twin(lambda xp: use(xp, xp.array(make())))


def _misaligned(xp):
    raw = xp.arange(1000, dtype=numpy.float64).view(numpy.uint8)
    x = raw[1:801].view(numpy.float32)
    y = x[::3] * 2
    z = raw[4:804].view(numpy.float64)
    return x.shape, x[3:5] + 1, y.sum(), z.max(), x.copy(), (z > 1).sum(), x.T[:5].astype(numpy.int32)


def _misaligned_write(xp):
    raw = xp.zeros(100).view(numpy.uint8)
    x = raw[3:403].view(numpy.float32)
    x[:] = 1
    x[::2] += xp.arange(50, dtype=numpy.float32)
    x[1] = 7
    return x, raw, raw[3:7].view(numpy.int32)


def _same_bits(xp):
    x = xp.arange(10.0) - 3
    bits = x.view(numpy.int64)
    bits[2:] += 1
    half = x.view(numpy.int32)[1::2]
    x *= 2
    return x, bits, half, x.view(numpy.float32).reshape(10, 2)[:, 1], half.max()


def _view_errors(xp):
    x = xp.arange(10.0).view(numpy.uint8)
    return x[1:6].view(numpy.float32)


def _sides_in_turn(xp):
    x = xp.arange(10_000.0)
    y = xp.arange(10.0)
    for i in range(30):
        x[i] = -i
        x[5 * i : 5 * i + 3] += y[:3]
        y[i % 10] = x[i + 1]
        y += 1
        x = x + y[2]
    xp.cumsum(x, out=x)
    x[::1000] = y
    return x, y


def _host_writes_then_device(xp):
    x = xp.zeros(20_000)
    for i in range(40):
        x[i * 400] = i + 1
    y = x * 2
    for i in range(40):
        x[i * 400 + 1] = i + 1
    z = x + y
    x[19_999] = 3
    x[0] = 2
    return x.sum(), y, z, x + 0


@pytest.mark.usefixtures("offload_threshold")
@pytest.mark.parametrize(
    "program",
    [_misaligned, _misaligned_write, _same_bits, _view_errors, _sides_in_turn, _host_writes_then_device],
    ids=lambda program: program.__name__.strip("_"),
)
def test_program_gives_numpys_values(program, twin):
    twin(program)


def test_threshold_changes_in_mid_program(config, twin):
    def body(xp):
        x = xp.arange(1000.0)
        results = []
        for threshold in (0, float("inf"), 4000, 0, 65536, 100) * 2:
            config.offload_threshold = threshold
            y = x + 1
            x[10:20] = y[:10] * 2
            x *= 1.5
            results += [y, x.sum(), x[3], x.copy()]
        return results

    twin(body)


def test_arrays_of_numpys_are_copied_and_ours_are_lent(offload_threshold):
    theirs = numpy.arange(10.0)
    ours = np.asarray(theirs)
    theirs[0] = 100
    back = numpy.asarray(ours)
    back[1] = 200
    ours[2] = 300
    assert_same(ours, numpy.array([0, 200, 300, 3, 4, 5, 6, 7, 8, 9.0]))
    assert_same([theirs[2], back[2]], [numpy.float64(2), numpy.float64(300)])


def recorded(xp, matrix, use):
    """Write a result of large work to an element of a small array in each turn."""
    found = xp.zeros(60)
    for k in range(60):
        found[k] = (matrix[k:] * 0.5).sum()
        use(found, k)
    return found


def shared(found, k):
    found[k] = found[k] / 2.0  # read and written where it is


def halted(found, k):
    assert found[k] > k


USES = {"kept": (lambda *_: None, 4), "shared": (shared, 12), "halted": (halted, 66)}


@pytest.mark.parametrize(("use", "most"), USES.values(), ids=USES)
def test_a_small_array_goes_to_the_device_for_results_that_are_written_to_it(use, most, config, stats, monkeypatch):
    """Only the first ones are waited for, unless each is looked at, which costs no more than it did."""
    config.offload_threshold = 65_536
    theirs = numpy.random.default_rng(5).random((300, 500))
    ours = np.asarray(theirs) + 0.0
    np.evaluate(ours)
    waits = []
    backend = type(device())
    download = backend.download
    monkeypatch.setattr(backend, "download", lambda *given: waits.append(1) or download(*given))
    found = recorded(np, ours, use)
    assert_same(found, recorded(numpy, theirs, use), ulp=16)
    assert len(waits) <= most + 1  # the last one is the comparison's
    assert stats().h2d_bytes - theirs.nbytes <= 8 * found.nbytes


def test_a_small_array_whose_elements_are_looked_at_in_each_turn_stays_on_the_host(config, stats):
    config.offload_threshold = 65_536
    ours = np.asarray(numpy.random.default_rng(5).random((300, 500))) + 0.0
    np.evaluate(ours)
    recorded(np, ours, lambda *_: None)  # what is launched for the first time
    before = stats().launches
    found = recorded(np, ours, halted)
    assert found._storage.host is not None
    assert stats().launches - before <= 60 * 2 + 12


def test_what_small_results_were_written_to_is_the_hosts_for_what_is_there(config, stats):
    config.offload_threshold = 65_536
    theirs = numpy.random.default_rng(5).random((300, 500))
    ours = np.asarray(theirs) + 0.0
    found = recorded(np, ours, lambda *_: None)
    assert found._storage.host is None
    before = stats()
    assert (found + np.ones(60))._storage.host is not None
    assert stats().launches == before.launches
    assert stats().d2h_bytes - before.d2h_bytes == found.nbytes


def test_small_pieces_that_are_on_the_device_are_joined_there(config, stats):
    config.offload_threshold = 65_536
    theirs = numpy.random.default_rng(5).random((300, 500))
    ours, ones = np.asarray(theirs) + 0.0, numpy.ones((500, 1))
    np.evaluate(ours)
    column = np.asarray(ones)
    np.evaluate(np.hstack([ours @ column, ours @ column]))  # numbers of columns are kept from then on
    before = stats()
    found = np.hstack([(ours @ column), (ours * 2.0) @ column])
    np.evaluate(found)
    after = stats()
    assert after.h2d_bytes == before.h2d_bytes
    assert after.d2h_bytes == before.d2h_bytes
    assert_same(found, numpy.hstack([theirs @ ones, (theirs * 2.0) @ ones]), ulp=500)
