"""What a program imports, compiles and executes while it runs: the same binding as in its files.

``importlib.import_module`` and ``compile`` are replaced for the process, since doctest, timeit, runpy and the workers
of multiprocessing call them on the program's behalf; for a library's own calls they are what they were.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import copy
import importlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from oxinp._runner import bindings, finder, scalars
from oxinp._runner.rewrite import compile_source, compile_tree, may_name

__all__ = ["import_", "install", "text"]

_compile = compile
_import_module = importlib.import_module
_FEATURES = [getattr(__future__, name) for name in __future__.all_feature_names]
_FUTURES: int = sum({feature.compiler_flag for feature in _FEATURES} - {16})  # that one means nested scopes, too


def import_(
    name: str,
    globals: Mapping[str, object] | None = None,
    locals: Mapping[str, object] | None = None,
    fromlist: Sequence[str] = (),
    level: int = 0,
) -> Any:
    """See `__import__`, which this stands for in the user's modules."""
    if level or not bindings.is_bound(name):
        return __import__(name, globals, locals, fromlist, level)
    __import__(name, globals, locals, fromlist)
    module = bindings.bind(name)
    return module if fromlist else bindings.bind(name.partition(".")[0])


def text(given: Any, function: str) -> Any:
    """Return what `exec` or `eval`, called by the user, is to execute: code for text that may name NumPy."""
    if not isinstance(given, str | bytes | bytearray) or not may_name(given):
        return given
    source: Any = given
    if function == "eval":
        source = source.lstrip(" \t" if isinstance(given, str) else b" \t")
    return compile_source(source, "<string>", function, _inherited(sys._getframe(1)))


def _inherited(frame: FrameType) -> int:
    """Return the ``from __future__`` flags of the code that runs in a frame."""
    return frame.f_code.co_flags & _FUTURES


def _compile_anything(
    source: Any,
    filename: Any,
    mode: str,
    flags: int = 0,
    dont_inherit: bool = False,
    optimize: int = -1,
    **version: Any,
) -> Any:
    """See Python's `compile`; source text that is the user's is compiled with its imports of NumPy being of ours."""
    frame = sys._getframe(1)
    if not dont_inherit:
        flags |= _inherited(frame)
    if not flags & ast.PyCF_ONLY_AST and not version and _is_users(source, filename, frame):
        if isinstance(source, ast.AST):
            return compile_tree(copy.deepcopy(source), filename, mode, flags, optimize)
        if may_name(source):
            return compile_source(source, filename, mode, flags, optimize)
    return _compile(source, filename, mode, flags, True, optimize, **version)


def _is_users(source: Any, filename: Any, frame: FrameType) -> bool:
    """Whether a program's text, or its tree, is the user's: by its file or, where it has none, by who compiles it."""
    if not isinstance(source, str | bytes | bytearray | ast.AST):
        return False
    if not isinstance(filename, str) or filename.startswith("<frozen"):
        return False
    if finder.is_users_file(filename):
        return True
    # A kernel of Jupyter's gives its cells names of files that are not there.
    if filename.startswith("<"):
        is_users = finder.acts_for_user(frame)
    else:
        is_users = isinstance(source, ast.AST) and finder.is_typed(frame) and not Path(filename).exists()
    if is_users and filename != "<string>":  # which is what everybody calls it
        finder.add_text(filename)
    return is_users


def _import_any_module(name: str, package: str | None = None) -> Any:
    """See `importlib.import_module`; a user's call gets our module for NumPy's."""
    if bindings.is_bound(name) and finder.is_users_file(sys._getframe(1).f_code.co_filename):
        _import_module(name)
        return bindings.bind(name)
    return _import_module(name, package)


def install() -> None:
    """Put what binds in the place of what does not, from now on."""
    for function, ours in ((_compile, _compile_anything), (_import_module, _import_any_module)):
        ours.__name__ = ours.__qualname__ = function.__name__
        ours.__doc__ = function.__doc__
        ours.__module__ = function.__module__  # pickles name it
    builtins.compile = _compile_anything
    importlib.import_module = _import_any_module
    scalars.install()
