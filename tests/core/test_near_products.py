"""Products of vectors and matrices of ever other extents: launched by a few integers, with the bits of their plans."""

import itertools

import numpy  # noqa: ICN001
import pytest

import oxinp as np
from oxinp._core.lazy.placement import device
from oxinp._core.ops import near_products, outer, vector_product
from tests.thinned import thinned

pytestmark = pytest.mark.usefixtures("on_device", "unwatched")
KINDS = vector_product.VectorProduct, vector_product.MatrixProduct, vector_product.InnerProduct


def rows(a, i, v):
    return a[i:, i:] @ v[i:]


def rows_of_all(a, i, v):
    return a[:, i:] @ v[i:]


def columns(a, i, v):
    return v[i : len(a)] @ a[i:, i:]


def columns_of_all(a, i, v):
    return v[: len(a)] @ a[:, i:]


def lines(a, i, v):  # noqa: ARG001 - the programs' one signature
    return v[i:] @ v[i:]


def plan_each(monkeypatch):
    """Let no product be launched as others have been."""
    monkeypatch.setattr(np.config, "machine_code", False)
    monkeypatch.setattr(near_products, "columns_read", lambda *_: None)
    for kind in KINDS:
        monkeypatch.setattr(kind, "run_near", staticmethod(lambda *_: None))


PROGRAMS = {program.__name__: program for program in (rows, rows_of_all, columns, columns_of_all, lines)}
SHAPES = [(700, 330), (90, 700), (300, 300)]


@pytest.fixture
def planned(monkeypatch):
    """Count the products that are planned."""
    counts = []
    for kind in KINDS:
        before = kind.plan_again
        monkeypatch.setattr(
            kind, "plan_again", lambda self, variant, before=before: counts.append(self) or before(self, variant)
        )
    return counts


def run(xp, program, given, numbers):
    a, v = (xp.array(each) + 0 for each in given)
    if xp is np:
        np.evaluate(a, v)
    return [numpy.asarray(program(a, i, v)) for i in numbers]


@pytest.mark.parametrize(
    ("case", "shape"), thinned(list(itertools.product(PROGRAMS, ["f8", "f4", "c16", "i4"])), SHAPES), ids=str
)
def test_products_of_nearby_extents_have_the_bits_of_their_plans(case, shape, monkeypatch):
    name, dtype = case
    program = PROGRAMS[name]
    rng = numpy.random.default_rng(3)
    given = [(rng.random(each) * 9).astype(dtype) for each in (shape, max(shape))]
    numbers = [*range(1, min(shape) - 3, 29)]
    if program is rows or program is rows_of_all:
        given[1] = given[1][: shape[1]]
    elif program is columns or program is columns_of_all:
        given[1] = given[1][: shape[0]]
    run(np, program, given, numbers)
    found = run(np, program, given, numbers)
    plan_each(monkeypatch)
    wanted = run(np, program, given, numbers)
    assert [each.tobytes() for each in found] == [each.tobytes() for each in wanted]
    for own, numpys in zip(found, run(numpy, program, given, numbers), strict=True):
        numpy.testing.assert_allclose(own, numpys, rtol=1e-4 if dtype == "f4" else 1e-12)


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_few_of_ever_smaller_ones_are_planned(program, planned):
    given = [numpy.random.default_rng(3).random(each) for each in ((280, 280), 280)]
    run(np, program, given, range(1, 20))
    planned.clear()
    run(np, program, given, range(20, 240, 2))
    assert len(planned) < 60


def first_rows(a, i, v):
    return a[:i] @ v


def first_rows_turned(a, i, v):
    return v[:i] @ a[:i]


def first_columns(a, i, v):
    return v @ a[:, :i]


def check_bits(program, given, numbers, monkeypatch):
    """Compare what is found of products like others to what is planned for each."""
    run(np, program, given, numbers)
    found = [each.tobytes() for each in run(np, program, given, numbers)]
    plan_each(monkeypatch)
    assert found == [each.tobytes() for each in run(np, program, given, numbers)]


@pytest.mark.parametrize("dtype", ["i1", pytest.param("u2", marks=pytest.mark.slow), "f4"])
def test_products_of_small_elements_depend_on_how_many_columns_are_left_of_an_access(dtype, monkeypatch):
    given = [numpy.random.default_rng(3).integers(0, 9, each).astype(dtype) for each in ((96, 4096), 96)]
    check_bits(first_columns, given, range(4096 - 32, 4096), monkeypatch)


@pytest.mark.parametrize(
    ("shape", "program"),
    thinned([(36, 24000), (1100, 520), (520, 1100)], [first_rows, first_rows_turned]),
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_products_of_large_matrices_have_the_bits_of_their_plans(program, shape, monkeypatch, planned):
    rng = numpy.random.default_rng(3)
    given = [rng.random(each) for each in (shape, shape[1] if program is first_rows else shape[0])]
    numbers = range(32, shape[0], max(1, shape[0] // 16))
    for _ in range(2):
        run(np, program, given, numbers)
    planned.clear()
    run(np, program, given, numbers)
    assert not planned
    check_bits(program, given, numbers, monkeypatch)


def test_what_is_measured_of_a_large_matrix_is_asked(monkeypatch, planned):
    given = [numpy.random.default_rng(3).random(each) for each in ((900, 700), 700)]
    monkeypatch.setattr(near_products, "may_be_unrolled", lambda *_: True)
    near_products._rows.clear()
    run(np, first_rows, given, (900, 899, 898, 300, 299))
    monkeypatch.setattr(near_products, "unrolled", lambda *_: None)
    planned.clear()
    run(np, first_rows, given, (897, 298))
    assert [product.left.shape for product in planned] == [(897, 700)]


class Measured:
    """Answers what is asked of one that knows of some families."""

    def __init__(self, *families):
        self.families = families

    def knows(self, choice):
        return choice.family in self.families

    def __call__(self, choice):
        """Answer nothing."""


@pytest.mark.parametrize(("families", "is_asked"), [((), False), (("reduce/columns", "reduce/rows"), True)])
@pytest.mark.parametrize("program", [rows_of_all, columns_of_all], ids=["rows", "columns"])
def test_extents_are_asked_of_where_any_were_measured(program, families, is_asked, monkeypatch):
    backend, tuned = device(), Measured(*families)
    monkeypatch.setattr(backend, "capability", backend.capability.replace(tuned=tuned))
    np.config.renew()
    given = [numpy.random.default_rng(3).random(each) for each in ((900, 700), 900)]
    given[1] = given[1][: given[0].shape[program is rows_of_all]]
    run(np, program, given, range(1, 30))  # none is near another before some have been planned
    np.config.renew()
    asked, before = [], near_products.unrolled
    monkeypatch.setattr(near_products, "unrolled", lambda *given: asked.append(given) or before(*given))
    run(np, program, given, range(1, 9))
    assert bool(asked) == is_asked
    monkeypatch.undo()
    np.config.renew()


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_parts_at_any_address_are_planned_by_arithmetic(program, monkeypatch):
    """The graph that a plan is first made of has the parts' forms, which are less aligned."""
    asked, before = [], vector_product._Summed._planned_otherwise
    monkeypatch.setattr(
        vector_product._Summed, "_planned_otherwise", lambda self, *given: asked.append(self) or before(self, *given)
    )
    given = [numpy.random.default_rng(3).random(each) for each in ((280, 280), 280)]
    run(np, program, given, range(20, 240, 3))
    asked.clear()
    run(np, program, given, range(20, 240, 3))
    assert not asked


def write(xp, program, given, numbers, *, across):
    """Write products to parts of rows of a matrix, or of columns, whose elements lie apart."""
    a, v = (xp.array(each) + 0 for each in given)
    written = xp.zeros((704, 710), a.dtype)
    if xp is np:
        np.evaluate(a, v, written)
    for i in numbers:
        product = program(a, i, v)
        target = written[i] if across else written[:, i]
        target[3 : 3 + len(product)] = product
    return written


@pytest.mark.parametrize(
    ("case", "shape"),
    thinned([case for case in itertools.product(PROGRAMS, [True, False]) if case[0] != "lines"], SHAPES),
    ids=str,
)
def test_products_are_written_where_they_are_wanted(case, shape, planned, monkeypatch):
    name, across = case
    program, numbers = PROGRAMS[name], range(1, min(shape) - 40, 19)
    given = [numpy.random.default_rng(3).random(each) for each in (shape, max(shape))]
    if name.endswith(("rows", "rows_of_all")):
        given[1] = given[1][: shape[1]]
    elif name.startswith("columns"):
        given[1] = given[1][: shape[0]]
    near_products._columns.clear()  # of those that are read at once
    write(np, program, given, numbers, across=across)
    planned.clear()
    launches = np.cuda.stats().launches
    found = numpy.asarray(write(np, program, given, numbers, across=across))
    launches = np.cuda.stats().launches - launches
    assert not across or len(planned) < 20
    plan_each(monkeypatch)
    before = np.cuda.stats().launches
    wanted = numpy.asarray(write(np, program, given, numbers, across=across))
    assert found.tobytes() == wanted.tobytes()
    assert launches == np.cuda.stats().launches - before
    numpy.testing.assert_allclose(found, write(numpy, program, given, numbers, across=across), rtol=1e-12)


@pytest.mark.parametrize("dtype", ["f8", "f4", "c16"])
def test_inner_products_are_written_to_elements(dtype, planned):
    v = (numpy.random.default_rng(3).random(1500) * 9).astype(dtype)

    def program(xp):
        x, made = xp.array(v) + 0, xp.zeros(150, dtype)
        for i in range(150):
            made[i] = x[i:] @ x[i:]
        return made

    program(np)
    planned.clear()
    found = numpy.asarray(program(np))
    assert len(planned) < 20
    numpy.testing.assert_allclose(found, program(numpy), rtol=1e-4 if dtype == "f4" else 1e-12)


def test_other_settings_have_products_planned_again(config):
    given = [numpy.random.default_rng(3).random(each) for each in ((300, 300), 300)]
    run(np, rows, given, range(1, 90, 3))
    config.renew()
    found = run(np, rows, given, range(1, 90, 3))
    for own, numpys in zip(found, run(numpy, rows, given, range(1, 90, 3)), strict=True):
        numpy.testing.assert_allclose(own, numpys, rtol=1e-12)


def test_products_with_narrow_matrices_that_come_again_are_planned_once(planned, config):
    rng = numpy.random.default_rng(3)
    given = [rng.random((300, 8)), rng.random(300)]
    a, v = (np.array(each) + 0 for each in given)
    np.evaluate(a, v)

    def products():
        return [numpy.asarray(v[i:] @ a[i:]) for i in range(0, 60, 3)]

    first, *_ = [products() for _ in range(6)]
    planned.clear()
    again = products()
    assert not planned
    config.renew()
    later = products()
    assert planned
    for one, two, three, i in zip(first, again, later, range(0, 60, 3), strict=True):
        assert one.tobytes() == two.tobytes() == three.tobytes()
        numpy.testing.assert_allclose(one, given[1][i:] @ given[0][i:], rtol=1e-12)


def test_tables_do_not_grow_for_good(monkeypatch):
    monkeypatch.setattr(near_products, "MAX_KEPT", 4)
    given = [numpy.random.default_rng(3).random(each) for each in ((300, 300), 300)]
    run(np, rows_of_all, given, range(1, 290, 3))
    assert len(near_products._rows) <= 4


def test_products_of_two_vectors_that_come_again_are_found_by_one_look_up(monkeypatch):
    asked, before = [], vector_product._may_be_inner
    monkeypatch.setattr(vector_product, "_may_be_inner", lambda *given: asked.append(given) or before(*given))
    v = np.array(numpy.random.default_rng(3).random(400)) + 0.0
    np.evaluate(v)
    found = [(np.linalg.norm(v), np.outer(v, v)) for _ in range(12)]
    asked.clear()
    monkeypatch.setattr(outer, "STRUCTURES", None)
    norm, products = np.linalg.norm(v), np.outer(v, v)
    assert not asked
    numpys = numpy.asarray(v)
    assert float(norm) == float(found[0][0])
    assert numpy.asarray(products).tobytes() == numpy.outer(numpys, numpys).tobytes()


def transposed(a, i, v):
    return a[i:, i:].T @ v[i : len(a)]


@pytest.fixture
def recorded(monkeypatch):
    """Count the products that are recorded."""
    counts, before = [], vector_product.summed
    monkeypatch.setattr(vector_product, "summed", lambda *given: counts.append(given) or before(*given))
    near_products._columns.clear()
    return counts


@pytest.mark.parametrize("program", [columns, columns_of_all, transposed])
def test_what_is_read_next_is_launched_at_once(program, recorded, monkeypatch):
    given = [numpy.random.default_rng(3).random(each) for each in ((160, 160), 160)]
    run(np, program, given, range(1, 120))  # some kinds of which take kernels of their own
    recorded.clear()
    found = run(np, program, given, range(1, 120))
    assert len(recorded) < 60  # the ends of ranges, what is looked at again, and kernels that others are measured by
    np.config.renew()
    recorded.clear()
    run(np, program, given, range(1, 3))
    assert len(recorded) == 2
    plan_each(monkeypatch)
    assert [each.tobytes() for each in found] == [each.tobytes() for each in run(np, program, given, range(1, 120))]


@pytest.mark.parametrize("scale", [1, 2])
def test_what_goes_into_a_part_waits_for_that(scale, recorded, launches):
    a, v = (np.array(numpy.random.default_rng(3).random(each)) for each in ((300, 300), 300))
    written = np.zeros((300, 300))

    def fill(first, last):
        for i in range(first, last):
            product = columns(a, i, v)
            written[i, i:] = product if scale == 1 else product * scale

    def read(first, last):
        for i in range(first, last):
            np.evaluate(columns(a, i, v))

    launches(lambda: fill(1, 20))
    recorded.clear()
    assert launches(lambda: fill(20, 60)) == 40 * scale
    assert len(recorded) == 40
    near_products._columns.clear()
    launches(lambda: read(1, 40))
    launches(lambda: fill(1, 6 * near_products.LOOKS))  # some of which are looked at
    recorded.clear()
    assert launches(lambda: fill(100, 140)) == 40 * scale
    assert len(recorded) == 40


def test_operands_are_those_of_when_it_was_asked_for(twin):
    def body(xp):
        rng = numpy.random.default_rng(3)
        a, v, found = xp.array(rng.random((300, 300))), xp.array(rng.random(300)), []
        for i in range(1, 60):
            w = v[i:] * 2
            found.append(w @ a[i:, i:])
            a[i:, i] = found[-1]
            found.append(a[i:, i:].T @ v[i:])
            v[i:] += 1 / (1 + found[-1])
            w *= 0
        return [a, v, *found]

    twin(body, ulp=1 << 12)


@pytest.mark.parametrize("others", ["vectors", "matrices"])
def test_operands_that_do_not_match_are_refused(others):
    a, v = np.ones((300, 300)), np.ones(300)
    for i in range(1, 30):
        np.evaluate(columns(a, i, v))
    with pytest.raises(ValueError, match="mismatch in its core dimension"):
        _ = v[:200] @ a[1:, 1:] if others == "vectors" else v[1:] @ a[:200, 1:]
    assert (v[1:].astype("f4") @ a[1:, 1:]).dtype == a.dtype
