"""The user's line: warnings that name it, and NumPy called as if from there.

NumPy's warnings name the line that called NumPy (`stacklevel`), and Python's filters go by that line's module and by
what was shown there before. Where this package calls NumPy, that line is the user's all the same.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import CodeType, FrameType, FunctionType
from typing import Any

# Packages whose frames are not the user's: ours, those that call us, and what their decorators go through.
_NOT_THE_USERS = {"oxinp", "numpy", "scipy", "contextlib"}

_IS_PASSED: dict[Any, bool] = {}
"""Names of modules whose frames have been met, and whether those are passed over."""

MAX_KEPT = 1 << 12


def user_frame() -> FrameType:
    """Return the innermost frame that is the user's: neither oxinp's nor NumPy's or SciPy's."""
    frame = sys._getframe(1)
    while True:
        is_ours = _IS_PASSED.get(frame.f_globals.get("__name__"))  # `is_passed`, spelled out
        if is_ours is None:
            is_ours = is_passed(frame)
        if not is_ours or (outer := frame.f_back) is None:
            return frame
        frame = outer


def is_passed(frame: FrameType) -> bool:
    """Return whether a frame is not the user's."""
    name = frame.f_globals.get("__name__")
    found = _IS_PASSED.get(name)
    if found is None:
        if len(_IS_PASSED) >= MAX_KEPT:
            _IS_PASSED.clear()
        # A package's tests are programs like any other.
        found = _IS_PASSED[name] = str(name).partition(".")[0] in _NOT_THE_USERS and ".tests." not in str(name)
    return found


class Line:
    """A line of the user's, as warnings need it; it keeps none of the frame's variables.

    Parameters
    ----------
    frame : frame

    Attributes
    ----------
    file : str
    number : int
    """

    __slots__ = ("_module", "_registry", "file", "number")

    def __init__(self, frame: FrameType) -> None:
        names = frame.f_globals
        self.file = frame.f_code.co_filename
        self.number = frame.f_lineno
        self._module = str(names.get("__name__") or "<string>")
        self._registry: dict[Any, Any] = names.setdefault("__warningregistry__", {})

    def warn(self, message: str, category: type[Warning]) -> None:
        """Warn as code on this line does by `warnings.warn`."""
        warnings.warn_explicit(message, category, self.file, self.number, self._module, self._registry)

    def __str__(self) -> str:
        return f"line {self.number} of {self.file}"


def warn(message: str, category: type[Warning]) -> None:
    """Warn as the user's line does by `warnings.warn`."""
    Line(user_frame()).warn(message, category)


# -- NumPy, called as if from the user's line --------------------------------------------------------------------------


def _without_columns(code: CodeType) -> CodeType:
    """Return code all of which is on its first line, at no column: tracebacks then underline nothing there."""
    left = len(code.co_code) // 2
    table = bytearray()
    while left > 0:  # Objects/locations.md of CPython: an entry for up to 8 units, its code 13, a line's distance of 0
        count = min(left, 8)
        table += bytes([0x80 | 13 << 3 | count - 1, 0])
        left -= count
    return code.replace(co_linetable=bytes(table))


_CALL = _without_columns((lambda function, args, kwargs: function(*args, **kwargs)).__code__)
_CALLS: dict[int, tuple[CodeType, CodeType]] = {}
"""The code of a user's function, by its identity and an instruction there, and `_CALL` on that line."""


def is_stand_in(code: CodeType) -> bool:
    """Return whether code is not the user's, as it says, but what `call_as_user` runs."""
    return code.co_linetable == _CALL.co_linetable and code.co_code == _CALL.co_code


def call_as_user(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call a function from a frame that says it is the user's: what that function warns of names the user's line."""
    frame = user_frame()
    code = frame.f_code
    key = id(code) + frame.f_lasti  # hashing code takes as long as the rest
    known = _CALLS.get(key)
    if known is None or known[0] is not code:
        if len(_CALLS) >= MAX_KEPT:
            _CALLS.clear()
        call = _CALL.replace(co_filename=code.co_filename, co_firstlineno=frame.f_lineno, co_name=code.co_name)
        known = _CALLS[key] = code, call
    return FunctionType(known[1], frame.f_globals)(function, args, kwargs)


__all__ = ["Line", "call_as_user", "is_passed", "is_stand_in", "user_frame", "warn"]
