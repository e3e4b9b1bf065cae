"""Imports of NumPy in a user's source, turned into imports of ours when it is compiled.

Done in the syntax tree, so nothing is left to do at run time, every line keeps its number and every traceback its
frames. The statements that import from ``numpy`` or one of its submodules name the module of ours instead; a submodule
that oxinp has not stays NumPy's own.
"""

from __future__ import annotations

import ast
from types import CodeType
from typing import Any

from oxinp._api import modules, namespace

__all__ = ["compile_source"]

_OURS = {"numpy": "oxinp", **{f"numpy.{path}": f"oxinp.{path}" for path in modules.SUBMODULES}}


def compile_source(source: bytes | str, filename: str, optimize: int = -1) -> CodeType:
    """Return the code of a module, its imports of NumPy being of ours.

    Parameters
    ----------
    source : bytes or str
        Bytes may declare an encoding, as in any Python file.
    filename : str
        What tracebacks call it.
    optimize : int
        As `compile` takes it.

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
    tree = compile(source, filename, "exec", ast.PyCF_ONLY_AST, dont_inherit=True, optimize=optimize)
    return compile(_Rewriter().visit(tree), filename, "exec", dont_inherit=True, optimize=optimize)


class _Rewriter(ast.NodeTransformer):
    """Replaces the import statements that name NumPy."""

    def visit_Import(self, node: ast.Import) -> Any:
        if not any(_is_numpys(alias.name) for alias in node.names):
            return node
        return [ast.copy_location(statement, node) for alias in node.names for statement in _bound(alias)]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        if node.level or node.module not in _OURS:
            return node
        names = node.names
        if node.module == "numpy" and names[0].name == "*":
            # NumPy's names: ours has a few more, such as `config`, that the program may use for something else.
            names = [ast.copy_location(ast.alias(name), names[0]) for name in namespace.names()]
        return ast.copy_location(ast.ImportFrom(_OURS[node.module], names, 0), node)


def _is_numpys(name: str) -> bool:
    return name == "numpy" or name.startswith("numpy.")


def _bound(alias: ast.alias) -> list[ast.Import]:
    """Return the statements for one name of an `import`."""
    if not _is_numpys(alias.name):
        return [ast.Import([alias])]
    ours = _OURS.get(alias.name, alias.name)
    if alias.asname is not None or alias.name == "numpy":
        return [ast.Import([ast.copy_location(ast.alias(ours, alias.asname or "numpy"), alias)])]
    # `import numpy.linalg` imports the submodule and binds the package; no other name may appear in the program's.
    return [ast.Import([ast.copy_location(ast.alias(name, "numpy"), alias)]) for name in (ours, "oxinp")]
