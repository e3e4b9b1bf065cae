"""Inlining: hot paths of arrays that are small and on the host, whose common steps are spelled out where they are used.

A call of a Python function takes a fifth of what NumPy takes for an operator on a small array. So the steps that these
paths are made of are macros: text in which each of them is a line is expanded and compiled once, to a function that
makes the path of a row.

A path computes what it is sure of, and leaves everything else to the general way, which its ``else`` says.

Where an array is known to have few elements (fewer than `SMALL`, on the host when that was found out) and nobody has
asked for its layout yet, its slot `_known` is `FEW`, as false as None: whoever asks for the layout finds it as ever,
and these paths need not ask NumPy for sizes again. Matrices that broadcast, with an axis of length 1, are not marked:
what two arrays make of each other has more elements than either only where one of them is such a matrix. Where there
is nothing but the host by the user's setting, all arrays that are no such matrices are few, and marked in another way.
"""

from __future__ import annotations

import functools
import linecache
import re
from collections.abc import Callable, Mapping
from itertools import repeat, starmap
from math import copysign
from types import MappingProxyType
from typing import Any
from weakref import ref

import numpy as np

from oxinp import _runtime
from oxinp._config import before_change, config
from oxinp._core.errors.hearing import IS_REFUSING, REFUSED, REFUSING, current, default, raise_own, refused, run
from oxinp._core.lazy.balance import HEAVY as HEAVY_WEIGHT
from oxinp._core.lazy.balance import RECORDED, SAMPLED, balance, is_sampled
from oxinp._core.lazy.code_cache import CodeCache
from oxinp._core.lazy.explain import REPORTS
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.handle import NOWHERE, begin_writing, end_writing, host_and_view, host_view
from oxinp._core.lazy.placement import is_light
from oxinp._core.lazy.results import types
from oxinp._core.memory.storage import SHARED, WRITING, Storage

MACROS = {
    # NumPy's array of one of ours that is on the host, and whose elements are no Python objects.
    r"(\w+) = seen\((\w+)\) else (.+)": r"""
\1 = \2._seen
held = \2._held
if \1 is None or (held is not None and \2._host is not held.host):
    if held.host is None or held.has_objects:
        \3
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
    # The same of a result for which the slot `_known` is given: None or `FEW`.
    r"return array_of\((\w+), (.+)\)": r"""
if type(\1) is not NumpyArray:
    return \1
made = next(bare)
made._held = made._view = None
made._known = \2
made._host = made._seen = \1
return made
""",
    # Ours of a new array of NumPy's that is known to be one, and of few elements.
    r"return few_elements\((\w+)\)": r"""
made = next(bare)
made._held = made._view = None
made._known = FEW
made._host = made._seen = \1
return made
""",
    # What is known of one of ours, by its view on the host: `FEW`, or it is small, by what an element costs at most and
    # what else `takes` asks for.
    r"(\w+) = few\((\w+), (\w+)\) by (.+) of (.+) else (.+)": r"""
\1 = \2._known
if \1 is not FEW:
    if \3.size * \4 >= config.offload_threshold and not takes(\3, \4, \5):
        \6
    if \1 is None and \3.size < SMALL and (\3.ndim < 2 or 1 not in \3.shape):
        \2._known = \1 = FEW
    else:
        \1 = None
""",
    # What marks one of ours whose elements are few, by its view on the host.
    r"mark\((\w+), (\w+)\)": r"""
if \1._known is None and \2.size < SMALL and (\2.ndim < 2 or 1 not in \2.shape):
    \1._known = FEW
""",
    # The same where those that are few may not be small.
    r"(\w+) = weighed\((\w+), (\w+)\) by (.+) of (.+) else (.+)": r"""
if \3.size * \4 >= config.offload_threshold and not takes(\3, \4, \5):
    \6
\1 = FEW if \2._known is FEW else None
""",
    # Ours of what one of ours, no user's class, sees on the host at a key; `storage` is its own. By the key we know the
    # statement that assigns the part to where it came from.
    r"return part\((\w+)\) of (\w+) at (\w+), known (.+)": r"""
view = next(bare)
view._held = storage
view._known = \4
view._host = host
view._seen = \1
whole = \2._view
if whole is None:
    view._view = \2
    view._at = \3
elif type(whole) is ndarray:
    view._view = whole
    view._at = NOWHERE
else:
    view._view = (whole[0] if type(whole[0]) is ndarray else \2, whole[1])
return view
""",
    # What is done where a tuple has a part that is no basic index, and what where it has one but for ints and slices.
    r"unless basic\((\w+)\): (.+); unless usual: (.+)": r"""
if len(\1) == 2:
    i, j = \1
    i = type(i)
    j = type(j)
    if (i is not int and i is not slice) or (j is not int and j is not slice):
        if i not in BASIC or j not in BASIC:
            \2
        \3
else:
    for part in \1:
        i = type(part)
        if i is not int and i is not slice:
            if i not in BASIC:
                \2
                break
            \3
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
    # A statement that writes to NumPy's array of one of ours that has no storage, at a key.
    r"write '(.+)' of (\w+), (\w+) at (.+), and return (\w+)": r"""
try:
    \1
    return \5
finally:
    if \2._held is not None:
        outdate(\2, \3, \4)
""",
}
CALLS = {
    # A call of NumPy's that warns of nothing, and one that writes.
    r"(\w+) = (?:called|heard)\((\w+), (.+)\) else (.+)": r"\1 = \2(\3)",
    r"write called\((\w+), (.+)\) to (\w+) and return (\w+)": r"write '\1(\2)' to \3 and return \4",
    # The same to an array that has no storage.
    r"write called\((\w+), (.+)\) of (\w+), (\w+), and return (\w+)": r"write '\1(\2)' of \3, \4 at ..., and return \5",
}
WARNING_CALLS = {
    # A call of a function that Python wrote, whose warnings name the user's line.
    r"(\w+) = heard\((\w+), (.+)\) else (.+)": r"""
if current() is not default:
    \4
try:
    \1 = run(\2, \3)
except RuntimeError as error:
    raise_own(error)
    \4
""",
    # One of NumPy's, in C.
    r"(\w+) = called\((\w+), (.+)\) else (.+)": r"""
while True:
    try:
        \1 = \2(\3)
        break
    except TypeError as error:
        if error.args != REFUSED:
            raise
    with refused(\2, \3):
        \4
"""
    if IS_REFUSING
    else r"\4",
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
    r"write called\((\w+), (.+)\) of (\w+), (\w+), and return (\w+)": r"""
if current() is default:
    try:
        run(\1, \2)
        return \5
    except RuntimeError as error:
        raise_own(error)
    finally:
        if \3._held is not None:
            outdate(\3, \4, ...)
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
new = object.__new__
MISSING = object()  # an argument that is not given
HEAVY = 32
"""Bytes that what an element costs is at most as much as, unless it counts as heavy."""
WEIGHED = int(16 * HEAVY_WEIGHT)
"""The same from which on each operation is weighed, see `balance`; of others some are, for all."""
MOST_FEW = 2048
"""Elements below which arrays are few, where placement is as usual: none is the device's for what is not heavy."""
ALL_FEW = 2**30
"""The same where everything is the host's."""
MARKS = False, ()
"""What `FEW` is as usual, and where everything is the host's: what was few there may be the device's afterwards."""

# What changes, by name: where the texts find it.
_entered: dict[str, Any] = {
    "ndarray": None,  # ours, entered where it is defined,
    "bare": iter(()),  # and instances without attributes
    "FEW": MARKS[0],
    "SMALL": MOST_FEW,
    "is_weighed": is_sampled,  # whether a view of a large array is
    "times_weighed": lambda: SAMPLED,  # and for how many
    "has_code": False,  # whether elements are read by machine code
}
_NAMESPACES: list[dict[str, Any]] = []


def enter(**names: Any) -> None:
    """Let names mean something else to what is compiled here."""
    _entered.update(names)
    for namespace in _NAMESPACES:
        namespace.update(names)


def meaning(name: str) -> Any:
    """Return what a name that changes means at present to what is compiled here."""
    return _entered[name]


def enter_class(kind: type, before_first: Callable[[], object]) -> None:
    """Let results be of a class, that of arrays; called once.

    Parameters
    ----------
    kind : type
    before_first : callable
        Called before the first array is made, for what takes longer than an import should.
    """
    # Which makes no tuple of arguments for each, as a call of `object.__new__` does.
    instances = starmap(object.__new__, repeat((kind,)))

    def first(kind: type) -> Any:
        types.bare = instances
        enter(bare=instances)
        before_first()
        return object.__new__(kind)

    types.ndarray, types.bare = kind, starmap(first, repeat((kind,)))
    enter(ndarray=kind, bare=types.bare)


def _place(threshold: float, backend: str) -> None:
    """Let no array be known to be of the host for having few elements where those may be the device's."""
    if threshold < MOST_FEW * HEAVY:
        enter(FEW=object(), SMALL=0)
    elif backend == "host":
        enter(FEW=MARKS[1], SMALL=ALL_FEW)
    else:
        enter(FEW=MARKS[0], SMALL=MOST_FEW)


def outdate(array: Any, written: np.ndarray[Any, Any], key: Any) -> None:
    """Let what NumPy has written to an array count that had no storage then, and has been given one meanwhile.

    Parameters
    ----------
    array : ndarray
    written : numpy.ndarray
        What owned its elements, and may be the host side no longer.
    key : object
        Where NumPy has written to it.
    """
    try:
        is_host_side = begin_writing(array) is written  # which lets copies be outdated that were made meanwhile
        end_writing(array._held)
    except Unsupported:  # others hold the device side
        is_host_side = False
    if not is_host_side:
        array[key] = written[key]


def takes(x: np.ndarray[Any, Any], reach: int, itemsizes: Callable[..., int], *kinds: Any) -> bool:
    """Whether an operation on an array of the host is the host's.

    Parameters
    ----------
    x : numpy.ndarray
    reach : int
        What elements of 16 bytes would cost.
    itemsizes : callable
        Of dtypes and kinds of operands, the bytes of their or the result's largest elements.
    *kinds : type
        That of the number beside it, if any.
    """
    nbytes = x.size * itemsizes(x.dtype, *kinds)
    weight = reach / 16
    if nbytes * weight < config.offload_threshold or is_light(nbytes, weight):
        return True
    times = 0
    if nbytes < balance.limit and reach < WEIGHED:
        if not is_sampled():
            return True
        times = SAMPLED
    return balance.takes(nbytes, weight, RECORDED, times) or _runtime.current() is None


@functools.cache  # late: texts have been expanded before, as a rule, see `CodeCache`
def _patterns(may_warn: bool) -> list[tuple[re.Pattern[str], list[str]]]:
    """Return what finds each macro's lines, and its lines with places for the groups; group 0 is the indentation."""
    return [
        (re.compile(f"( *){pattern}"), re.sub(r"\\(\d)", r"{\1}", body.strip("\n")).split("\n"))
        for pattern, body in ((WARNING_CALLS if may_warn else CALLS) | MACROS).items()
    ]


# Whether a line may be a macro; most are none.
_MACRO = r"(stored|seen|wrapped|array_of|few_elements|few|mark|weighed|part|basic|constant|called|heard)\(|write '"


def expanded(text: str, *, may_warn: bool) -> str:
    """Return text with its macros spelled out.

    Parameters
    ----------
    text : str
    may_warn : bool
        Whether what is called warns of elements.
    """
    lines, is_macro = text.split("\n"), re.compile(_MACRO).search
    for pattern, body in _patterns(may_warn):
        spelled: list[str] = []
        for line in lines:
            match = pattern.fullmatch(line) if is_macro(line) else None
            spelled += [match[1] + each.format(*match.groups()) for each in body] if match else [line]
        lines = spelled
    return "\n".join(lines)


_CODES = CodeCache(__file__)


def compiled(
    name: str, text: str, *, may_warn: bool = False, names: Mapping[str, Any] = MappingProxyType({})
) -> Callable[..., Any]:
    """Return the function ``make`` of a text with macros.

    Parameters
    ----------
    name : str
        What tracebacks call the text.
    text : str
        The definition of ``make``, which may refer to the names of this module.
    may_warn : bool
        Whether what is called warns of elements.
    names : mapping of str to object
        More that the text refers to; the same for all texts.
    """
    file = f"{__file__[:-3]}: {name}"  # in our folder, as what tells our lines from the user's asks
    source, code = _CODES.code_of(file, text, may_warn=may_warn, expand=lambda: expanded(text, may_warn=may_warn))
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    made: dict[str, Any] = {}
    namespace = _namespace(may_warn=may_warn)
    namespace.update(names)
    exec(code, namespace, made)  # noqa: S102 - our own text
    return made["make"]  # type: ignore[no-any-return]


def _namespace(*, may_warn: bool) -> dict[str, Any]:
    """Return what texts refer to, by name."""
    if not _NAMESPACES:
        _NAMESPACES[:] = [{**globals(), **_entered, **refusing} for refusing in ({}, REFUSING)]
    return _NAMESPACES[may_warn]


before_change.setdefault("offload_threshold", []).append(lambda threshold: _place(threshold, config.backend))
before_change.setdefault("backend", []).append(lambda backend: _place(config.offload_threshold, backend))
_place(config.offload_threshold, config.backend)


__all__ = [
    "HEAVY",
    "MISSING",
    "NOWHERE",
    "NUMBERS",
    "REFUSED",
    "REPORTS",
    "SAMPLED",
    "SHARED",
    "WEIGHED",
    "WRITING",
    "Storage",
    "balance",
    "compiled",
    "config",
    "current",
    "default",
    "end_writing",
    "enter_class",
    "host_and_view",
    "host_view",
    "is_sampled",
    "meaning",
    "new",
    "outdate",
    "raise_own",
    "ref",
    "refused",
    "run",
    "takes",
]
