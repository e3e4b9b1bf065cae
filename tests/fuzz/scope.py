"""A program under construction: its statements so far, and NumPy's values of its names."""

import array
import copy
import functools
import math
import operator
import pickle
import re
from types import CodeType

import numpy as np

from tests.fuzz import foreign
from tests.fuzz.draw import Draw
from tests.fuzz.program import CHECK, Normwise, Program, Reduction, Statement

MAX_NAMES = 12
KEEP_RAISING_PERCENT = 30
PARTLY_DONE = frozenset(
    {"loop", "rows", "grow", "element", "create_empty", "failing", "failing_index", "threads", "callback", "read_only"}
)
LEADING_NAME = re.compile(r"\w*")  # what a statement binds or writes comes first in it
IN_PLACE_PRODUCT = re.compile(r"([ah]\d+(?:\[[^=]*\])?) \*= ")
MODULES = {
    "array": array,
    "copy": copy,
    "foreign": foreign,
    "math": math,
    "numpy": np,
    "operator": operator,
    "pickle": pickle,
}


@functools.lru_cache(maxsize=4096)
def compiled(code: str, mode: str) -> CodeType:
    """Compile code once."""
    return compile(code, "<program>", mode)


class Scope:
    """The names of a program while it is generated.

    Parameters
    ----------
    draw : Draw
        The choices.
    dims : tuple of int
        The dimensions that shapes of this program are made of, so that operands often fit.
    max_size : int
        Largest number of elements of a result.
    """

    def __init__(self, draw: Draw, dims: tuple[int, ...], max_size: int) -> None:
        self.draw = draw
        self.dims = dims
        self.max_size = max_size
        self.statements: list[Statement] = []
        self.values: dict[str, object] = {**MODULES, "np": np}
        self._recent: list[str] = []
        self._count = 0

    def evaluate(self, code: str, **extra: object) -> object:
        """Return NumPy's value of an expression."""
        return eval(compiled(code, "eval"), self.values, extra)  # noqa: S307 - our own code

    def try_evaluate(self, code: str, **extra: object) -> tuple[object, bool]:
        """Return NumPy's value of an expression, and whether there is one."""
        try:
            return self.evaluate(code, **extra), True
        except (ArithmeticError, AttributeError, TypeError, ValueError, LookupError, MemoryError):
            return None, False

    def fresh(self, prefix: str = "a") -> str:
        """Return a name that was never used."""
        self._count += 1
        return f"{prefix}{self._count}"

    def target(self) -> str:
        """Return a name to bind: mostly new, sometimes a live array's."""
        arrays = self.arrays()
        if arrays and (len(arrays) >= MAX_NAMES or self.draw.chance(15)):
            return self.draw.choice(arrays)
        return self.fresh()

    def arrays(self) -> list[str]:
        """Return the names of arrays that may be used, the one used last first."""
        live = [name for name in reversed(self._recent) if name[0] == "a"]
        return [name for name in live if isinstance(self.values[name], np.ndarray)]

    def operands(self) -> list[str]:
        """Return the names of arrays, NumPy arrays and scalars that may be used, the one used last first."""
        usable = (np.ndarray, np.generic)
        return [name for name in reversed(self._recent) if name[0] in "ah" and isinstance(self.values[name], usable)]

    def numbers(self) -> list[str]:
        """Return the names of numbers: operations that use one of them are given the same object."""
        return [name for name in reversed(self._recent) if name[0] == "n"]

    def live(self) -> list[str]:
        """Return all names, the one used last first."""
        return self._recent[::-1]

    def pick(self, names: list[str]) -> str:
        """Return one of the names, the first ones more often."""
        if self.draw.chance(50):
            return self.draw.choice(names)
        return self.draw.choice(names[:3])

    def touch(self, name: str) -> None:
        """Make a name the one used last."""
        if name in self._recent:
            self._recent.remove(name)
            self._recent.append(name)

    def emit(
        self,
        kind: str,
        code: str,
        exact: tuple[Reduction, ...] = (),
        bounded: tuple[tuple[str, Reduction | Normwise], ...] = (),
    ) -> None:
        """Append a statement and run it under NumPy; one that raises is mostly left out again."""
        code = self._defined(code)
        try:
            exec(compiled(code, "exec"), self.values)  # noqa: S102 - our own code
        except NameError:
            raise
        except Exception:  # noqa: BLE001 - statements that raise are part of the test
            # What may have written something before it raised must stay.
            if kind not in PARTLY_DONE and not self.draw.chance(KEEP_RAISING_PERCENT):
                return
        self.statements.append(Statement(kind, code, exact, bounded))
        live = {name for name in self.values if name[-1].isdigit()}
        self._recent = [name for name in self._recent if name in live]
        self._recent += sorted(live.difference(self._recent))
        self.touch(LEADING_NAME.match(code)[0])

    def _defined(self, code: str) -> str:
        """Return a statement, or a sum in place of a product that NumPy rounds by what an inner loop looks like.

        A product of complex numbers in place, of one element, is to NumPy a step of a reduction, which does not fuse;
        nor does one that reads other elements of the memory that it writes.
        """
        found = IN_PLACE_PRODUCT.match(code)
        target, is_known = self.try_evaluate(found[1]) if found else (None, False)
        if not (found and is_known and isinstance(target, np.ndarray) and target.dtype.kind == "c"):
            return code
        factor, is_known = self.try_evaluate(code[found.end() :])
        overlaps = is_known and isinstance(factor, np.ndarray) and np.may_share_memory(target, factor)
        return f"{found[1]} += {code[found.end() :]}" if target.size == 1 or overlaps else code

    def check(self) -> None:
        """Append a check."""
        self.statements.append(Statement(CHECK))

    def program(self, origin: str) -> Program:
        """Return the program so far."""
        return Program(tuple(self.statements), origin)
