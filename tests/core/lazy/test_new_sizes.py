"""Sizes that are new: what has run for other sizes runs by arithmetic, and gives the same."""

# ruff: noqa: ICN001, ARG001, ARG005 - oxinp is np where programs are written, all of which take the same

import itertools
import sys

import numpy
import pytest

import oxinp
from oxinp._api import linear_algebra
from oxinp._core.lazy import chains, combining, executor, expr, record
from oxinp._core.lazy.balance import balance
from oxinp._core.lazy.expr import Graph
from oxinp._core.lazy.op import RENTED
from oxinp._core.memory import layout as memory_layout
from oxinp._core.memory.layout import Layout
from oxinp._core.memory.recent import MEETINGS, Recent
from oxinp._core.ops import matmul, vector_product
from oxinp._core.reduction import planning
from oxinp._kernels.gemm import select
from oxinp._kernels.reduce.plan import Reduction
from tests.comparator import assert_same

pytestmark = pytest.mark.usefixtures("unwatched")

LENGTH = 700
SIZES = [40, 41, 42, 44, 48, *range(100, 300, 13), 512, 513, 640, LENGTH]


def chain(np, x, y, k):
    return x[:k] * y[:k] + 1.0


def same_operand(np, x, y, k):
    return x[:k] * x[:k] - y[3 : k + 3] / 2


def same_chain(np, x, y, k):
    d = x[:k] - y[:k]
    return (d * d - 2.0) * (d * d + x[:k] + (d - x[:k]) * (d + y[:k]))


def same_part(np, x, y, k):
    d = y[1 : k + 1] - y[k]
    return d * d * y[k]


def backwards(np, x, y, k):
    return np.flip(x[:k]) * 2.0 - y[:k] * x[k - 1 :: -1][:k]


def in_steps(np, x, y, k):
    return x[: 2 * k : 2] + y[1 : k + 1]


def matrices(np, x, y, k):
    return x[: 4 * k].reshape(4, k) + y[:k]


def total(np, x, y, k):
    return x[:k].sum()


def largest(np, x, y, k):
    return (x[:k] - y[:k]).max()


def dot(np, x, y, k):
    return np.dot(np.flip(x[:k]), y[:k])


def dot_backwards(np, x, y, k):
    return np.dot(np.flip(x[:k]), y[k - 1 :: -1][:k]) + np.dot(x[: 2 * k : 2], y[:k])


def dot_into(np, x, y, k):
    z = y.copy()
    z[1] = np.dot(x[:k], z[3 : k + 3])
    z[k : k + 1] = np.dot(z[:k], z[1 : k + 1]) + x[:k].dot(x[:k])
    return z


def dot_and_update(np, x, y, k):
    z = y.copy()
    a = np.dot(np.flip(x[:k]), z[:k])
    z[:k] += a * np.flip(z[:k])
    return z, a


def normalised(np, x, y, k):
    return x[:k] * (x[:k] @ y[:k]) - y[:k].dot(y[:k])


def update(np, x, y, k):
    z = y.copy()
    z[:k] += 2.0 * np.flip(z[:k])
    return z


def update_overlapping(np, x, y, k):
    z = y.copy()
    z[-1] = 7.0  # which has the copy made
    z[:k] += z[2] * np.flip(z[:k])
    return z


def update_apart(np, x, y, k):
    z = y.copy()
    z[1 : k + 1] -= x[:k]
    z[k - 1 :: -1] *= x[:k]
    return z


def stencil(np, x, y, k):
    z = y.copy()
    z[1 : k - 1] = 0.33 * (x[: k - 2] + x[1 : k - 1] + x[2:k])
    return z


def product(np, x, y, k):
    side = k // 16
    return x[: side * 16].reshape(side, 16) @ y[: 16 * side].reshape(16, side)


def row_by_matrix(np, x, y, k):
    return x[:20:4] @ y[: 5 * LENGTH].reshape(5, LENGTH)[:, :k]


def matrix_by_column(np, x, y, k):
    matrix = y[: 5 * LENGTH].reshape(5, LENGTH)
    return matrix[:, :k] @ x[:k] + matrix[:, LENGTH - k :] @ x[k - 1 :: -1][:k]


def outer(np, x, y, k):
    return np.outer(x[:7], y[:k]) - y[:k]


def chosen(np, x, y, k):
    return np.where(y[:k] > 0, x[: 2 * k].reshape(2, k), y[:1]) + np.where(x[:2, None] > 0, y[:k], np.asarray(2.0))


def vector_by_matrix(np, x, y, k):
    return 2 * (x[:5] @ y[:3500].reshape(5, 700)[:, :k]) - 1


def vector_by_matrix_in_chunks(np, x, y, k):
    columns = 33 + k % 17
    x[3000 : 3000 + columns] = x[:140:2] @ y[:3500].reshape(70, 50)[:, :columns]
    x[3100 : 3100 + 2 * columns : 2] = (x[:70] - 1) @ y[:3500].reshape(70, 50)[:, :columns]
    return x[:70] @ y[:3500].reshape(70, 50)[:, :columns]


def matrix_by_vector(np, x, y, k):
    wide, tall = y[: 5 * LENGTH].reshape(5, LENGTH), x[:3500].reshape(500, 7)
    return (wide[1:, :k] @ x[:k]).sum() * (tall[:k] @ y[2:16:2])


def matrix_by_vector_in_chunks(np, x, y, k):
    rows = 33 + k % 17
    x[3000 : 3000 + rows] = x[:3250].reshape(50, 65)[:rows] @ y[:65]
    return x[:3500].reshape(50, 70)[:rows, 1:] @ (y[:69] + 1)


def update_by_outer_product(np, x, y, k):
    z = x[: 5 * LENGTH].reshape(5, LENGTH).copy()
    z[1:, :k] -= np.outer(y[1:5], y[3 : k + 3])
    z[:, LENGTH - k :] += 2 * np.outer(y[:10:2], x[k - 1 :: -1][:k])
    return z


def outer_of_scaled_product(np, x, y, k):
    matrix = x[: 5 * LENGTH].reshape(LENGTH, 5)
    return np.outer(2 * (matrix[:k] @ y[:5]), y[3:14])


def mirrored(np, x, y, k):
    z = x[:3500].reshape(50, 70).copy()
    i = k % 40
    z[i, i + 1 : 50] = z[i + 1 :, i] * (y[i + 1 : 50] * y[i])
    z[i + 1 :, i] = z[i, i + 1 : 50]
    z[i + 1 :] /= 1 + z[i] @ z[i]
    return z


CHAINS = [
    chain,
    same_operand,
    same_chain,
    same_part,
    backwards,
    in_steps,
    update,
    update_overlapping,
    update_apart,
    stencil,
]
REDUCED = [total, largest, dot, dot_backwards, dot_into, dot_and_update, normalised]
ALONG_AXES = [
    row_by_matrix,
    vector_by_matrix,
    matrix_by_vector,
    matrix_by_column,
    outer,
    update_by_outer_product,
    outer_of_scaled_product,
    chosen,
]
IN_CHUNKS = [vector_by_matrix_in_chunks, matrix_by_vector_in_chunks]
BODIES = [*CHAINS, *REDUCED, *ALONG_AXES, *IN_CHUNKS, matrices, mirrored, product]


@pytest.fixture
def data(config):
    """Two arrays of ours and two of NumPy's, of the same elements: integers, whose sums are exact in any order."""
    config.offload_threshold = 0
    draw = numpy.random.default_rng(3)
    given = [draw.integers(-9, 10, 5 * LENGTH + 8).astype(float) for _ in range(2)]
    ours = tuple(oxinp.asarray(x) for x in given)
    return ours, given


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_growing_slices_as_in_numpy(body, data):
    ours, given = data
    for k in (*SIZES, *SIZES[:8], *SIZES[:8], *SIZES[:8]):  # new, met once, planned, known
        assert_same(body(oxinp, *ours, k), body(numpy, *given, k), where=f"{body.__name__} of {k}")


@pytest.mark.parametrize("body", [*CHAINS, *REDUCED, *ALONG_AXES], ids=lambda body: body.__name__)
def test_new_sizes_are_not_compiled(body, data, monkeypatch, launches):
    ours, _ = data
    for k in range(276, 340):  # every alignment twice: what is met again is kept
        oxinp.evaluate(body(oxinp, *ours, k))
    made = []
    make = executor.Executable.__init__
    monkeypatch.setattr(executor.Executable, "__init__", lambda self, *args: made.append(self) or make(self, *args))
    counts = {launches(lambda k=k: body(oxinp, *ours, k)) for k in range(340, 380)}
    assert not made
    assert len(counts) == 1


@pytest.mark.parametrize("body", [chain, same_operand, same_chain, same_part], ids=lambda body: body.__name__)
def test_chains_of_new_sizes_are_not_combined(body, data, monkeypatch):
    ours, _ = data
    for k in range(300, 302):
        oxinp.evaluate(body(oxinp, *ours, k))
    asked = []
    monkeypatch.setattr(record, "combine", lambda *args: asked.append(args) or combining.combine(*args))
    for k in range(340, 343):
        oxinp.evaluate(body(oxinp, *ours, k))
    assert not asked


@pytest.mark.parametrize("body", [matrix_by_vector, vector_by_matrix], ids=lambda body: body.__name__)
def test_products_of_matrices_and_vectors_of_new_sizes_are_not_planned(body, data, monkeypatch):
    ours, _ = data
    for k in range(300, 332):
        oxinp.evaluate(body(oxinp, *ours, k))
    asked = []
    planned = Reduction._planned
    monkeypatch.setattr(Reduction, "_planned", lambda *args: asked.append(args[1]) or planned(*args))
    for k in range(340, 380):
        oxinp.evaluate(body(oxinp, *ours, k))
    assert not asked


def test_outer_products_of_vectors_are_recorded_without_views(data, monkeypatch, launches):
    (x, y), given = data
    oxinp.evaluate(oxinp.outer(x[:7], y[:7]))  # from now on it is known that no errors are told of
    monkeypatch.setattr(linear_algebra, "moved", None)
    for k in (300, 301, *[302] * 6):
        assert_same(oxinp.outer(x[:7], y[:k]) * 2, numpy.outer(given[0][:7], given[1][:k]) * 2)
        assert launches(lambda k=k: oxinp.outer(x[::100], y[k::-1])) == 1
        assert_same(oxinp.outer(x[::100], y[k::-1]), numpy.outer(given[0][::100], given[1][k::-1]))


@pytest.mark.parametrize("code", ["?", "i1", "u8", "f2", "f4", "c8", "c16", "M8[s]"])
def test_outer_products_of_every_kind_are_numpys(code, config):
    config.offload_threshold = 0
    a, b = numpy.arange(-2, 5).astype(code), numpy.arange(40)[::3].astype(code)
    pairs = [(a, b), (b, b), (b[::-1], a[1:]), (a[:1], b), (a, b[:0])]
    pairs += [(a, b.real.astype("f8")), (a.real.astype("i4"), b)]
    for left, right in pairs:
        try:
            wanted = numpy.outer(left, right)
        except TypeError as error:
            with pytest.raises(type(error)):
                oxinp.outer(oxinp.asarray(left), oxinp.asarray(right))
        else:
            assert_same(oxinp.outer(oxinp.asarray(left), oxinp.asarray(right)), wanted)
    x = oxinp.asarray(b)
    if code not in ("?", "M8[s]"):
        assert_same(oxinp.outer(x, x), numpy.outer(b, b))
        assert_same(oxinp.outer(x + x, x), numpy.outer(b + b, b))
    assert_same(x, b)


def test_inner_products_of_new_sizes_have_no_graph(data, monkeypatch):
    (x, y), _ = data

    def products(k):
        oxinp.evaluate(oxinp.dot(x[:k], y[:k]))
        oxinp.evaluate(x[:k] @ y[1 : k + 1])

    for k in range(400, 432):
        products(k)
    asked = []
    monkeypatch.setattr(vector_product, "combine", lambda *args: asked.append(args))
    for k in range(440, 450):
        products(k)
    assert not asked


def test_products_with_matrices_of_few_columns_have_no_graph(data, monkeypatch):
    (x, y), given = data

    def products(x, y, k):
        narrow = x[:3000].reshape(500, 6)
        return [y[:k] @ narrow[:k], narrow[:k, 1:].T @ y[:k]]

    for k in range(400, 432):
        oxinp.evaluate(*products(x, y, k))
    asked = []
    monkeypatch.setattr(vector_product, "combine", lambda *args: asked.append(args))
    for k in range(440, 450):
        assert_close_each(products(x, y, k), products(*given, k))
    assert not asked


def assert_close_each(ours, wanted):
    for one, other in zip(ours, wanted, strict=True):
        numpy.testing.assert_allclose(oxinp.asnumpy(one), other, rtol=1e-12)


def test_inner_products_are_launched_by_arithmetic_again_when_their_structure_was_forgotten(data, monkeypatch):
    (x, y), _ = data
    for k in range(400, 410):
        oxinp.evaluate(oxinp.dot(x[:k], y[:k]))
    for table in (*expr._TABLES, expr._STRUCTURES):
        table.clear()
        table.old.clear()
    for k in range(410, 420):
        oxinp.evaluate(oxinp.dot(x[:k], y[1 : k + 1]))
    asked = []
    monkeypatch.setattr(vector_product, "combine", lambda *args: asked.append(args))
    for k in range(440, 450):
        oxinp.evaluate(oxinp.dot(x[:k], y[1 : k + 1]))
    assert not asked


def test_products_that_are_nominally_alike_are_planned_once(data, monkeypatch, launches):
    (x, y), given = data
    planned = []
    plan = select.plan
    monkeypatch.setattr(select, "plan", lambda *args: planned.append(args[0]) or plan(*args))

    def times(x, y, m):
        return x[: 16 * m].reshape(m, 16) @ y[:128].reshape(16, 8)

    for m in range(145, 161):
        assert launches(lambda m=m: times(x, y, m)) == 1
        assert_same(times(x, y, m), times(*given, m))
    assert len(planned) == 1


def test_products_of_one_kernel_are_planned_once(data, monkeypatch, launches):
    (x, y), given = data
    planned = []
    for name in ("plan", "plan_steps"):
        made = getattr(select, name)
        monkeypatch.setattr(select, name, lambda *args, made=made: planned.append(args[0]) or made(*args))

    def times(x, y, m):
        return x[: 16 * m].reshape(m, 16) @ y[:128].reshape(16, 8)

    sizes = (20, 90, 130, 150, 170, 70, 21)
    for m in sizes:
        assert launches(lambda m=m: times(x, y, m)) == 1
        assert_same(times(x, y, m), times(*given, m))
    assert len({shape[0] for shape in planned}) < len(sizes) - 2


def test_what_is_met_again_is_kept(data):
    (x, y), _ = data
    oxinp.evaluate(x[:50] * y[:50])
    graphs = []
    for _ in range(MEETINGS + RENTED + 2):
        z = x[:777] * y[:777]  # no small parts, which a loop reads a mirror for
        graphs.append(z._storage.value[0])
        oxinp.evaluate(z)
    first, *others = graphs[MEETINGS:]
    assert all(graph is first for graph in others)
    assert all(graph is not first and graph.program is chains.ONCE for graph in graphs[:MEETINGS])
    assert isinstance(first.program, executor.Executable)


def test_what_runs_again_by_arithmetic_is_not_looked_for_again(data, monkeypatch):
    (x, y), (u, v) = data
    matrices = x[: 16 * 50].reshape(50, 16), y[: 16 * 50].reshape(50, 16)
    works = [
        lambda: x[:500] * y[:500] + 1.0,  # one loop
        lambda: matrices[0][1:, 1:] - matrices[1][1:, 1:],  # two
        lambda: matrices[0][:, 1:].sum(axis=0),  # an operation
    ]
    expected = [u[:500] * v[:500] + 1.0, *(w[: 16 * 50].reshape(50, 16) for w in (u, v))]
    expected[1:] = expected[1][1:, 1:] - expected[2][1:, 1:], expected[1][:, 1:].sum(axis=0)
    for _ in range(MEETINGS + 3):
        for work in works:
            oxinp.evaluate(work())
    looks = []
    for module, name in ((chains, "line_of"), (chains, "matrix_of"), (planning, "plan_again")):
        before = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given, before=before, name=name: looks.append(name) or before(*given))
    for _ in range(3):
        for work, wanted in zip(works, expected, strict=True):
            assert_same(work(), wanted)
    assert not looks


def rows_and_sums(np, x, y, k):
    matrix = x[: 5 * LENGTH].reshape(LENGTH, 5)
    return x[:k] * y[:k] - y[k], matrix[:k].sum(axis=0), matrix[:k] * y[:5]


def vector_by_matrix_into(np, x, y, k):
    z = x.copy()
    z[:k] = y[:50] @ x[:3500].reshape(50, 70)[:, :k]
    z[2 * k : 4 * k : 2] = x[:k]
    return z


@pytest.mark.parametrize("body", [rows_and_sums, vector_by_matrix_into], ids=lambda body: body.__name__)
def test_what_comes_again_a_few_times_is_not_prepared(body, data, monkeypatch):
    """A loop over ever new sizes that runs a few times would be prepared for all of them."""
    ours, given = data
    sizes = range(34, 66)
    for k in sizes:  # every alignment
        oxinp.evaluate(*make_list(body(oxinp, *ours, k)))
    made = []
    make = executor.Executable.__init__
    monkeypatch.setattr(executor.Executable, "__init__", lambda self, *args: made.append(self) or make(self, *args))
    for _ in range(RENTED - 1):
        for k in sizes:
            oxinp.evaluate(*make_list(body(oxinp, *ours, k)))
    assert len(made) < len(sizes) // 4
    for _ in range(MEETINGS + RENTED):
        assert_same(body(oxinp, *ours, 40), body(numpy, *given, 40))
    assert made


def make_list(computed):
    return list(computed) if isinstance(computed, tuple) else [computed]


def test_a_table_has_met_what_it_was_asked_of():
    table = Recent(2)
    for _ in range(MEETINGS):
        assert [table.has_met(key) for key in "ab"] == [False, False]
    assert [table.has_met(key) for key in "ab"] == [True, True]
    assert [table.has_met(key) for key in "cab"] == [False, False, False]  # it forgets, and keeps nothing
    assert not table


def test_a_table_has_met_what_is_found_by_objects_that_come_again():
    table, kept = Recent(9), Layout.at(numpy.dtype(float), (5, 2), (80, 8), 0)
    for _ in range(MEETINGS):
        assert not table.has_met("a", kept)
    assert table.has_met("a", kept)
    others = [Layout.at(numpy.dtype(float), (5, 2), (80, 8), 16 * i) for i in range(1, 4)]
    assert [table.has_met("a", kept, other) for other in others] == [False] * 3
    assert [other.met for other in others] == [1] * 3


def test_what_a_table_has_aged_with_has_to_be_met_again():
    table = Recent(9)
    for _ in range(MEETINGS + 1):
        met = table.has_met("a")
    assert met
    table.age()
    assert not table.has_met("a")


@pytest.mark.usefixtures("on_device", "unwatched")
def test_a_loop_over_more_parts_than_are_kept_enters_no_products(monkeypatch):
    monkeypatch.setattr(memory_layout, "MAX_PARTS", memory_layout.MAX_NESTED_PARTS)
    Q, v = oxinp.asarray(numpy.ones((20, 80))), oxinp.asarray(numpy.ones(80))

    def turn():
        for k in range(10, len(v)):
            part, other = Q[:, :k], v[:k]
            for _ in range(2):
                oxinp.evaluate(part @ other)

    for _ in range(3):
        turn()
    entered = len(matmul.BY_LAYOUTS)
    turn()
    assert len(matmul.BY_LAYOUTS) == entered


def test_shapes_broadcast_as_numpys():
    shapes = [shape for ndim in (1, 2, 3) for shape in itertools.product((0, 1, 2, 3), repeat=ndim)]
    for one, other in itertools.product(shapes, repeat=2):
        try:
            wanted = numpy.broadcast_shapes(one, other)
        except ValueError:
            wanted = ()
        assert combining.common_shape(one, other) == wanted, (one, other)


def test_layouts_that_begin_elsewhere_are_alike():
    dtype = numpy.dtype(float)
    layouts = [Layout.at(dtype, shape, strides, offset) for offset in (0, 8, 96, 256, 264) for shape, strides in FORMS]
    for one, other in itertools.product(layouts, repeat=2):
        moved = Layout.at(one.dtype, one.shape, one.strides, other.offset)
        assert one.is_like(other) == other.same(moved), (one, other)


FORMS = [((), ()), ((5,), (8,)), ((5,), (16,)), ((5, 2), (16, 8)), ((5, 2), (8, 40))]


@pytest.mark.usefixtures("on_device", "unwatched")
def test_rows_of_new_sizes_that_are_written_to_columns_make_one_form_each():
    x = oxinp.asarray(numpy.ones((1100, 1100)))
    for i in range(20):
        x[i:, i] = x[i, i:]
    before = len(memory_layout.INTERNED)
    for i in range(20, 40):
        x[i:, i] = x[i, i:]
    assert len(memory_layout.INTERNED) <= before + 20


def test_a_leaf_is_one_graph():
    layout = Layout.of(numpy.dtype(float), (5,))
    assert layout.dense is layout
    assert isinstance(chains.leaf(layout), Graph)


@pytest.mark.usefixtures("on_device", "unwatched")
@pytest.mark.parametrize("code", ["f2", "f4", "i8"])
def test_ranges_of_one_size_share_a_graph(code):
    """Else each would be planned by itself, when many are computed together."""
    ranges = [oxinp.arange(start, start + 300, dtype=code) for start in range(3)]
    first, *others = [x._storage.value[0] for x in ranges]
    assert all(graph is first for graph in others)
    for start, x in enumerate(ranges):
        assert_same(x, numpy.arange(start, start + 300, dtype=code))


def num_calls(function):
    """How many functions of the core a call enters, whatever the device takes."""
    count = 0

    def note(frame, event, argument):
        nonlocal count
        count += event == "call" and "oxinp/_core/" in frame.f_code.co_filename

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


PRODUCTS = {
    "vector by matrix": (lambda m, v, k: v[k:] @ m[k:, k:], 41),
    "matrix by vector": (lambda m, v, k: m[k:, k:] @ v[k:], 37),
    "vector by few columns": (lambda m, v, k: v[k:] @ m[k:, 5:9], 37),
    "norm": (lambda m, v, k: oxinp.linalg.norm(m[k:, k]), 43),  # of which two tell placement of other sizes
    "number of NumPy's by norm": (lambda m, v, k: numpy.sqrt(2) / oxinp.linalg.norm(m[k:, k]), 60),
    "sum of scalars": (lambda m, v, k: oxinp.linalg.norm(m[k:, k]) + oxinp.linalg.norm(m[k:, 0]), 90),
    "of a product": (lambda m, v, k: (m[k:, k:] @ v[k:]) @ v[k:], 70),
    "where": (lambda m, v, k: oxinp.where(m[k:, k] > 0, v[k:], 0.0), 60),
    "outer": (lambda m, v, k: oxinp.outer(v[k:], v[k:]), 52),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_new_sizes_take_few_steps(name):
    make, most = PRODUCTS[name]
    m, v = oxinp.ones((600, 600)) * 0.5, oxinp.ones(600) * 0.5
    oxinp.evaluate(m, v)
    for k in range(30):
        oxinp.evaluate(make(m, v, k))
    balance.each = 0  # as in the middle of a program
    counts = [num_calls(lambda k=k: oxinp.evaluate(make(m, v, k))) for k in range(30, 50)]
    assert sorted(counts)[len(counts) // 2] <= most
