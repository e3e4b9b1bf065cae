"""Operations whose floating-point errors are told of: recorded as others are, with a claim for one more operand.

What a kernel finds is told when the host next waits: as `numpy.errstate` said when the operation was asked for, with
NumPy's words and in the name of the line that asked. Functions that this package writes in terms of several operations
tell nothing of those: NumPy's own may compute in another way, and warn of other things.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from oxinp._config import config
from oxinp._core.errors.frames import Line, is_passed, user_frame
from oxinp._core.errors.state import INVALID, KINDS, OVER, Checks, checks
from oxinp._core.lazy import reports
from oxinp._core.lazy.expr import Loop, Operation, cast
from oxinp._core.lazy.handle import Handle
from oxinp._core.memory.dtypes import BOOL, WEAK_TYPES
from oxinp._core.memory.layout import Layout
from oxinp._kernels.flags import (
    CASTS,
    INFINITE,
    NAN,
    NOTHING,
    NUM_FLAGS,
    Rule,
    flagging,
    judge_result,
    mark_operand,
)

# Modules between the user's line and the record of an operation; what another one of ours asks for is its own affair.
_BETWEEN = tuple(
    f"oxinp.{name}"
    for name in (
        *(
            "_core.ufunc.",
            "_core.lazy.",
            "_core.array.",
            "_core.manipulation.copy",
            "_core.ops.index",
            "_core.ops.by_key",
            "_core.subclass",
        ),
        *("_core.reduction.", "_api.reductions", "_api.fronts"),
    )
)
# The same of casts: functions that join, move and limit elements cast them, and no more.
_BETWEEN_CASTS = tuple(
    f"oxinp.{name}"
    for name in (
        "_core.ops.again",
        "_core.ops.scatter",
        "_api.creation",
        "_api.manipulation",
        "_api.mathematics",
        "_api.placing",
    )
)

UINT64 = np.dtype(np.uint64)
_WORDS = ("divide by zero", "overflow", "underflow", "invalid value")


def flagged(
    operation: Operation, operands: tuple[Any, ...], target: Layout | None, where: Any
) -> tuple[Operation, tuple[Any, ...]]:
    """Return what is recorded in the place of an operation that may raise, and its operands.

    Parameters
    ----------
    operation, operands, target
        As for `record.express`.
    where : Handle, numpy.bool or None
        Which elements count.
    """
    rule: Rule = operation.raises
    is_cast = rule is CASTS or rule is NOTHING
    output = None if target is None else target.dtype
    if is_cast and (output is None or not _may_not_fit(_dtype_of(operation, operands), output)):
        return operation, operands
    wanted = checks()
    if wanted is None or (line := _asking_line(is_cast=is_cast)) is None:
        return operation, operands
    key = wanted.kinds, where is not None, output
    variants = operation.flagged
    variant = variants.get(key)
    if variant is None:
        variant = variants[key] = _variant(operation, rule, *key)
    told = _Told("cast" if operation.name == "copy" else operation.name, wanted, line)
    claim = np.uint64(reports.claim_flags(told, line))
    return variant, (*operands, claim) if where is None else (*operands, where, claim)


def _dtype_of(operation: Operation, operands: tuple[Any, ...]) -> np.dtype[Any]:
    """Return the dtype that an operation gives of itself."""
    kinds = [x._layout.dtype if isinstance(x, Handle) else type(x) for x in operands]
    return operation.find_loop(tuple([kind if kind in WEAK_TYPES else np.dtype(kind) for kind in kinds])).output


def _special_loop(lower: Callable[..., Any]) -> Callable[[tuple[Any, ...]], Loop]:
    return lambda kinds: Loop((kinds[0], UINT64), kinds[0], lower)


MARK = Operation("mark", _special_loop(mark_operand))
"""Elements that are reduced, each of which tells whether it is infinite or NaN."""

JUDGE = Operation("judge", _special_loop(judge_result))
"""What they have been reduced to, which tells the same."""


def claim_reduction(warning: str | None) -> Any:
    """Return the claim that `MARK` and `JUDGE` take for a reduction that the user's line asks for; None for none.

    Parameters
    ----------
    warning : str or None
        What NumPy's Python code warns of, whatever `numpy.errstate` says, where the result is NaN. Without it, sums and
        products tell of overflow and of invalid values: where a result is infinite or NaN and no element is.
    """
    wanted = checks()
    if wanted is None or (warning is not None and config.floating_point_errors != "numpy"):
        return None
    line = _asking_line()
    if line is None:
        return None
    return np.uint64(reports.claim_flags(_ToldOfReduction(warning, wanted, line), line))


_PASSED: set[Any] = set()
"""Names of modules in between that have been met."""


def _is_between(name: Any) -> bool:
    if not str(name).startswith(_BETWEEN):
        return False
    _PASSED.add(name)
    return True


def _asking_line(*, is_cast: bool = False) -> Line | None:
    """Return the user's line that asks for an operation; None where a function of ours does."""
    frame = sys._getframe(2)
    name = frame.f_globals.get("__name__")
    while frame.f_back is not None and (
        name in _PASSED or _is_between(name) or (is_cast and str(name).startswith(_BETWEEN_CASTS))
    ):
        frame = frame.f_back
        name = frame.f_globals.get("__name__")
    name = str(name)
    if name.startswith("oxinp."):
        return None
    return Line(user_frame() if is_passed(frame) else frame)


def _may_not_fit(source: np.dtype[Any], target: np.dtype[Any]) -> bool:
    """Whether a cast has values that it does not keep, and says so."""
    if source.kind not in "fc" or target.kind == "b":
        return target.kind == "f" and target.itemsize == 2 and source.kind in "iu"
    if target.kind in "iu":
        return True
    size = source.itemsize // 2 if source.kind == "c" else source.itemsize  # of a part
    return target.kind in "fc" and (target.itemsize // 2 if target.kind == "c" else target.itemsize) < size


_LOWERINGS: dict[Any, Callable[..., Any]] = {}  # one for each, or graphs would not be equal


def _variant(operation: Operation, rule: Rule, kinds: int, is_masked: bool, output: Any) -> Operation:
    """Return an operation that tells of its own errors, and of those of the casts before and after it."""
    extra = (BOOL, UINT64) if is_masked else (UINT64,)

    def find_loop(given: tuple[Any, ...]) -> Loop:
        loop = operation.find_loop(given[: -len(extra)])
        casts = tuple(
            (kind, wanted) if isinstance(kind, np.dtype) and _may_not_fit(kind, wanted) else None
            for kind, wanted in zip(given, loop.inputs, strict=False)
        )
        last = (loop.output, output) if output is not None and _may_not_fit(loop.output, output) else None
        key = loop.lower, rule, kinds, is_masked, casts, last
        made = _LOWERINGS.get(key)
        if made is None:
            made = _LOWERINGS[key] = _flagging_all(*key)
        inputs = [wanted if pair is None else pair[0] for pair, wanted in zip(casts, loop.inputs, strict=True)]
        return Loop((*inputs, *extra), loop.output if last is None else output, made)

    return Operation(operation.name, find_loop, operation.weight, takes_any_integer=operation.takes_any_integer)


def _flagging_all(
    lower: Callable[..., Any], rule: Rule, kinds: int, is_masked: bool, casts: tuple[Any, ...], last: Any
) -> Callable[..., Any]:
    """Return a lowering that raises flags, after casts of operands and before one of the result that do, too."""

    def make(step: Any) -> Callable[..., Any] | None:
        return None if step is None else flagging(cast(*step), CASTS, kinds, is_masked=is_masked)

    is_silent = rule is CASTS or rule is NOTHING
    own = lower if is_silent else flagging(lower, rule, kinds, is_masked=is_masked)
    first, then = [make(step) for step in casts], make(last)
    if then is None and not any(casts):
        return own
    count = 2 if is_masked else 1

    def flagged(k: Any, *values: Any) -> Any:
        more = values[-count:]
        operands = [x if step is None else step(k, x, *more) for step, x in zip(first, values[:-count], strict=True)]
        result = lower(k, *operands) if is_silent else own(k, *operands, *more)
        return result if then is None else then(k, result, *more)

    flagged.__name__ = lower.__name__
    flagged.is_flagging = True  # type: ignore[attr-defined]
    return flagged


class _Told:
    """What becomes of the flags of one operation."""

    __slots__ = ("_checks", "_line", "_name", "_told")

    def __init__(self, name: str, wanted: Checks, line: Line) -> None:
        self._name = name
        self._checks = wanted
        self._line = line
        self._told = 0

    def __call__(self, word: int) -> Exception | None:
        """Tell what flags say, once; return the first exception."""
        flags = self._flags(word)
        news = flags & ~self._told & self._checks.kinds  # what is computed twice is told of once
        self._told |= news
        errors = [
            self._tell(self._checks.how[kind], words, flags)
            for (kind, bit), words in zip(KINDS.items(), _WORDS, strict=True)
            if news & bit
        ]
        return next((error for error in errors if error is not None), None)

    def _flags(self, word: int) -> int:
        return sum([1 << i for i in range(NUM_FLAGS) if word >> 8 * i & 0xFF])

    def _tell(self, how: str, words: str, flags: int) -> Exception | None:
        message, call = f"{words} encountered in {self._name}", self._checks.call
        try:
            if how == "raise":
                return FloatingPointError(message)
            if how == "warn":
                self._line.warn(message, RuntimeWarning)
            elif how == "print":
                sys.stderr.write(f"Warning: {message}\n")
            elif call is None and how == "log":
                msg = f"log specified for {words} (in {self._name}) but no object with write method found."
                return NameError(msg)
            elif call is None:
                return NameError(f"python callback specified for {words} (in  {self._name}) but no function found.")
            elif how == "log":
                call.write(f"Warning: {message}\n")
            else:
                call(words, flags)
        except Exception as error:  # noqa: BLE001 - a filter's or the user's function's, to be raised when all is told
            return error
        return None


class _ToldOfReduction(_Told):
    """What becomes of the flags of a reduction, those of elements and those of results."""

    __slots__ = ("_seen", "_warning")

    def __init__(self, warning: str | None, wanted: Checks, line: Line) -> None:
        super().__init__("reduce", wanted, line)
        self._warning = warning
        self._seen = 0

    def __call__(self, word: int) -> Exception | None:
        """Tell what flags say; see `_Told`."""
        if self._warning is None:
            return super().__call__(word)
        if self._flags(word) & INVALID and not self._told:
            self._told = INVALID
            try:
                self._line.warn(self._warning, RuntimeWarning)
            except RuntimeWarning as error:  # as a filter wants it
                return error
        return None

    def _flags(self, word: int) -> int:
        """Return the flags of results that no element explains; elements are looked at before results."""
        self._seen |= super()._flags(word)
        if self._seen & INFINITE:
            return 0 if self._warning is not None or self._seen & NAN else self._seen & INVALID
        return self._seen & (OVER | INVALID) if self._warning is not None or not self._seen & NAN else self._seen & OVER
