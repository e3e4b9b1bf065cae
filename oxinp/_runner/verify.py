"""``--verify``: NumPy beside the program, and the first line whose results differ.

Each operation that the program calls is called a second time, on NumPy's arrays. A line begins with NumPy's arrays
equal to ours (see `shadow`); when the program goes on to another line, what the line made or wrote is compared, and the
next line begins equal again. So a line is judged by what it does itself, rounding does not pile up over the program,
and lazy evaluation stays as it is within a line. What cannot be called twice (a function of the user's, a file, an
iterator) is called once; what it gives is taken as it is, and the operations inside the user's function are compared.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import linecache
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import numpy as np

from oxinp._config import config
from oxinp._core.host import sharing
from oxinp._core.host.exchange import PLAIN
from oxinp._core.host.fallback import FallbackError
from oxinp._core.lazy.handle import Handle
from oxinp._core.lazy.results import is_device_scalar, types
from oxinp._core.memory.storage import Storage
from oxinp._core.subclass import SUBCLASSES, overrides
from oxinp._core.ufunc.objects import ufunc
from oxinp._runner import compare, program, twins
from oxinp._runner.finder import find_frame
from oxinp._runner.shadow import Place, Shadows, Unchecked
from oxinp._runtime import select
from oxinp._runtime.forking import free_in_children

__all__ = ["Verification", "start"]

Function = Callable[..., Any]
_PUBLIC = ("builtins", "numpy.exceptions", "numpy.linalg")
_PASSED = (bool, int, float, complex, str, bytes, range, np.generic, np.dtype, type, np.ufunc)
_PROTOCOLS = ("__array_function__", "__array_ufunc__", "__array_wrap__")
# Not the operation's own: the program is to see them and go on.
_NOT_COMPARED = (FallbackError, MemoryError, NotImplementedError)


def start(rtol: str) -> None:
    """Verify the program from now on.

    Parameters
    ----------
    rtol : str
        How far floats may be from NumPy's, relative to them; "" for half of their dtype's digits.

    Raises
    ------
    ValueError
        It is no positive number.
    """
    value = None if rtol == "" else float(rtol)
    if value is not None and not 0 <= value < 1:
        raise ValueError(f"{rtol} is no tolerance between 0 and 1")
    if select.current() is None:
        sys.stderr.write(
            "verify: without a GPU it is NumPy that computes, and what is compared with NumPy is oxinp's way there; "
            "--backend emulator compares the kernels\n"
        )
    config.adaptive_placement = False  # or what is read to be compared would count as what the program waits for
    verification = Verification(value)
    twins.install(verification.call)
    sharing.before_lending.append(verification.before_lending)
    program.at_end.append(verification.finish)


class _State(threading.local):
    """Where a thread of the program is."""

    def __init__(self) -> None:
        self.is_inside = False
        self.place: Place = ("", 0)
        self.frame_id = 0
        self.instruction = -1


class Verification:
    """The comparison of one program with NumPy.

    Parameters
    ----------
    rtol : float or None
        See `start`.
    """

    def __init__(self, rtol: float | None) -> None:
        self._rtol = rtol
        self._state = _State()
        self._shadows = Shadows()
        self._lock = free_in_children(threading.RLock())  # for what threads do to an array that they share
        self._lines: set[tuple[str, int]] = set()
        self._num_results = 0
        self._furthest = compare.Distance(False)
        self._furthest_place = ("", 0)
        self._is_wrong = False

    def call(self, ours: Function, numpys: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function of ours, and NumPy's on the shadows; return, or raise, what ours does."""
        state = self._state
        if state.is_inside:
            return ours(*args, **kwargs)
        if self._is_wrong:
            sys.exit(1)
        frame = find_frame(sys._getframe(2))
        if frame is None:
            return ours(*args, **kwargs)
        with self._lock:
            if self._is_another_line(frame):
                self._settle(frame)
                state.place, state.frame_id = (frame.f_code.co_filename, frame.f_lineno), id(frame)
            state.instruction = frame.f_lasti
            if numpys is twins.shown:
                self._shadows.hold(args[0]._storage)
                return ours(*args, **kwargs)
            state.is_inside = True
            try:
                given = None if numpys is twins.once else self._given(args, kwargs)
                if given is not None:
                    result = self._call_both(ours, numpys, args, kwargs, given)
                    self._settle_those(self._shadows.pop_lent(), frame)
                    return result
            finally:
                state.is_inside = False
        # Without the lock: a function of the user's may wait for another thread.
        return self._call_once(ours, args, kwargs)

    def before_lending(self, handle: Handle) -> None:
        """Compare an array before others get its elements, who may write to them after, unseen."""
        if self._state.is_inside or self._is_wrong:
            return
        # A buffer is asked for by code in C, which would hide the end of the program: the next operation ends it.
        with self._lock, contextlib.suppress(SystemExit):
            self._state.is_inside = True
            try:
                self._settle_those(self._shadows.pop(handle._storage), find_frame(sys._getframe(1)))
            finally:
                self._state.is_inside = False

    def _given(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Given | None:
        """Return what NumPy gets for a call's arguments; None where there is nothing that it could get."""
        given = _Given(self._shadows, self._state.place)
        try:
            given.give_all(args, kwargs)
        except Unchecked:
            return None
        return given

    def finish(self) -> None:
        """Compare what the last line did; say how the program went, and end with 1 if a line differed."""
        if not self._is_wrong:
            self._settle(None)
        if self._is_wrong:
            sys.exit(1)
        size = self._furthest
        text = f"verify: {self._num_results} results of {len(self._lines)} lines agree with NumPy's"
        if size.relative:
            file, number = self._furthest_place
            text += f"; largest difference: {size.relative:.2g} relative, {size.ulp:.2g} ulp, at {file}:{number}"
        sys.stderr.write(text + "\n")

    def _is_another_line(self, frame: FrameType) -> bool:
        state = self._state
        is_same = id(frame) == state.frame_id and state.place == (frame.f_code.co_filename, frame.f_lineno)
        return not is_same or frame.f_lasti <= state.instruction  # a loop within a line

    def _call_once(self, ours: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call what has no twin; what it may have written is taken as it is."""
        try:
            return ours(*args, **kwargs)
        finally:
            for handle in _handles((args, kwargs)):
                self._shadows.drop(handle._storage)

    def _call_both(
        self, ours: Function, numpys: Function, args: tuple[Any, ...], kwargs: dict[str, Any], given: _Given
    ) -> Any:
        error = numpy_error = our_result = numpy_result = None
        try:
            our_result = ours(*args, **kwargs)
        except _NOT_COMPARED:
            for handle in _handles((args, kwargs)):
                self._shadows.drop(handle._storage)
            raise
        except Exception as raised:  # noqa: BLE001 - whatever it is, it is compared and raised again
            error = raised
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                numpy_result = numpys(*given.args, **given.kwargs)
        except Unchecked:
            if error is not None:
                raise error from None
            return our_result
        except Exception as raised:  # noqa: BLE001
            numpy_error = raised
        if error is not None or numpy_error is not None:
            self._compare_errors(error, numpy_error)
            if error is not None:
                raise error
            return our_result
        operands = given.arrays()
        # What is written in place is an operand.
        slacks = [compare.rounding(operands, each) for each in operands]
        self._shadows.slack = max([self._shadows.slack, *slacks])
        self._compare(our_result, numpy_result, operands)
        for theirs, copied in given.theirs:
            self._compare_arrays(theirs, copied, compare.rounding(operands, copied))
        return our_result

    # -- comparing -----------------------------------------------------------------------------------------------------

    def _compare_errors(self, error: Exception | None, numpy_error: Exception | None) -> None:
        if isinstance(numpy_error, FloatingPointError):
            return  # `errstate`: ours are raised later, or not at all
        if _public(error) is not _public(numpy_error):
            said = [f"raises {type(e).__name__}: {e}" if e else "raises nothing" for e in (error, numpy_error)]
            self._report(f"oxinp {said[0]}; NumPy {said[1]}")

    def _compare(self, ours: Any, numpys: Any, operands: list[Any]) -> None:
        if ours is NotImplemented or numpys is NotImplemented:
            return
        if isinstance(ours, Handle):
            self._compare_handle(ours, numpys, operands)
        elif isinstance(ours, np.ndarray | np.generic | bool | int | float | complex):
            if not isinstance(numpys, np.ndarray | np.generic | bool | int | float | complex):
                self._report(f"oxinp gives {type(ours).__name__}, NumPy {type(numpys).__name__}")
            given = np.asarray(numpys)
            if not given.dtype.hasobject:
                self._compare_arrays(np.asarray(ours), given, compare.rounding(operands, given))
        elif isinstance(ours, list | tuple) and isinstance(numpys, list | tuple):
            if len(ours) != len(numpys):
                self._report(f"oxinp gives {len(ours)} results, NumPy {len(numpys)}")
            for one, other in zip(ours, numpys, strict=False):
                self._compare(one, other, operands)
        elif isinstance(ours, str | bytes | np.dtype) and ours != numpys:
            self._report(f"oxinp gives {ours!r}, NumPy {numpys!r}")

    def _compare_handle(self, ours: Any, numpys: Any, operands: list[Any]) -> None:
        is_scalar = is_device_scalar(ours)
        if not isinstance(numpys, np.generic if is_scalar else np.ndarray):
            kinds = "a scalar" if is_scalar else "an array", type(numpys).__name__
            self._report(f"oxinp gives {kinds[0]}, NumPy {kinds[1]}")
        layout, given = ours._layout, np.asarray(numpys)
        if layout.dtype != given.dtype or layout.shape != given.shape:
            self._report(f"oxinp gives {layout.dtype} {layout.shape}, NumPy {given.dtype} {given.shape}")
        self._shadows.slack = max(self._shadows.slack, compare.rounding(operands, given))
        known = self._shadows.find(ours._storage)
        if known is not None:
            if layout.size and not np.may_share_memory(given, known.memory):
                self._report("oxinp gives a view of an argument, NumPy a copy")
            return
        if given.size and self._shadows.overlaps(given):
            self._report("oxinp gives a copy of an argument, NumPy a view")
        with contextlib.suppress(Unchecked):
            self._shadows.add(ours, numpys, self._state.place)

    def _compare_arrays(
        self, ours: Any, numpys: Any, slack: float, place: Place | None = None, name: Any = str
    ) -> None:
        self._num_results += 1
        place = place or self._state.place
        found = compare.distance(ours, numpys, self._rtol, slack)
        if found.is_wrong:
            self._report(found.message, place, name())
        if found.relative > self._furthest.relative:
            self._furthest, self._furthest_place = found, place

    def _settle(self, frame: FrameType | None) -> None:
        """Compare what the line that has ended made and wrote; the program is in `frame` now."""
        state = self._state
        state.is_inside = True
        try:
            self._settle_those(self._shadows.take(), frame)
        finally:
            state.is_inside = False
        self._shadows.slack = 0.0
        if state.place[1]:
            self._lines.add(state.place)
        state.instruction = -1

    def _settle_those(self, found: list[tuple[Storage, Any, Any, Place]], frame: FrameType | None) -> None:
        """Compare what storages hold here and in NumPy."""
        for storage, ours, numpys, place in found:
            allowed = max(self._shadows.slack, compare.rounding([], numpys))
            self._compare_arrays(ours, numpys, allowed, place, functools.partial(_name_of, storage, frame))
            self._lines.add(place)

    def _report(self, message: str, place: Place | None = None, name: str = "") -> None:
        """Say which line differs, and end the program."""
        file, number = place or self._state.place
        source = linecache.getline(file, number).strip()
        text = f"verify: {file}:{number}: {source}\n  {name + ': ' if name else ''}{message}\n"
        sys.stdout.flush()
        sys.stderr.write(text)
        self._is_wrong = True
        sys.exit(1)


class _Subclass(np.ndarray):
    """Stands for the program's classes: what their own methods compute is compared operation by operation."""


class _Given:
    """The arguments of one call, as NumPy gets them.

    Attributes
    ----------
    args, kwargs
        What stands for them.
    theirs : list of (numpy.ndarray, numpy.ndarray)
        The program's own NumPy arrays among them, and the copies that NumPy may write to instead.
    """

    def __init__(self, shadows: Shadows, place: Place) -> None:
        self.args: list[Any] = []
        self.kwargs: dict[str, Any] = {}
        self.theirs: list[tuple[Any, Any]] = []
        self._shadows = shadows
        self._place = place
        self._arrays: dict[int, Any] = {}

    def arrays(self) -> list[Any]:
        """Return the arrays that stand for ours, and the program's own."""
        return [*map(np.asarray, self._arrays.values()), *[copied for _, copied in self.theirs]]

    def give_all(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Find what stands for all arguments; raises Unchecked where nothing can."""
        self.args = [self.give(value) for value in args]
        self.kwargs = {name: self.give(value) for name, value in kwargs.items()}

    def give(self, value: Any) -> Any:
        """Return what stands for a value; raises Unchecked where nothing can."""
        kind = type(value)
        if kind in PLAIN or value is NotImplemented:
            return value
        if isinstance(value, Handle):
            if kind in SUBCLASSES and any(overrides(kind, name) for name in _PROTOCOLS):
                raise Unchecked  # what it computes is the program's business, by operations that are compared
            array = self._arrays.get(id(value))
            if array is None:
                array = self._shadows.view(value, self._place)
                array = self._arrays[id(value)] = array.view(_Subclass) if kind in SUBCLASSES else array
            return array
        if isinstance(value, np.random.Generator):
            return np.random.Generator(copy.deepcopy(value.bit_generator))
        if isinstance(value, np.random.RandomState):
            twin = np.random.RandomState()
            twin.set_state(value.get_state())
            return twin
        if isinstance(value, ufunc) and not isinstance(value, np.ufunc):
            return value._row.numpy
        if isinstance(value, type) and issubclass(value, types.ndarray):
            return np.ndarray if value is types.ndarray else _Subclass
        if isinstance(value, np.ndarray):
            if value.dtype.hasobject or isinstance(value, np.memmap | np.ma.MaskedArray):
                raise Unchecked
            self.theirs.append((value, value.copy(order="K")))
            return self.theirs[-1][1]
        if kind in (list, tuple):
            return kind([self.give(each) for each in value])
        if kind is dict:
            return {name: self.give(each) for name, each in value.items()}
        if kind in (set, frozenset) and {type(each) for each in value} <= PLAIN | {type}:
            return value
        if isinstance(value, _PASSED) or (getattr(value, "__module__", None) or "").startswith("numpy"):
            return value
        raise Unchecked


def _handles(value: Any) -> Iterator[Handle]:
    """Give the arrays of ours in arguments."""
    if isinstance(value, Handle):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _handles(each)
    elif type(value) is dict:
        yield from _handles(list(value.values()))


def _public(error: Exception | None) -> type[BaseException] | None:
    """Return what a program can name in its `except`."""
    return None if error is None else next(base for base in type(error).__mro__ if base.__module__ in _PUBLIC)


def _name_of(storage: Storage, frame: FrameType | None) -> str:
    """Return what the program calls an array, where its next line sees it."""
    scopes = []
    while frame is not None:
        scopes.append(frame.f_locals)
        frame = find_frame(frame.f_back)
    for scope in (*scopes, vars(sys.modules["__main__"])):
        for name, value in scope.items():
            if isinstance(value, Handle) and value._storage is storage:
                return str(name)
    return ""
