"""Advice on lines of a profile: what in their source, and in what they caused, would be worth changing."""

from __future__ import annotations

import ast
import functools
import linecache
from typing import NamedTuple

from oxinp._runner.profile import Line

__all__ = ["advise"]

MANY = 16  # copies or fallbacks of one line from which on they are worth a word
SINGLE_NBYTES = 64  # a copy up to this size reads a value or two
SHARE = 0.05  # of the whole time, from which on a slow line is worth a word
_GROWING = {"append", "insert", "concatenate", "concat", "hstack", "vstack", "dstack", "column_stack", "stack", "block"}


class Loops(NamedTuple):
    """What a file's loops do, by line.

    Attributes
    ----------
    elements : frozenset of int
        Lines that index with a loop's variable, no slice among the indices.
    growing : dict of int to str
        Lines that bind a name, inside a loop, to that name's array made longer: the function that does it.
    """

    elements: frozenset[int]
    growing: dict[int, str]


def advise(line: Line, seconds: float) -> list[str]:
    """Return what to say of a line of a program that took so many seconds, if anything."""
    found = []
    loops = _loops(line.file)
    is_slow = line.seconds >= SHARE * seconds
    if line.number in loops.elements and is_slow and line.seconds_inside >= 0.2 * line.seconds:
        found.append("loops over elements: written over whole arrays it is one operation")
    if line.number in loops.growing and (is_slow or line.num_d2h + line.num_h2d >= MANY):
        name = loops.growing[line.number]
        found.append(f"{name} copies the whole array each time: collect in a list, or fill an array made beforehand")
    transfers = _transfers(line)
    return [*found, transfers] if transfers else found


def _transfers(line: Line) -> str:
    """Say why a line moves data so often, where it does."""
    if line.num_h2d + line.num_d2h < MANY:
        return ""
    if line.fallbacks and sum(line.fallbacks.values()) >= MANY:
        names = ", ".join(sorted(line.fallbacks, key=lambda name: -line.fallbacks[name])[:3])
        if set(line.fallbacks) == {"__array__"}:
            return f"hands arrays to a library that computes on the host: copied there {line.num_d2h} times"
        return f"{names} ran on the host, which has no kernel for it here: {_copies(line)}"
    if line.d2h_bytes <= SINGLE_NBYTES * line.num_d2h and not line.num_h2d:
        return f"reads single values from the device {line.num_d2h} times, and waits for each: keep them in arrays"
    return f"moves data between host and device again and again: {_copies(line)}"


def _copies(line: Line) -> str:
    return f"{line.num_d2h} copies to the host, {line.num_h2d} to the device"


@functools.lru_cache(maxsize=64)
def _loops(file: str) -> Loops:
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return Loops(frozenset(), {})
    finder = _LoopFinder()
    finder.visit(tree)
    return Loops(frozenset(finder.elements), finder.growing)


class _LoopFinder(ast.NodeVisitor):
    """Collects what `Loops` holds."""

    def __init__(self) -> None:
        self.elements: set[int] = set()
        self.growing: dict[int, str] = {}
        self._variables: list[set[str]] = []

    def _inside(self, variables: set[str], node: ast.AST) -> None:
        self._variables.append(variables)
        self.generic_visit(node)
        self._variables.pop()

    def visit_For(self, node: ast.For) -> None:
        self._inside(_names(node.target), node)

    def visit(self, node: ast.AST) -> None:
        """Visit a node; of comprehensions all four kinds alike."""
        if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            self._inside(set().union(*[_names(each.target) for each in node.generators]), node)
        else:
            super().visit(node)

    def visit_While(self, node: ast.While) -> None:
        counted = [_names(each.target) for each in ast.walk(node) if isinstance(each, ast.AugAssign)]
        self._inside(set().union(*counted), node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        outer, self._variables = self._variables, []  # a function that a loop defines is called elsewhere
        self.generic_visit(node)
        self._variables = outer

    def visit_Subscript(self, node: ast.Subscript) -> None:
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        variables = set().union(*self._variables)
        if not any(isinstance(part, ast.Slice) for part in parts) and any(_names(part) & variables for part in parts):
            self.elements.add(node.lineno)
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        call = node.value
        if self._variables and isinstance(call, ast.Call) and len(node.targets) == 1:
            name = getattr(call.func, "attr", getattr(call.func, "id", ""))
            own = ast.unparse(node.targets[0])
            given = [ast.unparse(each) for each in call.args for each in getattr(each, "elts", [each])]
            if name in _GROWING and own in given:
                self.growing[node.lineno] = name
        self.generic_visit(node)


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
