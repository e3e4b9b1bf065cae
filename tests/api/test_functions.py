"""Every function of the namespace against NumPy: values, what it writes to its arguments, and what its result views."""

import io

import numpy as np
import pytest

import oxinp
from oxinp._api import coverage
from tests.api.examples import arrays, examples
from tests.comparator import assert_same, is_array, outcome
from tests.tolerances import SMALL_ULP, ulp_of

ROWS = coverage.rows()
CALLS = [code for name, codes in examples().items() for code in codes if hasattr(np, name)]
NOT_CALLED = {"ndarray", "ufunc"}


def run(xp, code):
    """Return what an example gives, and its arrays as it leaves them."""
    names = {"np": xp, "io": io, "__file__": __file__, **arrays(xp, code)}
    with np.errstate(all="ignore"):
        given = outcome(lambda _: eval(code, names), xp)  # noqa: S307 - our own code
    return given, {name: value for name, value in names.items() if is_array(value)}


# Results whose elements overlap, where NumPy does not say which of several writes to one place is the last, and those
# of classes of NumPy's, which are copies with us.
NOT_WRITTEN = ("as_strided", "broadcast_arrays", "copy=False", "asmatrix")


def write_through(result):
    """Write to every array in a result, so that what it views changes too."""
    for part in result if isinstance(result, (list, tuple)) else [result]:
        if is_array(part) and part.dtype.kind in "bifc" and part.flags.writeable:
            part[...] = part[...] + part.dtype.type(1)


def assert_left_as(ours, numpys, when, ulp=0):
    """Compare arrays on both sides: as they are read, and as the device reads them for its own work."""
    for name, expected in numpys.items():
        assert_same(ours[name], expected, ulp, where=f"{name} {when}")
        assert_same(ours[name].copy(), expected, ulp, where=f"{name} on the device {when}")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::PendingDeprecationWarning")
@pytest.mark.parametrize("offload_threshold", [0, float("inf")], indirect=True)
@pytest.mark.parametrize("code", CALLS)
@pytest.mark.usefixtures("offload_threshold")
def test_is_numpys(code):
    ours, our_arrays = run(oxinp, code)
    numpys, numpy_arrays = run(np, code)
    assert not isinstance(numpys, Exception) or code.startswith("np.asarray_chk"), numpys
    if isinstance(ours, Exception) and not isinstance(numpys, Exception):
        raise ours
    function = code.removeprefix("np.").partition("(")[0]
    ulp = max(SMALL_ULP.get(function, 0), ulp_of(code))
    assert_same(ours, numpys, ulp, where=code)
    assert_left_as(our_arrays, numpy_arrays, f"after {code}", ulp)
    if any(mark in code for mark in NOT_WRITTEN):
        return
    write_through(ours)
    write_through(numpys)
    assert_left_as(our_arrays, numpy_arrays, f"after writing to the result of {code}", ulp)


def is_called(row):
    return row.kind in (coverage.NATIVE, coverage.COMPOSED, coverage.HOST) and row.name not in NOT_CALLED


def test_every_function_has_an_example():
    modules = {name for name in ROWS if type(getattr(np, name, None)) is type(np)}
    wanted = {name for name, row in ROWS.items() if is_called(row)} - modules
    assert wanted <= set(examples())
