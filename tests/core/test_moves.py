"""What is moved is moved bit for bit: elements of dtypes without kernels, and bytes that are no truth values."""

# ruff: noqa: ICN001 - oxinp is np where programs are written

import numpy
import pytest

import oxinp
from tests.comparator import assert_same

pytestmark = pytest.mark.usefixtures("on_device")

STATEMENTS = """
d[1:]=d[:-1]  d[:-1]=d[1:]  d[::-1][:2]=d[:2]  d[:]=d[::-1]  d[2:3]=d[:1]  d[...]=d[:1]  d=d[::2].copy()  d=d.flatten()
d=d.reshape(2,-1).T.copy()  d=d.reshape(2,-1).copy("F")  d=np.concatenate([d,d])  d=np.roll(d,1)  d=np.repeat(d,2)
np.copyto(d[1:],d[:-1])  d=d.take([1,0])  d[[0,1]]=d[[1,0]]  d=np.ascontiguousarray(d[::-1])  d=d.astype(d.dtype)
"""


@pytest.mark.parametrize("dtype", ["?", "M8[s]", "m8[D]", "S4", "S3", "U1", "g", "V16", "V6", "i4,f8", ">i4"])
@pytest.mark.parametrize("statement", STATEMENTS.split())
def test_moves(dtype, statement):
    def moved(xp):
        names = {"np": xp, "d": (xp.arange(96, dtype="u1") * xp.uint8(1)).view(dtype)}
        exec(statement, names)  # noqa: S102 - a program of the list
        return names["d"]

    ours, numpys = moved(oxinp), moved(numpy)
    assert (ours.dtype, ours.strides) == (numpys.dtype, numpys.strides)
    assert numpy.asarray(ours).tobytes() == numpys.tobytes()


def test_a_mask_selects_bytes_as_they_are():
    for xp in (numpy, oxinp):
        memory = xp.array([2, 3, 0, 1], "u1")
        mask = memory.view(bool)
        assert mask[mask].view("u1").tolist() == [2, 3, 1]
        memory[1::2] = (mask[::2] & True).view("u1")
        assert memory.tolist() == [2, 1, 0, 0]


def test_moves_of_dates_stay_on_the_device(stats):
    dates = (oxinp.arange(1000) * 2).view("M8[s]")
    oxinp.evaluate(dates)
    before = stats().d2h_bytes
    dates[1:] = dates[:-1]
    copied = dates[::-1].copy()
    oxinp.evaluate(copied)
    assert stats().d2h_bytes == before
    assert_same(copied[-3:], numpy.array([2, 0, 0], "M8[s]"))


def test_first_uploads_of_arrays_of_all_kinds(stats):
    """Of vectors and matrices in C and Fortran order, and of types that the device has no kernels for."""
    random = numpy.random.default_rng(4)
    matrix = numpy.asfortranarray(random.normal(size=(30, 20)))
    for theirs in (random.normal(size=50), matrix, matrix.T, matrix[:, :1].copy(), numpy.arange(12).reshape(3, 4)):
        before = stats().h2d_bytes
        ours = oxinp.array(theirs, order="K")
        assert numpy.array_equal(oxinp.asnumpy(ours + 1), theirs + 1)
        assert stats().h2d_bytes - before == theirs.nbytes
        ours += 1
        assert numpy.array_equal(oxinp.asnumpy(ours + 1), theirs + 1 + 1)
    assert numpy.array_equal(oxinp.asnumpy(oxinp.asarray(numpy.ones(3, numpy.longdouble)) + 1), numpy.full(3, 2.0))


def test_a_view_that_repeats_one_element_that_is_to_be_copied():
    x = oxinp.array(numpy.array([2, 2], dtype="i4"))
    total = oxinp.sum(x[1:], axis=0, keepdims=True)
    joined = oxinp.concatenate([total, total])
    repeated = oxinp.broadcast_to(total, (2, 1))
    for each in (x, total):
        each.__array__(copy=True)
    assert_same(repeated.__array__(copy=True), numpy.array([[2], [2]]))
    assert_same(joined.__array__(copy=True), numpy.array([2, 2]))
