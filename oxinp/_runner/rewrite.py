"""Imports of NumPy and SciPy in a user's source, turned into imports of ours when it is compiled.

Done in the syntax tree, so nothing is left to do at run time, every line keeps its number and every traceback its
frames. The statements that import from ``numpy``, ``scipy`` or one of their submodules name the module of ours instead;
a submodule that oxinp has not stays theirs. ``__import__(...)`` and what is given to ``exec`` and ``eval`` go through
`dynamic`, which does the same when they run.
"""

from __future__ import annotations

import ast
import re
from types import CodeType
from typing import Any

from oxinp._api import namespace
from oxinp._runner import bindings

__all__ = ["compile_source", "compile_tree", "may_name"]

_MAY_NAME = re.compile(rb"numpy|scipy|__import__|\bexec\b|\beval\b")


def may_name(source: bytes | bytearray | str) -> bool:
    """Whether there can be anything to rewrite in a source."""
    return _MAY_NAME.search(source.encode("utf-8", "replace") if isinstance(source, str) else source) is not None


def compile_source(source: Any, filename: Any, mode: str = "exec", flags: int = 0, optimize: int = -1) -> CodeType:
    """Return the code of a source, its imports of NumPy being of ours.

    Parameters
    ----------
    source : bytes or str
        Bytes may declare an encoding, as in any Python file.
    filename : str
        What tracebacks call it.
    mode, flags, optimize
        As `compile` takes them; flags are not inherited.

    Raises
    ------
    SyntaxError
        As from `compile`.

    Examples
    --------
    >>> from oxinp._runner.rewrite import compile_source
    >>> names = {}
    >>> exec(compile_source("import numpy.linalg, math", "example.py"), names)
    >>> names["numpy"].__name__, names["math"].__name__
    ('oxinp', 'math')
    """
    # This module's own `from __future__` must not reach the user's code.
    tree = _compile(source, filename, mode, flags | ast.PyCF_ONLY_AST, dont_inherit=True, optimize=optimize)
    return compile_tree(tree, filename, mode, flags, optimize)


def compile_tree(tree: Any, filename: Any, mode: str, flags: int = 0, optimize: int = -1) -> CodeType:
    """Return the code of a syntax tree, its imports of NumPy being of ours; the tree is changed."""
    tree = _Rewriter(_bound_names(tree)).visit(tree)
    return _compile(tree, filename, mode, flags, dont_inherit=True, optimize=optimize)  # type: ignore[no-any-return]


# Python's own, whatever `dynamic` puts in its place.
_compile: Any = compile


class _Rewriter(ast.NodeTransformer):
    """Replaces what names NumPy.

    Parameters
    ----------
    bound : set of str
        Names that the program gives a meaning of its own.
    """

    def __init__(self, bound: set[str]) -> None:
        self._bound = bound

    def visit_Import(self, node: ast.Import) -> Any:
        if not any(bindings.is_bound(alias.name) for alias in node.names):
            return node
        return [_at(node, statement) for alias in node.names for statement in _imported(alias)]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        module = node.module or ""
        if node.level or not bindings.is_bound(module):
            return node
        if module not in bindings.BOUND:
            return node
        names = node.names
        if module == "numpy" and names[0].name == "*":
            # NumPy's names: ours has a few more, such as `config`, that the program may use for something else.
            names = [ast.copy_location(ast.alias(name), names[0]) for name in namespace.names()]
        return ast.copy_location(ast.ImportFrom(bindings.BOUND[module], names, 0), node)

    def visit_Name(self, node: ast.Name) -> Any:
        if node.id != "__import__" or "__import__" in self._bound or not isinstance(node.ctx, ast.Load):
            return node
        return _at(node, _ours("dynamic", "import_"))

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        called = node.func.id if isinstance(node.func, ast.Name) else ""
        if called in {"exec", "eval"} - self._bound and node.args and not isinstance(node.args[0], ast.Starred):
            text = ast.Call(_ours("dynamic", "text"), [node.args[0], ast.Constant(called)], [])
            node.args[0] = _at(node.args[0], text)
        return node


def _bound_names(tree: ast.AST) -> set[str]:
    """Return the names that a module binds anywhere."""
    bound = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
    return bound


def _imported(alias: ast.alias) -> list[ast.stmt]:
    """Return the statements for one name of an `import`."""
    name, asname = alias.name, alias.asname
    if not bindings.is_bound(name):
        return [ast.Import([alias])]
    top = name.partition(".")[0]
    ours = bindings.BOUND.get(name, name)
    if asname is not None or name == top:
        return [ast.Import([ast.alias(ours, asname or top)])]
    # The submodule is imported and the package bound: no other name may appear in the program's.
    return [ast.Import([ast.alias(each, top)]) for each in (ours, bindings.BOUND[top])]


def _ours(module: str, name: str) -> ast.expr:
    """Return an expression for an object of this package that needs no name in the program's."""
    fromlist: Any = (name,)
    arguments = [ast.Constant(value) for value in (f"oxinp._runner.{module}", None, None, fromlist)]
    found = ast.Call(ast.Name("__import__", ast.Load()), [*arguments], [])
    return ast.Attribute(found, name, ast.Load())


def _at(place: ast.AST, node: Any) -> Any:
    """Return a new node that stands where another one stood."""
    for each in ast.walk(node):
        if "lineno" in each._attributes and not hasattr(each, "lineno"):
            ast.copy_location(each, place)
    return node
