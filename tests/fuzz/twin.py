"""Run a program under two namespaces in lockstep, and report the first difference."""

import linecache
import re
import traceback
import warnings
from dataclasses import dataclass
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np

from oxinp._core.lazy import placement, rowwise, windows
from oxinp._runtime import host_blocks
from tests.comparator import assert_same, assert_within, is_array, public_type
from tests.fuzz.program import CHECK, Program, Statement
from tests.fuzz.scope import MODULES, compiled

BINDING = re.compile(r"(a\d+) = ")
NAME = re.compile(r"\b[ah]\d+")
SHOWN_FRAMES = 3


@dataclass(frozen=True)
class Difference:
    """What differs, and after which statement.

    Attributes
    ----------
    position : int
        Index of the statement; the number of statements for the final comparison.
    message : str
        What differs.
    """

    position: int
    message: str


class InvalidProgramError(Exception):
    """The program's results depend on the order of a sum: it cannot be compared."""


class Twin:
    """One program's names under both namespaces.

    Parameters
    ----------
    xp : namespace
        The one under test.
    validate : bool
        Check that the reductions marked exact are (they are when the generator made the program; after statements were
        deleted they may not be).
    """

    def __init__(self, xp: ModuleType | Any, *, validate: bool = False) -> None:
        self.ours: dict[str, Any] = {**MODULES, "np": xp}
        self.numpys: dict[str, Any] = {**MODULES, "np": np}
        self._bounds: dict[str, np.ndarray] = {}
        self._validate = validate
        self._array_type = xp.ndarray

    def run(self, program: Program) -> Difference | None:
        """Return the first difference, or None."""
        position = -1
        patience = mock.patch.object(rowwise, "is_patient", False)  # programs run once
        small = mock.patch.multiple(windows, NBYTES=128, MIN_STEP=16, COPY_RATE=1.0)  # as their arrays are
        smaller = mock.patch.object(placement, "MIN_WINDOWED_NBYTES", 256)
        shared = mock.patch.multiple(host_blocks, MIN_NBYTES=64, MAX_WASTE=1 / 64)
        with np.errstate(all="ignore"), warnings.catch_warnings(), patience, small, smaller, shared:
            warnings.simplefilter("ignore")
            try:
                for statement in program.statements:
                    position += 1
                    self._step(statement)
                position += 1
                self._compare()
            except AssertionError as error:
                return Difference(position, str(error))
        return None

    def _step(self, statement: Statement) -> None:
        if statement.kind == CHECK:
            self._compare()
            return
        if self._validate and not all(r.is_exact(self._operand(r.operand)) for r in statement.exact):
            raise InvalidProgramError(statement.code)
        bounds = {name: (reduction, self._operand(reduction.operand)) for name, reduction in statement.bounded}
        if self._validate and not all(r.has_bound(operand) for r, operand in bounds.values()):
            raise InvalidProgramError(statement.code)
        should_be_ours = self._makes_ours(statement.code)
        numpys = _execute(statement.code, self.numpys)
        ours = _execute(statement.code, self.ours)
        if numpys is None:
            # Only where NumPy succeeds is there an axis to take the bound over.
            self._bounds.update({name: r.bound(operand) for name, (r, operand) in bounds.items()})
        if ours is None and numpys is None:
            if should_be_ours:
                self._assert_is_ours(BINDING.match(statement.code)[1])
            self._copy_what_is_copied(statement.code)
            return
        if ours is None or numpys is None or public_type(type(ours)) is not public_type(type(numpys)):
            raise AssertionError(f"NumPy: {_summary(numpys)}; ours: {_summary(ours)}")

    def _makes_ours(self, code: str) -> bool:
        """Tell whether a statement must bind an array of the namespace: where every array in it is one."""
        binding = BINDING.match(code)
        if binding is None or "out=" in code:
            return False
        values = [self.ours.get(name) for name in NAME.findall(code[binding.end() :])]
        arrays = [value for value in values if is_array(value) and value.ndim]
        return all(type(value) is self._array_type for value in arrays) if arrays else " = np." in code

    def _copy_what_is_copied(self, code: str) -> None:
        """Have NumPy copy what it shares, where one of its own arrays became one of ours, which shares nothing."""
        binding = BINDING.match(code)
        if binding is None or self._array_type is np.ndarray:
            return
        name = binding[1]
        if type(self.ours[name]) is not self._array_type or not is_array(self.numpys[name]):
            return
        given = self.numpys[name]
        numpys_own = [self.numpys[other] for other, value in self.ours.items() if type(value) is np.ndarray]
        if any(given is other or np.may_share_memory(given, other) for other in numpys_own):
            self.numpys[name] = given.copy()

    def _assert_is_ours(self, name: str) -> None:
        if is_array(self.numpys[name]):
            assert type(self.ours[name]) is self._array_type, f"{name} is {type(self.ours[name])}"

    def _operand(self, code: str) -> np.ndarray:
        """Return a copy of what is reduced, because the statement may write it."""
        try:
            operand = np.array(eval(compiled(code, "eval"), self.numpys))  # noqa: S307 - our own code
        except Exception as error:
            raise InvalidProgramError(code) from error
        if operand.dtype.kind not in "biufc":
            raise InvalidProgramError(code)
        return operand

    def _compare(self) -> None:
        """Compare all live names."""
        numpys, ours = _bound(self.numpys), _bound(self.ours)
        assert numpys == ours, f"NumPy binds {sorted(numpys - ours)}, ours {sorted(ours - numpys)}"
        for name in sorted(numpys):
            expected = self.numpys[name]
            given = self.ours[name]
            try:
                if name in self._bounds:
                    assert_within(given, expected, self._bounds[name], where=name)
                else:
                    assert_same(given, expected, where=name)
            except AssertionError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever reading an array raises is a difference
                raise AssertionError(f"reading {name}: {_summary(error)}") from None
        self._compare_identity()

    def _compare_identity(self) -> None:
        """Names bound to one array under NumPy must be bound to one under ours.

        But where two dtypes that are equal are two objects, as that of an array which has been unpickled is one of its
        own, a conversion from one to the other is a view in NumPy, which nothing needs that has one object per dtype.
        And what a scalar of NumPy's gives by a mask is NumPy's array, of which a conversion is a copy.
        """
        names = [name for name, value in self.numpys.items() if is_array(value)]
        for i, a in enumerate(names):
            for b in names[:i]:
                dtypes = self.numpys[a].dtype, self.numpys[b].dtype
                if dtypes[0] == dtypes[1] and dtypes[0] is not dtypes[1]:
                    continue
                if (type(self.ours[a]) is np.ndarray) != (type(self.ours[b]) is np.ndarray):
                    continue
                same = self.ours[a] is self.ours[b]
                assert same == (self.numpys[a] is self.numpys[b]), f"{a} is {b}: {same}, not so in NumPy"


def find_difference(program: Program, xp: ModuleType | Any, *, validate: bool = False) -> Difference | None:
    """Return the first difference of a program under `xp` from NumPy, or None.

    Raises
    ------
    InvalidProgramError
        If `validate` and a sum that should be exact is not.
    """
    return Twin(xp, validate=validate).run(program)


def raising_statements(program: Program) -> frozenset[int]:
    """Return the positions of the statements that raise under NumPy."""
    names: dict[str, Any] = {**MODULES, "np": np}
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return frozenset(
            i for i, s in enumerate(program.statements) if s.kind != CHECK and _execute(s.code, names) is not None
        )


def _bound(names: dict[str, Any]) -> set[str]:
    """Return the names that a program has bound."""
    return {name for name in names if name not in MODULES and name != "np" and not name.startswith("_")}


def _execute(code: str, names: dict[str, Any]) -> Exception | None:
    """Run a statement; return what it raises."""
    try:
        exec(compiled(code, "exec"), names)  # noqa: S102 - our own code
    except Exception as error:  # noqa: BLE001 - the exception is the outcome
        # The frames would keep the arrays of the failed statement alive; their text is wanted of a difference only.
        frames = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
        error.frames = frames[-SHOWN_FRAMES:]
        return error.with_traceback(None)
    return None


def _summary(error: Exception | None) -> str:
    if error is None:
        return "no exception"
    frames = (
        f'  File "{code.co_filename}", line {line}, in {code.co_qualname}\n'
        f"    {linecache.getline(code.co_filename, line).strip()}\n"
        for code, line in getattr(error, "frames", ())
    )
    return f"{type(error).__name__}: {error}\n{''.join(frames)}".rstrip()
