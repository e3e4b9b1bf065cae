"""What drawn programs use beside arrays: classes with a say of their own, threads, SciPy, the host.

The same objects under NumPy and under what is held against it; `xp` is the program's `np`.
"""

import contextvars
import functools
import importlib
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy  # noqa: ICN001 - np is what the programs call theirs

from tests.turns import taking_turns

ARRAY_CLASSES = ("Tagged", "matrix", "MaskedArray", "memmap", "recarray")


class Declining:
    """Takes part in no ufunc: Python asks its reflected operators."""

    __array_ufunc__ = None

    def __radd__(self, other: Any) -> tuple[str, tuple[int, ...]]:
        return "radd", numpy.shape(other)

    def __rmul__(self, other: Any) -> tuple[str, tuple[int, ...]]:
        return "rmul", numpy.shape(other)

    def __gt__(self, other: Any) -> tuple[str, tuple[int, ...]]:  # type: ignore[override]
        return "gt", numpy.shape(other)


class Prior:
    """Goes before arrays in operators, by the older protocol."""

    __array_priority__ = 1000.0

    def __add__(self, other: Any) -> tuple[str, tuple[int, ...]]:
        return "add", numpy.shape(other)

    def __radd__(self, other: Any) -> tuple[str, tuple[int, ...]]:
        return "radd", numpy.shape(other)

    def __rsub__(self, other: Any) -> tuple[str, tuple[int, ...]]:
        return "rsub", numpy.shape(other)


class Overriding:
    """Tells what it was asked to compute, by both protocols."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        outs = options.get("out", ())
        return ufunc.__name__, method, [numpy.shape(x) for x in (*inputs, *outs) if x is not self], sorted(options)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        return function.__name__, len(types), len(args), sorted(options)


class Wrapping(numpy.lib.mixins.NDArrayOperatorsMixin):
    """An array in a wrapper: computes on what it wraps, as NumPy's documentation has it.

    Parameters
    ----------
    array : numpy.ndarray
    """

    def __init__(self, array: Any) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return numpy.array(self.array, dtype=dtype, copy=copy)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        given = [x.array if isinstance(x, Wrapping) else numpy.asarray(x) for x in inputs]
        if "out" in options:
            options["out"] = tuple(x.array if isinstance(x, Wrapping) else x for x in options["out"])
        result = getattr(ufunc, method)(*given, **options)
        return Wrapping(result) if hasattr(result, "__array__") and numpy.ndim(result) else result


class Arrayed:
    """Has nothing but ``__array__``.

    Parameters
    ----------
    array : numpy.ndarray
    """

    def __init__(self, array: Any) -> None:
        self._array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return numpy.array(self._array, dtype=dtype, copy=copy)


class Interfaced:
    """Has nothing but ``__array_interface__``.

    Parameters
    ----------
    array : numpy.ndarray
    """

    def __init__(self, array: Any) -> None:
        self._array = array
        self.__array_interface__ = array.__array_interface__


class Listed(Sequence):
    """A sequence that is no list.

    Parameters
    ----------
    array : numpy.ndarray
    """

    def __init__(self, array: Any) -> None:
        self._items = array.tolist()

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: Any) -> Any:
        return self._items[index]


@functools.cache
def tagged(xp: Any) -> Any:
    """Return a user's class of arrays with an attribute, over the arrays of a namespace."""

    class Tagged(xp.ndarray):
        def __array_finalize__(self, source: Any) -> None:
            if source is not None:
                self.tag = getattr(source, "tag", 0) + 1

    return Tagged


def described(value: Any) -> Any:
    """Return what is compared of a result of any class: the name of the class, and the elements."""
    name = value.__class__.__name__
    if isinstance(value, numpy.ma.MaskedArray):
        return name, numpy.array(numpy.ma.getmaskarray(value)), numpy.array(value.filled(0)), str(value.fill_value)
    if isinstance(value, Wrapping):
        return name, described(value.array)
    if isinstance(value, list | tuple):
        return [described(each) for each in value]
    if hasattr(value, "__array__") and hasattr(value, "shape"):
        elements = numpy.array(value)
        if not issubclass(value.__class__, numpy.generic) and name not in ARRAY_CLASSES:
            name = "ndarray"  # or what stands for it in the namespace
        return name, [described(each) for each in elements.ravel()] if elements.dtype == object else elements
    known = isinstance(value, bool | int | float | complex | str | bytes | None.__class__)
    return (name, value) if known else name


def in_threads(functions: Sequence[Callable[[], Any]]) -> list[Any]:
    """Call functions in a thread each, at once; return their results, or raise what the first of them raised.

    The threads take turns every few bytecodes, not every few operations.
    """
    results: list[Any] = [None] * len(functions)
    errors: list[BaseException | None] = [None] * len(functions)
    begin = threading.Barrier(len(functions))

    def work(i: int) -> None:
        begin.wait()
        try:
            results[i] = functions[i]()
        except Exception as error:  # noqa: BLE001 - told by the thread that waits
            errors[i] = error.with_traceback(None)

    threads = [threading.Thread(target=contextvars.copy_context().run, args=(work, i)) for i in range(len(functions))]
    with taking_turns():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    first = next((error for error in errors if error is not None), None)
    if first is not None:
        raise first
    return results


@contextmanager
def host_mode(xp: Any) -> Iterator[None]:
    """Have arrays made on the host; NumPy's always are."""
    config = getattr(xp, "config", None)
    if config is None:
        yield
        return
    given = config.offload_threshold
    config.offload_threshold = float("inf")
    try:
        yield
    finally:
        config.offload_threshold = given


def scipy(xp: Any, name: str) -> Any:
    """Return SciPy's submodule, that of the namespace where it has its own."""
    own = getattr(xp, "__name__", "") == "oxinp"
    return importlib.import_module(f"{'oxinp.' if own else ''}scipy.{name}")


def given_back(form: Any, q: Any) -> Any:
    """Return the matrix, or the stack of them, that has a form in an orthonormal basis."""
    return q @ form @ q.swapaxes(-1, -2)
