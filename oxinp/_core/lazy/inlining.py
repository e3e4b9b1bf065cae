"""Inlining: hot paths of arrays that are small and on the host, whose common steps are spelled out where they are used.

A call of a Python function takes a fifth of what NumPy takes for an operator on a small array. So the steps that these
paths are made of are macros: text in which each of them is a line is expanded and compiled once, to a function that
makes the path of a row.

A path computes what it is sure of, and leaves everything else to the general way, which its ``else`` says.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable, Iterator
from itertools import repeat, starmap
from math import copysign
from typing import Any
from weakref import ref

import numpy as np

from oxinp._config import config
from oxinp._core.errors.hearing import current, default, raise_own, run
from oxinp._core.lazy.balance import RECORD, balance, is_sampled
from oxinp._core.lazy.code_cache import CodeCache
from oxinp._core.lazy.explain import REPORTS
from oxinp._core.lazy.handle import end_writing, host_view
from oxinp._core.memory.storage import SHARED, WRITING, Storage

MACROS = {
    # NumPy's array of one of ours that is on the host, and whose elements are no Python objects.
    r"(\w+) = seen\((\w+)\) else (.+)": r"""
\1 = \2._seen
held = \2._held
if held is not None:
    host = held.host
    if host is None or held.has_objects:
        \3
    if \2._host is not host:
        \1 = host_view(\2)
""",
    # The storage of one of ours.
    r"(\w+) = stored\((\w+)\)": r"""
\1 = \2._held
if \1 is None:
    \1 = Storage()  # `make_storage`, spelled out
    \1.has_objects = False
    \1.value = \1.stale = None
    \1.host = \2._seen
    if \2._held is None:  # no other thread runs between this and the assignment, since nothing is called
        \2._held = \1
    \1 = \2._held
""",
    # Ours of a new array of NumPy's; scalars are NumPy's own.
    r"return wrapped\((\w+)\)": r"""
if type(\1) is not NumpyArray:
    return \1
made = next(bare)
made._held = made._known = made._view = None
made._host = made._seen = \1
return made
""",
    # Ours of a view of what one of ours, no user's class, sees on the host; `storage` is its own.
    r"return part\((\w+)\) of (\w+)": r"""
view = next(bare)
view._held = storage
view._known = None
view._host = host
view._seen = \1
whole = \2._view
view._view = (\2, True) if whole is None else whole if type(whole[0]) is ndarray else (\2, whole[1])
return view
""",
    # A number as NumPy's array of one element, which takes half the time, where that means the same.
    r"(\w+) = constant\((\w+), (\w+)\)": r"""
\1 = \2
dtype = \3.dtype
if dtype is FLOAT64:
    if \2:
        \1 = FLOATS.get(\2)
        if \1 is None:
            \1 = \2
            if len(FLOATS) < MAX_CONSTANTS:
                FLOATS[\2] = np.array(\2, FLOAT64)
    else:
        \1 = ZEROS[copysign(1.0, \2)]
elif dtype is INT64 and kind is int:
    \1 = INTEGERS.get(\2)
    if \1 is None:
        \1 = \2
        if len(INTEGERS) < MAX_CONSTANTS:
            INTEGERS[\2] = np.array(\2, INT64)
""",
    # A statement that writes to what a storage holds on the host alone.
    r"write '(.+)' to (\w+) and return (\w+)": r"""
if \2.host is host and \2.stale is None and \2.value is None:
    \2.stale = WRITING  # no other thread has run since the last three conditions
    try:
        \1
        return \3
    finally:
        if \2.stale is WRITING:  # `end_writing`, spelled out
            \2.stale = None
        else:
            end_writing(\2)
""",
}
CALLS = {
    # A call of NumPy's that warns of nothing, and one that writes.
    r"(\w+) = called\((\w+), (.+)\) else (.+)": r"\1 = \2(\3)",
    r"write called\((\w+), (.+)\) to (\w+) and return (\w+)": r"write '\1(\2)' to \3 and return \4",
}
WARNING_CALLS = {
    # A call whose warnings name the user's line.
    r"(\w+) = called\((\w+), (.+)\) else (.+)": r"""
if current() is not default:
    \4
try:
    \1 = run(\2, \3)
except RuntimeError as error:
    raise_own(error)
    \4
""",
    r"write called\((\w+), (.+)\) to (\w+) and return (\w+)": r"""
if current() is default and \3.host is host and \3.stale is None and \3.value is None:
    \3.stale = WRITING  # no other thread has run since the last three conditions
    try:
        run(\1, \2)
        return \4
    except RuntimeError as error:
        raise_own(error)
    finally:
        if \3.stale is WRITING:  # `end_writing`, spelled out
            \3.stale = None
        else:
            end_writing(\3)
""",
}

# What the expanded text refers to.
NumpyArray = np.ndarray
OBJECT, FLOAT64, INT64 = (np.dtype(kind) for kind in (object, np.float64, np.int64))
MAX_CONSTANTS = 256
"""Numbers that are kept; in programs in which more of them meet arrays, the others are converted each time."""
FLOATS: dict[float, np.ndarray[Any, Any]] = {}
INTEGERS: dict[int, np.ndarray[Any, Any]] = {}
ZEROS = {sign: np.array(copysign(0.0, sign)) for sign in (1.0, -1.0)}
NUMBERS = frozenset({*np.sctypeDict.values()} - {np.object_, np.void, np.str_, np.bytes_})  # NumPy's own
PLAIN_INT = 2**31 - 1  # integers that most integer dtypes hold
MISSING = object()  # an argument that is not given
ndarray: Any = None  # ours, entered where it is defined, and instances without attributes
bare: Iterator[Any] = iter(())


def enter(kind: type) -> None:
    """Let results be of a class, that of arrays; called once."""
    global ndarray, bare
    ndarray = kind
    # Which makes no tuple of arguments for each, as a call of `object.__new__` does.
    bare = starmap(object.__new__, repeat((kind,)))


def takes(nbytes: int, reach: int) -> bool:
    """Whether what would be the device's belongs on the host by what has been learned; elements cost `reach` / 16."""
    return balance.takes(nbytes, reach / 16, RECORD)


def _patterns(macros: dict[str, str]) -> list[tuple[re.Pattern[str], list[str]]]:
    """Return what finds each macro's lines, and its lines with places for the groups; group 0 is the indentation."""
    return [
        (re.compile(f"( *){pattern}"), re.sub(r"\\(\d)", r"{\1}", body.strip("\n")).split("\n"))
        for pattern, body in macros.items()
    ]


_PATTERNS = [_patterns(calls | MACROS) for calls in (CALLS, WARNING_CALLS)]
_IS_MACRO = re.compile(r"(stored|seen|wrapped|part|constant|called)\(|write '").search  # most lines are none


def expanded(text: str, *, may_warn: bool) -> str:
    """Return text with its macros spelled out.

    Parameters
    ----------
    text : str
    may_warn : bool
        Whether what is called warns of elements.
    """
    lines = text.split("\n")
    for pattern, body in _PATTERNS[may_warn]:
        spelled: list[str] = []
        for line in lines:
            match = pattern.fullmatch(line) if _IS_MACRO(line) else None
            spelled += [match[1] + each.format(*match.groups()) for each in body] if match else [line]
        lines = spelled
    return "\n".join(lines)


_CODES = CodeCache(__file__)


def compiled(name: str, text: str, *, may_warn: bool = False) -> Callable[..., Any]:
    """Return the function ``make`` of a text with macros.

    Parameters
    ----------
    name : str
        What tracebacks call the text.
    text : str
        The definition of ``make``, which may refer to the names of this module.
    may_warn : bool
        Whether what is called warns of elements.
    """
    file = f"{__file__[:-3]}: {name}"  # in our folder, as what tells our lines from the user's asks
    source, code = _CODES.code_of(file, text, may_warn=may_warn, expand=lambda: expanded(text, may_warn=may_warn))
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    made: dict[str, Any] = {}
    exec(code, globals(), made)  # noqa: S102 - our own text
    return made["make"]  # type: ignore[no-any-return]


__all__ = [
    "REPORTS",
    "SHARED",
    "WRITING",
    "Storage",
    "balance",
    "compiled",
    "config",
    "current",
    "default",
    "end_writing",
    "host_view",
    "is_sampled",
    "raise_own",
    "ref",
    "run",
    "takes",
]
