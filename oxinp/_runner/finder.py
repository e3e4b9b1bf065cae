"""Which modules are the user's, and their import with `numpy` bound to ours.

The user's are those under the folder that Python puts first on `sys.path` for the program: the script's, or the current
one. Installed libraries and the standard library are not, wherever they lie: they were written for NumPy's own arrays.
Whatever asks whose a line is (the imports, the profile, the verification) asks here.
"""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
import zipimport
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
from types import CodeType, FrameType
from typing import Any

import numpy as np

from oxinp._runner.rewrite import compile_source

__all__ = ["UsersLoader", "UsersZip", "acts_for_user", "find_frame", "install", "is_users", "is_users_file", "root"]

_LIBRARY_FOLDERS = {"site-packages", "dist-packages"}
_OURS = Path(__file__).resolve().parents[1]
_OURS_AS_WRITTEN = f"{_OURS}{os.sep}"
_PACKAGES = [Path(str(np.__file__)).resolve().parent, _OURS]
_STANDARD = [Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib")]


_roots: list[Path] = []  # the program's folder, once it is known
_texts: set[str] = set()  # what the program's own text is called, if it comes from no file


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
        return compile_source(data, os.fsdecode(path), optimize=_optimize)


class UsersZip(zipimport.zipimporter):
    """Loads modules of the user's out of a zip file: from source where it is there."""

    def get_code(self, fullname: str) -> CodeType:
        """Return the module's code."""
        source = self.get_source(fullname)
        return super().get_code(fullname) if source is None else compile_source(source, self.get_filename(fullname))


def root() -> Path | None:
    """Return the program's folder (or zip file), resolved; None before it is known."""
    return _roots[0] if _roots else None


def is_users(folder: str) -> bool:
    """Whether modules found in a folder, or in a zip file, are the user's.

    Parameters
    ----------
    folder : str
        An entry of `sys.path` or of a package's ``__path__``.
    """
    if _is_ours_as_written(folder):
        return False
    path = Path(folder).resolve()
    if not any(path.is_relative_to(each) for each in _roots) or _LIBRARY_FOLDERS & set(path.parts):
        return False
    return not any(path.is_relative_to(library) for library in (*_PACKAGES, *_STANDARD))


def _is_ours_as_written(folder: str) -> bool:
    """Whether a folder is one of oxinp's by its name: a look at the disk for each would cost tens of milliseconds."""
    return f"{folder}{os.sep}".startswith(_OURS_AS_WRITTEN) and os.pardir not in folder


@functools.lru_cache(maxsize=4096)
def is_users_file(filename: str) -> bool:
    """Whether code is the user's, by the file name that its code object has."""
    if filename.startswith("<"):
        return filename in _texts
    return is_users(os.path.dirname(filename))  # noqa: PTH120 - of a name that Python made


@functools.lru_cache(maxsize=4096)
def is_nobodys_file(filename: str) -> bool:
    """Whether code is neither the user's nor a library's: the standard library, ours, or text without a file."""
    if filename.startswith("<") and filename not in _texts:
        return True
    path = Path(filename).resolve()
    if _LIBRARY_FOLDERS & set(path.parts):
        return False
    return any(path.is_relative_to(folder) for folder in (_OURS, *_STANDARD))


def find_frame(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame, from one outwards, whose code is the user's."""
    while frame is not None and not is_users_file(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def acts_for_user(frame: FrameType | None) -> bool:
    """Whether a frame runs on the user's behalf: no library stands between it and the user's innermost frame."""
    while frame is not None:
        if is_users_file(frame.f_code.co_filename):
            return True
        if not is_nobodys_file(frame.f_code.co_filename):
            return False
        frame = frame.f_back
    return True


def install(root: Path, text: str | None = None) -> None:
    """Load the modules under a folder with `numpy` bound to ours, from now on.

    Parameters
    ----------
    root : Path
        The program's folder, or its zip file.
    text : str or None
        What the program's code is called, where it comes from no file.
    """
    _roots[:] = [root.resolve()]
    if text is not None:
        _texts.add(text)
    is_users_file.cache_clear()
    make = FileFinder.path_hook(
        (ExtensionFileLoader, EXTENSION_SUFFIXES),
        (UsersLoader, SOURCE_SUFFIXES),
        (SourcelessFileLoader, BYTECODE_SUFFIXES),
    )

    def hook(folder: str) -> Any:
        if not is_users(folder):
            raise ImportError(f"not the user's: {folder}")
        return make(folder) if Path(folder).is_dir() else UsersZip(folder)

    sys.path_hooks.insert(0, hook)
    for folder in [folder for folder in sys.path_importer_cache if is_users(folder)]:
        del sys.path_importer_cache[folder]
