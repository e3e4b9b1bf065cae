"""Which modules are the user's, and their import with `numpy` bound to ours.

The user's are those under the folder that Python puts first on `sys.path` for the program: the script's, or the current
one. Installed libraries and the standard library are not, wherever they lie: they were written for NumPy's own arrays.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    SourceFileLoader,
    SourcelessFileLoader,
)
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np

# Imported now: a checkout that is not installed is on `sys.path` only until the script's folder takes its place.
import _driver
from oxinp._runner.rewrite import compile_source

__all__ = ["UsersLoader", "install", "is_users"]

_LIBRARY_FOLDERS = {"site-packages", "dist-packages"}
_FILES = (str(np.__file__), str(_driver.__file__), str(Path(__file__).parent))
_PACKAGES = [Path(path).resolve().parent for path in _FILES]
_STANDARD = [Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib")]


class UsersLoader(SourceFileLoader):
    """Loads a source file of the user's.

    Neither reads nor writes bytecode files: those beside the source belong to plain Python, where `numpy` is NumPy.
    """

    def get_code(self, fullname: str) -> CodeType:
        """Return the module's code, compiled anew."""
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)

    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> CodeType:  # type: ignore[override]
        """Return the code of source text."""
        return compile_source(data, os.fsdecode(path), _optimize)


def is_users(folder: str, root: Path) -> bool:
    """Whether modules found in a folder are the user's.

    Parameters
    ----------
    folder : str
        An entry of `sys.path` or of a package's ``__path__``.
    root : Path
        The program's folder, resolved.
    """
    path = Path(folder).resolve()
    if not path.is_relative_to(root) or not path.is_dir() or _LIBRARY_FOLDERS & set(path.parts):
        return False
    if any(path.is_relative_to(package) for package in _PACKAGES):
        return False
    return not any(path.is_relative_to(library) for library in _STANDARD)


def install(root: Path) -> None:
    """Load the modules under a folder with `numpy` bound to ours, from now on.

    Parameters
    ----------
    root : Path
        The program's folder.
    """
    root = root.resolve()
    make = FileFinder.path_hook(
        (ExtensionFileLoader, EXTENSION_SUFFIXES),
        (UsersLoader, SOURCE_SUFFIXES),
        (SourcelessFileLoader, BYTECODE_SUFFIXES),
    )

    def hook(folder: str) -> Any:
        if not is_users(folder, root):
            raise ImportError(f"not the user's: {folder}")
        return make(folder)

    sys.path_hooks.insert(0, hook)
    for folder in [folder for folder in sys.path_importer_cache if is_users(folder, root)]:
        del sys.path_importer_cache[folder]
