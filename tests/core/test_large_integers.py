"""Python integers that no integer of NumPy's holds, as operands: NumPy raises, or computes with objects."""

# ruff: noqa: ICN001, ARG005 - oxinp is np where programs are written, of one signature

import numpy
import pytest

import oxinp as np
from tests.comparator import assert_same

pytestmark = pytest.mark.usefixtures("offload_threshold")

INTEGERS = (5**28, 2**63, -(2**63) - 1, 2**64, 10**400, 300, -1)
KINDS = {
    "array": lambda np, dtype: np.ones(3, dtype),
    "strided": lambda np, dtype: np.ones(6, dtype)[::2],
    "0-d": lambda np, dtype: np.array(1, dtype),
    "scalar": lambda np, dtype: np.ones(1, dtype)[0],
    "empty": lambda np, dtype: np.ones(0, dtype),
}
UFUNCS = """
    logical_and logical_or logical_xor add subtract multiply equal less maximum fmin bitwise_and bitwise_xor
    copysign ldexp floor_divide remainder power heaviside nextafter gcd left_shift
""".split()  # noqa: SIM905 - a page of them
CALLS = {
    "first": lambda np, f, a, n: f(n, a),
    "second": lambda np, f, a, n: f(a, n),
    "as dtype bool": lambda np, f, a, n: f(a, n, dtype=bool),
    "as dtype float": lambda np, f, a, n: f(a, n, dtype=float),
    "into bools": lambda np, f, a, n: f(a, n, out=np.zeros(np.shape(a), bool)),
    "outer": lambda np, f, a, n: f.outer(a, n),
}


def told(function, np, *args):
    """Return a result, or the class and the words of an exception."""
    try:
        return numpy.asarray(function(np, *args))
    except Exception as error:  # noqa: BLE001 - whatever NumPy raises
        return type(error).__name__, str(error)


def is_computable(name, a, n):
    """Whether objects compute it in little time, or none do."""
    return name not in ("power", "left_shift") or (abs(n) < 1000 and a.dtype != bool)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", UFUNCS)
def test_operands_of_ufuncs(name, kind):
    make = KINDS[kind]
    for dtype in "?BqfD":
        for label, call in CALLS.items():
            if name in ("equal", "less") and ("dtype" in label or "into" in label):
                continue  # NumPy may die of a cast of what compares an integer that does not fit
            for n in filter(lambda n: is_computable(name, make(numpy, dtype), n), INTEGERS):
                found, expected = (told(call, np, getattr(np, name), make(np, dtype), n) for np in (np, numpy))
                assert type(found) is type(expected), (dtype, n, found, expected)
                if isinstance(expected, tuple):
                    assert found == expected
                else:
                    assert_same(found, expected)


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
@pytest.mark.parametrize("n", [5**28, True, 0])
def test_what_logical_reductions_start_from(name, n):
    for dtype in "?qf":
        assert_same(*[getattr(np, name).reduce(np.ones((2, 3), dtype), initial=n) for np in (np, numpy)])


@pytest.mark.parametrize("name", ["dot", "inner"])
def test_products_of_scalars(name):
    for a in ("f", "D"):
        assert_same(*[getattr(np, name)(np.ones(1, a)[0], 5**28) for np in (np, numpy)])
    for xp in (np, numpy):
        with pytest.raises(OverflowError, match="too large to convert"):
            getattr(xp, name)(xp.ones(1, "?")[0], 5**28)


def test_integers_to_negative_powers_as_floats():
    for make in KINDS.values():
        assert_same(*[numpy.asarray(np.power(make(np, "q"), -1, dtype=float)) for np in (np, numpy)])
