"""The one comparator: is what oxinp gave what NumPy gave?

`assert_same` compares two results, `same_outcome` runs one function under two namespaces and compares what came out,
exceptions included. Nothing here knows oxinp: an array is whatever has a dtype, a shape and `__array__`.
"""

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

PUBLIC_EXCEPTION_MODULES = ("builtins", "numpy.exceptions", "numpy.linalg")
INTEGER_OF_SIZE = {2: np.int16, 4: np.int32, 8: np.int64}


def public_type(error: type[BaseException]) -> type[BaseException]:
    """Return the nearest public base of an exception type: what a user can name in an `except`.

    Examples
    --------
    >>> public_type(np.exceptions.AxisError).__name__
    'AxisError'
    >>> public_type(type("_Private", (TypeError,), {})).__name__
    'TypeError'
    """
    return next(base for base in error.__mro__ if base.__module__ in PUBLIC_EXCEPTION_MODULES)


def is_array(value: object) -> bool:
    """Tell whether a value is an array, NumPy's or ours, rather than a scalar or a Python object."""
    return hasattr(value, "__array__") and hasattr(value, "shape") and not isinstance(value, (np.generic, type))


def assert_same(ours: object, numpys: object, ulp: float = 0, *, where: str = "") -> None:
    """Raise AssertionError unless `ours` is what NumPy gave.

    Parameters
    ----------
    ours, numpys : array, scalar, Python object, exception, exception type, or list, tuple or dict of these
        The result under test and NumPy's.
    ulp : float
        Largest distance allowed between floats, in units in the last place of NumPy's dtype. 0 compares bit for bit,
        except that any NaN equals any NaN.
    where : str
        What is compared, for the message.

    Notes
    -----
    Where NumPy gives a scalar, ours may be the NumPy scalar or anything whose `__class__` reports that scalar's type.
    Signed zeros and positions of NaN and infinity are compared exactly whatever `ulp` is. Exceptions are equal when
    their nearest public types are; messages may differ.
    """
    if isinstance(numpys, BaseException) or (isinstance(numpys, type) and issubclass(numpys, BaseException)):
        _assert_same_exception(ours, numpys, where)
    elif is_array(numpys):
        assert is_array(ours), f"{where}: NumPy gave an array, ours is {_describe(ours)}"
        _assert_same_elements(ours, numpys, ulp, where)
    elif isinstance(numpys, np.generic):
        assert isinstance(ours, type(numpys)), f"{where}: NumPy gave {_describe(numpys)}, ours is {_describe(ours)}"
        assert not is_array(ours), f"{where}: NumPy gave a scalar, ours is an array"
        _assert_same_elements(ours, numpys, ulp, where)
    elif isinstance(numpys, (list, tuple)):
        assert type(ours) is type(numpys), f"{where}: NumPy gave {_describe(numpys)}, ours is {_describe(ours)}"
        assert len(ours) == len(numpys), f"{where}: NumPy gave {len(numpys)} items, ours has {len(ours)}"
        for i, (our_item, numpy_item) in enumerate(zip(ours, numpys, strict=True)):
            assert_same(our_item, numpy_item, ulp, where=f"{where}[{i}]")
    elif isinstance(numpys, dict):
        assert isinstance(ours, dict), f"{where}: NumPy gave a dict, ours is {_describe(ours)}"
        assert list(ours) == list(numpys), f"{where}: keys {list(ours)}, NumPy's {list(numpys)}"
        for key, numpy_item in numpys.items():
            assert_same(ours[key], numpy_item, ulp, where=f"{where}[{key!r}]")
    else:
        _assert_same_object(ours, numpys, where)


def assert_within(ours: object, numpys: object, bound: object, *, where: str = "") -> None:
    """Raise AssertionError unless `ours` is within an absolute error bound of NumPy's floats.

    Parameters
    ----------
    ours, numpys : array or scalar, float or complex
        The result under test and NumPy's: same kind, dtype, shape and positions of NaN and infinity; the bound holds
        for real and imaginary parts.
    bound : array_like, float
        Largest difference allowed, broadcast to the result. 0 means equal, the sign of a zero free.
    """
    assert is_array(ours) == is_array(numpys), f"{where}: NumPy gave {_describe(numpys)}, ours is {_describe(ours)}"
    a, b = _host(ours, where), _host(numpys, where)
    _assert_same_form(a, b, where)
    if b.dtype.kind == "c":
        assert_within(a.real, b.real, bound, where=f"{where}.real")
        assert_within(a.imag, b.imag, bound, where=f"{where}.imag")
        return
    with np.errstate(all="ignore"):
        distance = np.abs(a.astype(np.float64) - b.astype(np.float64))
    wrong = ~((a == b) | (np.isnan(a) & np.isnan(b)) | (distance <= bound))
    if wrong.any():
        raise AssertionError(_first_wrong(a, b, wrong, f"{where}: beyond the bound {np.max(bound)}"))


def outcome(function: Callable[[Any], object], xp: ModuleType | object) -> object:
    """Return what `function(xp)` returns, or the exception it raises."""
    try:
        return function(xp)
    except Exception as error:  # noqa: BLE001 - the exception is the outcome
        # The traceback would keep every array of the failed call alive.
        return error.with_traceback(None)


def same_outcome(
    function: Callable[[Any], object], xp_a: ModuleType | object, xp_b: ModuleType | object, ulp: float = 0
) -> tuple[object, object]:
    """Run one function under two namespaces, assert that the outcomes are the same, and return both.

    Parameters
    ----------
    function : callable(xp)
        The body of the test.
    xp_a, xp_b : namespace
        The one under test, and NumPy.
    ulp : float
        As in `assert_same`.

    Returns
    -------
    tuple
        Both outcomes: values, or exception instances.
    """
    a, b = outcome(function, xp_a), outcome(function, xp_b)
    raised = a if isinstance(a, BaseException) else None
    if raised is not None and not isinstance(b, BaseException):
        message = f"ours raised {_describe(a)}, NumPy gave {_describe(b)}"
        raise AssertionError(message) from raised
    assert_same(a, b, ulp)
    return a, b


def _describe(value: object) -> str:
    text = f"{value!r}"
    return f"{type(value).__name__} {text if len(text) < 200 else text[:200] + '...'}"


def _host(value: object, where: str) -> np.ndarray:
    # A copy: an array that is looked at stays where it is.
    host = np.asarray(value) if isinstance(value, np.generic) else value.__array__(copy=True)
    assert host.dtype == value.dtype, f"{where}: says dtype {value.dtype}, its bytes are {host.dtype}"
    assert host.shape == value.shape, f"{where}: says shape {value.shape}, its bytes have {host.shape}"
    return host


def _assert_same_form(a: np.ndarray, b: np.ndarray, where: str) -> None:
    assert a.dtype == b.dtype, f"{where}: dtype {a.dtype}, NumPy's {b.dtype}"
    assert a.shape == b.shape, f"{where}: shape {a.shape}, NumPy's {b.shape}"


def _assert_same_elements(ours: object, numpys: object, ulp: float, where: str) -> None:
    a, b = _host(ours, where), _host(numpys, where)
    _assert_same_form(a, b, where)
    kind = b.dtype.kind
    if kind != "O" and a.tobytes() == b.tobytes():
        return
    if kind == "V" and b.dtype.names:
        for name in b.dtype.names:
            _assert_same_elements(a[name], b[name], ulp, f"{where}.{name}")
    elif kind == "O":
        assert_same(a.ravel().tolist(), b.ravel().tolist(), ulp, where=where)
    else:
        wrong = _wrong_complex(a, b, ulp) if kind == "c" else _wrong(a, b, ulp)
        if wrong.any():
            raise AssertionError(_first_wrong(a, b, wrong, where))


def _wrong_complex(a: np.ndarray, b: np.ndarray, ulp: float) -> np.ndarray:
    return _wrong(a.real, b.real, ulp) | _wrong(a.imag, b.imag, ulp)


def _wrong(a: np.ndarray, b: np.ndarray, ulp: float) -> np.ndarray:
    if b.dtype.kind in "mM":
        return ~((a == b) | (np.isnat(a) & np.isnat(b)))
    if b.dtype.kind != "f":
        return np.asarray(a != b)
    # Equal value and equal sign are equal bits for every float that is not a NaN.
    same = (a == b) & (np.signbit(a) == np.signbit(b)) | (np.isnan(a) & np.isnan(b))
    if ulp and not same.all():
        same |= np.isfinite(a) & np.isfinite(b) & (_ulps(a, b) <= ulp) & (np.signbit(a) == np.signbit(b))
    return np.asarray(~same)


def _ulps(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Count the floats between two arrays (longdouble, which has no integer of its size, in spacings)."""
    if b.dtype.itemsize not in INTEGER_OF_SIZE:
        return np.abs(a - b) / np.spacing(np.abs(b))
    integer = INTEGER_OF_SIZE[b.dtype.itemsize]
    # Magnitude bits count floats away from zero; signs are compared by the caller.
    magnitude = [np.abs(x).view(integer) for x in (np.atleast_1d(a), np.atleast_1d(b))]
    return np.abs(magnitude[0] - magnitude[1]).astype(np.float64).reshape(b.shape)


def _first_wrong(a: np.ndarray, b: np.ndarray, wrong: np.ndarray, where: str) -> str:
    index = tuple(int(i[0]) for i in np.nonzero(np.atleast_1d(wrong)))
    ours, numpys = np.atleast_1d(a)[index], np.atleast_1d(b)[index]
    count = f"{np.count_nonzero(wrong)} of {b.size} elements differ, first"
    return f"{where}: {count} {index if b.ndim else ()}: ours {ours!r}, NumPy's {numpys!r} ({b.dtype}, {b.shape})"


def _assert_same_object(ours: object, numpys: object, where: str) -> None:
    assert type(ours) is type(numpys), f"{where}: NumPy gave {_describe(numpys)}, ours is {_describe(ours)}"
    if isinstance(numpys, float):
        same = (math.isnan(ours) and math.isnan(numpys)) or (
            ours == numpys and math.copysign(1, ours) == math.copysign(1, numpys)
        )
    elif isinstance(numpys, complex):
        assert_same([ours.real, ours.imag], [numpys.real, numpys.imag], where=where)
        return
    else:
        same = bool(ours == numpys)
    assert same, f"{where}: ours {_describe(ours)}, NumPy's {_describe(numpys)}"


def _assert_same_exception(ours: object, numpys: BaseException | type[BaseException], where: str) -> None:
    expected = numpys if isinstance(numpys, type) else type(numpys)
    given = ours if isinstance(ours, type) else type(ours)
    assert issubclass(given, BaseException), f"{where}: NumPy raised {expected.__name__}, ours gave {_describe(ours)}"
    assert public_type(given) is public_type(expected), (
        f"{where}: NumPy raised {public_type(expected).__name__}, ours {given.__name__}: {ours}"
    )
