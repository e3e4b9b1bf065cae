"""A program: a list of statements, each the NumPy code that it is."""

import textwrap
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tests.tolerances import REDUCTIONS, Axis

CHECK = "check"
SCALED_BITS = 10  # floats that are multiples of 2^-10 add exactly while their sum fits the mantissa


@dataclass(frozen=True)
class Reduction:
    """A reduction inside a statement, as far as its exactness is concerned.

    Attributes
    ----------
    name : str
        Row of `REDUCTIONS`.
    operand : str
        Code of what is reduced, evaluated before the statement.
    dtype : str or None
        Dtype that is accumulated; None for the operand's own.
    axis : int, tuple or None
        The axes.
    keepdims : bool
        As NumPy's.
    into : str or None
        Dtype of an output that holds partial results between NumPy's chunks.
    """

    name: str
    operand: str
    dtype: str | None
    axis: Axis
    keepdims: bool
    into: str | None = None

    def is_exact(self, value: object) -> bool:
        """Tell whether every order of reduction gives the same bits."""
        x = self._accumulated(value)
        if x.dtype.kind == "c":
            # The largest of complex numbers with NaN is any of these.
            parts = self._is_exact(x.real) and self._is_exact(x.imag)
            return parts and (self.name == "sum" or not np.isnan(x).any())
        return self._is_exact(x)

    def _is_exact(self, x: np.ndarray) -> bool:
        if x.dtype.kind != "f":
            return True
        if self.into is not None and not self._holds_partial_results(x):
            return False
        if self.name != "sum":
            return bool(np.all(x != 0)) or np.unique(np.signbit(x[x == 0])).size <= 1
        with np.errstate(all="ignore"):
            scaled = x[np.isfinite(x)].astype(np.float64) * 2.0**SCALED_BITS
            limit = 2.0 ** np.finfo(x.dtype).nmant
            return bool(np.all(scaled == np.rint(scaled)) and np.sum(np.abs(scaled)) < limit)

    def _holds_partial_results(self, x: np.ndarray) -> bool:
        """Tell whether no cast of a partial result into the output, at whatever chunk, is undefined."""
        info = np.iinfo(self.into)
        if not np.isfinite(x).all():
            return False
        x = x.astype(np.float64)
        ends = (x[x < 0].sum(), x[x > 0].sum()) if self.name == "sum" else (x.min(initial=0), x.max(initial=0))
        return bool(info.min <= ends[0] and ends[1] < float(info.max))

    def has_bound(self, value: object) -> bool:
        """Tell whether an error bound holds: no order may overflow, and the largest of complex NaNs is any of them."""
        x = self._accumulated(value)
        if x.dtype.kind not in "fc" or (x.dtype.kind == "c" and self.name in ("max", "min") and np.isnan(x).any()):
            return False
        with np.errstate(all="ignore"):
            magnitude = np.abs(x[np.isfinite(x)]).astype(np.float64) ** (2 if self.name in ("var", "std") else 1)
            return bool(np.sum(magnitude) < np.finfo(x.dtype).max / 4)

    def bound(self, value: object) -> np.ndarray:
        """Return the largest difference from NumPy's result that is allowed."""
        return REDUCTIONS[self.name].bound(self._accumulated(value), self.axis, self.keepdims)

    def code(self) -> str:
        """Return the bound as code."""
        operand = f"numpy.asarray({self.operand}, dtype={self.dtype!r})"
        return f"REDUCTIONS[{self.name!r}].bound({operand}, {self.axis}, {self.keepdims})"

    def _accumulated(self, value: object) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.asarray(value).astype(self.dtype or np.asarray(value).dtype)


@dataclass(frozen=True)
class Normwise:
    """A result that is compared by the largest of its elements.

    Attributes
    ----------
    operand : str
        Code of the result itself, evaluated under NumPy before the statement.
    factor : float
        The largest difference that is allowed, in units of eps times the largest magnitude.
    """

    operand: str
    factor: float

    def has_bound(self, value: object) -> bool:
        """Tell whether the bound holds: nothing overflows, and what is lost to underflow is below it."""
        x = np.asarray(value)
        if x.dtype.kind not in "fc" or not np.isfinite(x).all():
            return False
        info = np.finfo(x.dtype)
        largest = float(np.abs(x).max(initial=0))
        return largest == 0 or float(info.tiny) / float(info.eps) < largest < float(info.max) / 4

    def bound(self, value: object) -> np.ndarray:
        """Return the largest difference from NumPy's result that is allowed."""
        x = np.asarray(value)
        limits = np.finfo(x.dtype)
        largest = max(float(np.abs(x).max(initial=0)), float(limits.tiny))  # below which all are spaced alike
        return np.asarray(self.factor * float(limits.eps) * largest)

    def code(self) -> str:
        """Return the bound as code."""
        return f"Normwise('', {self.factor}).bound({self.operand})"


@dataclass(frozen=True)
class Statement:
    """One statement.

    Attributes
    ----------
    kind : str
        The rule that made it; `CHECK` compares all live names.
    code : str
        NumPy code, one or several lines.
    exact : tuple of Reduction
        Reductions in it that must be exact for the result to be compared bit for bit.
    bounded : tuple of (str, Reduction or Normwise)
        Names bound by it that are compared by an error bound (and never used again).
    """

    kind: str
    code: str = ""
    exact: tuple[Reduction, ...] = ()
    bounded: tuple[tuple[str, Reduction | Normwise], ...] = ()


@dataclass(frozen=True)
class Program:
    """A list of statements; the live names are compared at each check and at the end."""

    statements: tuple[Statement, ...]
    origin: str = ""

    def kinds(self) -> Counter[str]:
        """Count the statements of each kind."""
        return Counter(statement.kind for statement in self.statements)

    def without(self, removed: Iterable[int]) -> "Program":
        """Return the program without the statements of these positions."""
        gone = set(removed)
        return Program(tuple(s for i, s in enumerate(self.statements) if i not in gone), self.origin)

    def listing(self) -> str:
        """Return the statements as NumPy code."""
        return "\n".join(s.code if s.kind != CHECK else "check()" for s in self.statements)

    def script(self, settings: dict[str, object], raising: frozenset[int]) -> str:
        """Return a script that runs the program under both libraries and compares the live names.

        Parameters
        ----------
        settings : dict
            Attributes to set on `oxinp.config`.
        raising : frozenset of int
            Positions of the statements that raise under NumPy.
        """
        body = [_indented(s, i in raising) for i, s in enumerate((*self.statements, Statement(CHECK)))]
        values = {
            name: f"float({str(value)!r})" if value == float("inf") else repr(value) for name, value in settings.items()
        }
        lines = [
            f"# {self.origin}",
            "import array, copy, math, operator, pickle, warnings",
            "import numpy",
            "import oxinp",
            "from tests.fuzz import foreign",
            "from tests.fuzz.program import Normwise",
            "from tests.comparator import assert_same, assert_within",
            "from tests.tolerances import REDUCTIONS",
            "",
            *(f"oxinp.config.{name} = {value}" for name, value in values.items()),
            'numpy.seterr(all="ignore")',
            'warnings.simplefilter("ignore")',
            "",
            "bounds = {}",
            "",
            "def check(names):",
            "    return {k: v for k, v in names.items() if k not in ('np', 'error') and k[0] != '_'}",
            "",
            "def program(np):",
            *body,
            "",
            "for ours, numpys in zip(program(oxinp), program(numpy)):",
            "    for name in numpys:",
            "        if name in bounds:",
            "            assert_within(ours[name], numpys[name], bounds[name], where=name)",
            "        else:",
            "            assert_same(ours[name], numpys[name], where=name)",
        ]
        return "\n".join(lines) + "\n"


def _indented(statement: Statement, is_raising: bool) -> str:
    if statement.kind == CHECK:
        return "    yield check(locals())"
    if not is_raising:
        bounds = [f"if np is numpy:\n    bounds[{name!r}] = {record.code()}" for name, record in statement.bounded]
        return textwrap.indent("\n".join([*bounds, statement.code]), "    ")
    return (
        "    try:\n"
        + textwrap.indent(statement.code, "        ")
        + "\n    except Exception as error:\n        print(type(error))"
    )
