"""`einsum` on the device against NumPy's: expressions, dtypes, layouts, orders, errors, views, launches."""

# ruff: noqa: ICN001, ARG005 - oxinp is np where programs are written, of one signature

import numpy
import pytest

import oxinp as np
from oxinp._core.ops import einsum
from tests.comparator import assert_same

SIZES = {"a": 3, "b": 4, "c": 5, "d": 6, "i": 7, "j": 8, "k": 9, "l": 4, "m": 3, "n": 2, "o": 1, "p": 1, "z": 0}
EXPRESSIONS = """
    i-> i->i ij->ji ij-> ij->i ij->j ijk->kji ijk->ik ijk->j iji->j ii-> ii->i iii->i iii-> iij->ij iij->ji iijj->ij
    iijj-> ijij->ji i ij ba ii iji cba
    i,i-> i,i->i i,j->ij i,j->ji i,j ij,ij-> ij,ij->ij ij,ji-> ij,ji->ij ij,ij->i ij,ij->j ij,j->i ij,i->j ij,j ij,i
    ij,j->ij ij,j->ji ij,jk->ik ij,jk->ki ji,jk->ik ij,kj->ik ji,kj->ik ji,kj->ki ij,jk ba,cb ij,jk-> ij,jk->i ij,jk->k
    ij,jk->j ij,jk->ijk ij,kl->ijkl ij,kl->klij ij,kl-> ij,kl->il ij,kl->li bij,bjk->bik bij,bjk->ibk bij,bjk->ikb
    bij,bkj->bik ibj,jbk->bik bij,jk->bik bij,jk->bki ij,bjk->bik bij,bij->b bij,bij->bi bij,bj->bi bij,bij->ij
    abij,abjk->abik abij,bajk->abik aibj,bkja->abik abij,jk->abik ijk,ijl->kl ijk,jil->kl ijk,lkj->il ijk,jkl->li
    ijk,jil ijkl,klij-> ijkl,klab->ijab ijab,klab->ijkl ijk,ik->j ijk,k->ij ijk,j->ik iij,jk->ik iij,ij->j ii,ij->j
    ii,jj-> ii,jj->ij ijj,jk->ik iji,jk->ik
    io,ok->ik io,ok ioj,jk->ik oj,jk->ok oj,jp->op o,o->o o,p->op io,jo->ij ijo,jko->ik o-> oi->i oii->i
    iz,zj->ij iz->i iz->z iz,zj-> zi,zi->z zi,ij->zj iz->zi zz->z
    i,i,i-> i,i,i->i ij,i,j-> ij,i,j->ij ij,jk,kl->il ij,jk,kl ij,jk,kl-> ij,jk,ki-> ijk,ilm,njm,nlk-> i,j,k->ijk
    ij,ik,il->jkl ij,ik,il->i bij,bjk,bkl->bil i,ij,j-> ij,jk,kl,la->ia ijk,kl,lm,m->ij ij,j,k->ik a,ab,abc->abc
    ea,fb,abcd,gc,hd->efgh ab,cd,bd->ac
""".split()  # noqa: SIM905 - a page of them
ELLIPSES = [
    ("...", [(3, 4)]),
    ("...->...", [(3, 4)]),
    ("i...->...", [(3, 4, 5)]),
    ("...i->...", [(3, 4, 5)]),
    ("...i->i...", [(3, 4, 5)]),
    ("i...i->...", [(3, 4, 3)]),
    ("i...j->j...i", [(3, 4, 5)]),
    ("...ii->...i", [(2, 5, 5)]),
    ("i...->i...", [(3,)]),
    ("...,...", [(3, 4), (4,)]),
    ("...,...->...", [(3, 1), (1, 4)]),
    (",...", [(), (3, 4)]),
    (",", [(), ()]),
    ("", [()]),
    ("...", [()]),
    (",ij->j", [(), (3, 4)]),
    ("...i,...i->...", [(3, 4), (2, 3, 4)]),
    ("...i,...i", [(3, 4), (4,)]),
    ("...ij,...jk->...ik", [(2, 3, 4), (4, 5)]),
    ("...ij,...jk->...ik", [(2, 1, 3, 4), (7, 4, 5)]),
    ("...ij,...jk", [(2, 3, 4), (2, 4, 5)]),
    ("ij...,jk...->ik...", [(3, 4, 2), (4, 5, 2)]),
    ("ij...,jk...->...ik", [(3, 4, 2), (4, 5, 1)]),
    ("ki,...k->i...", [(4, 3), (5, 4)]),
    ("k...,jk", [(4, 3), (5, 4)]),
    ("i...,j...->ij...", [(3, 2), (4, 2)]),
    ("...a,...b,...c->...abc", [(2, 3), (4,), (2, 5)]),
    ("a...b,b...c,...ca", [(3, 2, 4), (4, 2, 5), (2, 5, 3)]),
    (" i j , j k -> i k ", [(3, 4), (4, 5)]),
    ("iJ,Jk->ki", [(3, 4), (4, 5)]),
    ("Ab,bA", [(3, 4), (4, 3)]),
    # lengths of 1 that are broadcast
    ("ij,ij->ij", [(3, 1), (3, 4)]),
    ("ij,ij->", [(3, 1), (1, 4)]),
    ("ij,jk", [(3, 4), (1, 5)]),
    ("ij,jk->ik", [(3, 1), (4, 5)]),
    ("bij,bjk->bik", [(1, 3, 4), (6, 4, 5)]),
    ("bij,bjk->bik", [(6, 3, 4), (6, 1, 5)]),
    ("i,i,i->i", [(1,), (5,), (1,)]),
]
CASES = [
    *(
        (text, [tuple(SIZES.get(x, 3) for x in part) for part in text.split("->")[0].split(",")])
        for text in EXPRESSIONS
    ),
    *ELLIPSES,
]
LAYOUTS = {
    "plain": lambda x: x,
    "fortran": lambda x: x.T.copy().T,
    "backwards": lambda x: x[::-1, ..., ::-1] if x.ndim > 1 else x[::-1] if x.ndim else x,
    "inside": lambda x: x.repeat(2, axis=-1)[..., ::2] if x.ndim else x,
    "rolled": lambda x: numpy.moveaxis(numpy.ascontiguousarray(numpy.moveaxis(x, -1, 0)), 0, -1) if x.ndim else x,
}


@pytest.fixture(autouse=True)
def on_device(config):
    config.offload_threshold = 0


def draw(shapes, dtype, layout="plain", seed=0):
    """Small integers in any dtype, so that every order of summation gives the same."""
    rng = numpy.random.default_rng(seed)
    return [LAYOUTS[layout](rng.integers(0, 2 if dtype == "?" else 3, shape).astype(dtype)) for shape in shapes]


def run(text, host, **keywords):
    """Compare with NumPy: values, dtype, strides, and where it ran; operands keep their layouts."""
    expected = numpy.einsum(text, *host, **keywords)
    ours = [on_device_as(x) for x in host]
    before = np.cuda.stats().fallbacks
    result = np.einsum(text, *ours, **keywords)
    np.evaluate(result)
    assert np.cuda.stats().fallbacks == before
    assert result.dtype == expected.dtype
    assert result.shape == expected.shape
    numpy.testing.assert_array_equal(numpy.asarray(result), expected)
    if expected.size and 1 not in expected.shape and not keywords.get("optimize"):
        assert result.strides == expected.strides
    assert (type(result) is np.ndarray) == (type(expected) is numpy.ndarray)
    if expected.ndim and not keywords.get("optimize"):
        assert (result.base is None) == (expected.base is None)
        assert result.flags.writeable


def on_device_as(array):
    """An array of ours with the same strides, on the device."""
    if not array.size or not array.ndim:
        return np.asarray(array) + np.asarray(array).dtype.type(0)
    order = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
    turned = array.transpose(order)
    signs = tuple(slice(None, None, -1 if step < 0 else 1) for step in turned.strides)
    step = min(abs(s) for s in array.strides) // array.itemsize
    wide = numpy.ascontiguousarray(turned[signs]).repeat(step, axis=-1)
    ours = np.zeros(wide.shape, wide.dtype)
    ours[...] = np.asarray(wide)
    return ours[..., :: max(step, 1)][signs].transpose(numpy.argsort(order))


@pytest.mark.parametrize(("text", "shapes"), CASES, ids=[f"{i}:{text}" for i, (text, _) in enumerate(CASES)])
def test_every_expression(text, shapes):
    run(text, draw(shapes, "i4"))


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda i: f"{i}:{CASES[i][0]}")
def test_every_expression_in_some_layout(number):
    text, shapes = CASES[number]
    run(text, draw(shapes, "f4", list(LAYOUTS)[1 + number % (len(LAYOUTS) - 1)]))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("text", ["ij,jk->ik", "ij,jk->ki", "bij,bjk->bik", "bij,bjk->ibk", "ijk,jil->kl", "iij->ji"])
def test_every_layout(text, layout):
    run(text, draw(dict(CASES)[text], "i8", layout))


@pytest.mark.parametrize(("text", "shapes"), CASES, ids=[f"{i}:{text}" for i, (text, _) in enumerate(CASES)])
def test_every_expression_optimised(text, shapes):
    run(text, draw(shapes, "f8"), optimize=True)


PICKED = [
    "ij->j",
    "ii->i",
    "ii->",
    "i,i->",
    "i,j->ij",
    "ij,j->i",
    "ij,jk->ik",
    "bij,bjk->bik",
    "ij,jk,kl->il",
    "ij->ji",
]


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i8", "u8", "f2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("text", PICKED)
def test_dtypes(text, dtype):
    run(text, draw(dict(CASES)[text], dtype))


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("ij->ji", 0),
        ("ii->i", 0),
        ("ij->j", 1),
        ("ii->", 1),
        ("ij,ij->", 1),
        ("ij,jk->ik", 1),
        ("ij,jk->ki", 1),
        ("ji,kj->ik", 1),
        ("bij,bjk->bik", 1),
        ("bij,jk->bik", 1),
        ("ijk,jkl->li", 1),
        ("i,j->ij", 1),
        ("ij,j->i", 1),
        ("i,i,i->", 1),
        ("ij,i,j->", 1),
        ("bij,bij->b", 1),
        ("ij,jk,kl->il", 2),
        ("bij,bjk,bkl->bil", 2),
        ("ij,jk,kl,la->ia", 3),
    ],
)
def test_launches(text, count, launches):
    ours = [on_device_as(x) for x in draw(dict(CASES)[text], "f4")]
    np.evaluate(*ours)
    assert launches(lambda: np.einsum(text, *ours)) == count


def test_batches_are_one_launch(launches):
    a, b = (np.asarray(numpy.ones(shape)) for shape in ((50, 4, 5), (50, 5, 3)))
    assert launches(lambda: np.einsum("bij,bjk->bik", a, b)) == 1
    # NumPy's memory order of this one needs a copy of the result.
    assert launches(lambda: np.einsum("ibj,bjk->bik", a.transpose(1, 0, 2), b)) == 1
    assert launches(lambda: np.einsum("ibj,bjk->ibk", a.transpose(1, 0, 2), b, order="C")) == 2


def test_operands_are_cast_before_they_are_multiplied(twin):
    def body(n):
        a = n.full(5, 100, "i1")
        return [
            n.einsum("i,i->i", a, a, dtype="i8"),
            n.einsum("i,i->", a, n.arange(5)),
            n.einsum("i,i,i->i", a, a, n.arange(5), optimize=True),
            n.einsum("i,i,i->i", a, a, n.arange(5)),
            n.einsum("i->", a),
            n.einsum("i,i->", n.arange(5) * 1.5, a, dtype="i4", casting="unsafe"),
            n.einsum("i->i", a, dtype="f4"),
        ]

    twin(body)


@pytest.mark.parametrize("order", "CFAK")
def test_order(twin, order):
    def body(n):
        a, b = n.arange(12).reshape(3, 4), n.arange(20).reshape(5, 4).T
        results = [
            n.einsum("ij,jk->ik", a, b, order=order),
            n.einsum("ij,jk->ki", a, b, order=order),
            n.einsum("ij->ji", a + 0, order=order, dtype="f8"),
            n.einsum("i,j->ij", a[0], b[0], order=order),
        ]
        return results, [x.strides for x in results]

    twin(body)


def test_out(twin):
    def body(n):
        a, b = n.arange(16).reshape(4, 4), n.arange(16.0).reshape(4, 4)
        wide, part = n.zeros((4, 4)), n.zeros((6, 9))
        same = n.einsum("ij,jk->ki", a, b, out=wide) is wide
        n.einsum("ij,jk", a, b, out=part[1:5, ::-1][:, 1::2])
        n.einsum("ij,jk", b, b, out=b)
        n.einsum("ij->ji", b, out=b)
        n.einsum("ij,kj->ik", a, a, out=a[::-1], optimize=True)
        total = n.zeros(())
        n.einsum("ij,ij->", a, a, out=total)
        n.einsum("i,i", n.ones(3, "i1"), n.full(3, 127, "i1"), out=n.zeros((), "i8"))
        return same, wide, part, b, a, total

    twin(body)


def test_views_write_through(twin):
    def body(n):
        a = n.arange(9.0).reshape(3, 3)
        n.einsum("ii->i", a)[:] = 7
        n.einsum("ij->ji", a)[0] = 5
        row = n.einsum("i...->...i", a)
        row += 1
        frozen = n.einsum("ii->i", n.broadcast_to(a, (2, 3, 3))[0])
        return a, row, frozen.flags.writeable, n.shares_memory(a, n.einsum("ji", a))

    twin(body)


def test_forms_of_the_arguments(twin):
    def body(n):
        a, b = n.arange(12).reshape(3, 4), n.arange(20).reshape(4, 5)
        return [
            n.einsum(a, [0, 1], b, [1, 2]),
            n.einsum(a, [0, 1], b, [1, 2], [2, 0]),
            n.einsum(a, [0, 51], b, [51, 2], [2, 0]),
            n.einsum(a, [0, ...], [..., 0]),
            n.einsum(a, (0, n.int64(1)), b, (1, 2), ()),
            n.einsum("ij,jk", a.tolist(), b),
            n.einsum("ij,", a, 3),
            n.einsum("ij,jk,kl", a, b, b.T, optimize=["einsum_path", (1, 2), (0, 1)]),
            n.einsum("ij,jk,kl", a, b, b.T, optimize=("greedy", 10)),
            n.einsum("ij,jk,kl", a, b, b.T, optimize=None),
            n.einsum_path("ij,jk,kl->il", a, b, b.T),
            n.einsum_path(a, [0, 1], b, [1, 2], optimize="optimal"),
        ]

    twin(body)


@pytest.mark.parametrize(
    "body",
    [
        lambda n, a: n.einsum(),
        lambda n, a: n.einsum("ij"),
        lambda n, a: n.einsum(a),
        lambda n, a: n.einsum("ij,jk", a),
        lambda n, a: n.einsum("ij", a, a),
        lambda n, a: n.einsum("i", a),
        lambda n, a: n.einsum("ijk", a),
        lambda n, a: n.einsum("i...->i", a),
        lambda n, a: n.einsum("i..j", a),
        lambda n, a: n.einsum("i....j", a),
        lambda n, a: n.einsum("...i...", a),
        lambda n, a: n.einsum("ij->k", a),
        lambda n, a: n.einsum("ij->ii", a),
        lambda n, a: n.einsum("ij->i->j", a),
        lambda n, a: n.einsum("ij-i", a),
        lambda n, a: n.einsum("i%", a),
        lambda n, a: n.einsum("ij,jk", a, a),
        lambda n, a: n.einsum("ii", a),
        lambda n, a: n.einsum("ii->i", a),
        lambda n, a: n.einsum("...,...", a, n.ones(7)),
        lambda n, a: n.einsum("ij->ij", a, out=n.zeros(3)),
        lambda n, a: n.einsum("ij->", a, out=3),
        lambda n, a: n.einsum("ij,ij->", a, a, out=n.zeros((), "f4")),
        lambda n, a: n.einsum("ij,ij->", a, a, dtype="f4"),
        lambda n, a: n.einsum("ij,ij->", a, a, dtype="i8", casting="no"),
        lambda n, a: n.einsum("ij,ij->", a, a, casting="maybe"),
        lambda n, a: n.einsum("ij,ij->", a, a, order="Q"),
        lambda n, a: n.einsum("ij,ij->", a, a, what=1),
        lambda n, a: n.einsum("ij,ij->", a, a, what=1, optimize=True),
        lambda n, a: n.einsum("ij,ij->", a, a, optimize="best"),
        lambda n, a: n.einsum("ij,ij,ij->", a, a, a, optimize="best"),
        lambda n, a: n.einsum("ij,ij,ij->", a, a, a, optimize=["einsum_path", (0, 1)]),
        lambda n, a: n.einsum("ij,jk", a, a, optimize=True),
        lambda n, a: n.einsum(a, [0, 60]),
        lambda n, a: n.einsum(a, [0, -1]),
        lambda n, a: n.einsum(a, [0, "x"]),
        lambda n, a: n.einsum(a, [0, 1.5], optimize=True),
        lambda n, a: n.einsum("ij,jk", a, n.broadcast_to(a, (4, 3))),
        lambda n, a: n.einsum("ij->ij", a, out=n.broadcast_to(a, (3, 4))),
        lambda n, a: n.einsum_path("ij,jk", a, a),
    ],
)
def test_errors_are_numpys(twin, body):
    twin(lambda n: body(n, n.arange(12.0).reshape(3, 4)))


def test_float_sums_are_as_exact_as_matmul():
    rng = numpy.random.default_rng(5)
    a, b = rng.standard_normal((2, 30, 70)), rng.standard_normal((2, 70, 20))
    result = numpy.asarray(np.einsum("bij,bjk->bik", np.asarray(a), np.asarray(b)))
    exact = a.astype(numpy.longdouble) @ b.astype(numpy.longdouble)
    assert (numpy.abs(result - exact) <= 72 * numpy.finfo("f8").eps * (numpy.abs(a) @ numpy.abs(b))).all()


def test_small_arrays_stay_on_the_host(config, stats):
    config.offload_threshold = 1 << 16
    a = np.ones((4, 4))
    before = stats()
    assert numpy.asarray(np.einsum("ij,jk", a, a)).sum() == 64
    out = np.zeros((4, 4))
    assert np.einsum("ij->ji", a, out=out) is out
    np.einsum("ii->i", a)[:] = 2
    assert a[1, 1] == 2
    after = stats()
    assert (after.launches, after.fallbacks.get("einsum", 0)) == (before.launches, before.fallbacks.get("einsum", 0))


READ_ONLY = {
    "broadcast": lambda np: np.broadcast_to(np.arange(3.0), (3, 3)),
    "flagged": lambda np: _read_only(np.eye(3) * 2),
}


def _read_only(array):
    array.flags.writeable = False
    return array


@pytest.mark.parametrize("make", READ_ONLY.values(), ids=READ_ONLY)
@pytest.mark.parametrize("threshold", [0, 65536, float("inf")])
def test_read_only_operands(twin, config, make, threshold):
    config.offload_threshold = threshold

    def body(np):
        a, b = make(np), np.arange(9.0).reshape(3, 3)
        view = np.einsum("ij->ji", a)
        diagonal = np.einsum("ii->i", a)
        return (
            np.einsum("ij->i", a),
            np.einsum("ij,jk->ik", a, b),
            np.einsum("ij,jk,kl", b, a, a),
            *(view, view.flags.writeable, diagonal, diagonal.flags.writeable),
            *(np.dot(a, b), np.inner(a, a), np.inner(b, a), np.tensordot(a, b, 1), np.vdot(a, b), a @ b),
            np.dot(np.eye(2), np.broadcast_to(np.eye(2), (2, 2, 2))).shape,
            np.inner(np.broadcast_to(np.eye(2), (2, 2, 2)), np.broadcast_to(np.eye(2), (2, 2, 2))).shape,
        )

    twin(body)


HOSTED = {
    "dot": lambda np, ones, n: np.dot(ones((3, n)), ones((2, n, 4))),
    "dot of a batch": lambda np, ones, n: np.dot(ones((2, 3, n)), ones((2, n, 4))),
    "dot, out": lambda np, ones, n: np.dot(ones((3, n)), ones((2, n, 4)), out=np.zeros((3, 2, 4))),
    "inner": lambda np, ones, n: np.inner(ones((2, 3, n)), ones((4, n))),
    "inner of matrices": lambda np, ones, n: np.inner(ones((3, n)), ones((4, n))),
    "tensordot": lambda np, ones, n: np.tensordot(ones((3, n)), ones((n, 4)), 1),
    "vdot": lambda np, ones, n: np.vdot(ones((3, n)), ones((3, n))),
}


@pytest.mark.parametrize("product", HOSTED.values(), ids=HOSTED)
@pytest.mark.parametrize("n", [0, 5, 20_000])
def test_products_without_a_device(twin, config, stats, product, n):
    config.backend = "host"
    twin(lambda np: product(np, np.ones, n))
    assert not stats().fallbacks.keys() - {"__array__"}


@pytest.mark.parametrize("is_read_only", [False, True], ids=["plain", "read-only"])
@pytest.mark.parametrize("product", HOSTED.values(), ids=HOSTED)
def test_small_products_stay_on_the_host(twin, config, stats, product, is_read_only):
    config.offload_threshold = 65536

    def body(np):
        ones = (lambda shape: np.broadcast_to(np.ones(1), shape)) if is_read_only else np.ones
        return product(np, ones, 5)

    twin(body)
    assert stats().launches == 0
    assert not stats().fallbacks.keys() - {"__array__"}


@pytest.mark.parametrize("shape", [(0, 1), (1, 0), (0, 2), (3, 0)])
@pytest.mark.parametrize("subscripts", ["ii->i", "ii", "ii->"])
def test_diagonals_of_nothing_are_refused(subscripts, shape):
    """NumPy reads memory behind the array."""
    with pytest.raises(ValueError, match="collapsing index 'i' don't match"):
        np.einsum(subscripts, np.zeros(shape))
    assert np.einsum(subscripts, np.zeros((0, 0))).size <= 1


@pytest.mark.parametrize("subscripts", ["ij->ji", "ij->i", "ij->", "ii", "ij,jk", "i,j->ij", "ij,ij->ij", "ij,j,j->ij"])
@pytest.mark.parametrize("n", [1, 2])
def test_zeros_have_the_sign_of_a_sum_that_starts_from_zero(subscripts, n, twin, on_device):  # noqa: ARG001
    def body(np, dtype, has_out):
        ones = [np.ones((n,) * len(term), dtype) for term in subscripts.partition("->")[0].split(",")]
        ones[0] *= -0.0
        out = {"out": np.ones_like(np.einsum(subscripts, *ones))} if has_out else {}
        return np.einsum(subscripts, *ones, **out)

    for dtype in ("f2", "f8", "c16"):
        for has_out in (False, True):
            twin(lambda np, dtype=dtype, has_out=has_out: body(np, dtype, has_out))


def test_the_transpose_of_an_array_into_itself(twin, on_device):  # noqa: ARG001
    def body(np):
        a = np.array([[-0.0, 1.0], [2.0, -0.0]])
        return np.einsum("ij->ji", a, out=a), a

    twin(body)


@pytest.mark.parametrize("optimize", [False, True])
@pytest.mark.parametrize("dtype", ["i8", "f4", "f8", "f2", "u1", "?", "c16"])
@pytest.mark.parametrize("text", ["ij,jk,kl", "i,i,", "i,j,k->", "ij,ij,k->k", "ii", "i,j", ",,", "ij,jk->"])
def test_steps_that_placement_puts_on_the_host(text, dtype, optimize, config):
    config.offload_threshold = float("inf")
    lengths = {"i": 3, "l": 1} if text == "ij,jk,kl" else {"i": 3, "j": 4, "k": 2}
    parts = text.partition("->")[0].split(",")
    host = draw([tuple(lengths.get(x, 1) for x in part) for part in parts], dtype)
    arrays = tuple(np.array(x) for x in host)
    plan = einsum.Plan(text, tuple(x._layout for x in arrays), None, einsum.Options(optimize))
    assert_same(plan.run(arrays, None), numpy.einsum(text, *host, optimize=optimize))
