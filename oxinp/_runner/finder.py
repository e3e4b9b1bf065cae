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
from oxinp._version import __version__

__all__ = [
    "UsersFinder",
    "UsersLoader",
    "UsersZip",
    "acts_for_user",
    "add_text",
    "find_frame",
    "install",
    "is_typed",
    "is_users",
    "is_users_file",
    "root",
]

_SHELLS = {"IPython", "_pytest"}  # packages that compile and execute what their users type, or have in docstrings
_LIBRARY_FOLDERS = {"site-packages", "dist-packages"}
_OURS = Path(__file__).resolve().parents[1]
_OURS_AS_WRITTEN = f"{_OURS}{os.sep}"
_PACKAGES = [Path(str(np.__file__)).resolve().parent, _OURS]
_STANDARD = [Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib")]


_roots: list[Path] = []  # the program's folder, once it is known
_texts: set[str] = set()  # what the program's own text is called, where it comes from no file


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


class UsersFinder(FileFinder):
    """Finds modules in a folder of the user's.

    pytest asks it for a test module before it looks for the code that an earlier run has kept of that, which is of a
    plain run's imports: from then on it keeps what is bound to oxinp apart.
    """

    def find_spec(self, fullname: str, target: Any = None) -> Any:
        """Return the module's spec."""
        pytests: Any = sys.modules.get("_pytest.assertion.rewrite")
        suffix = getattr(pytests, "PYC_TAIL", None)  # None while it is being imported
        if suffix is not None and not suffix.startswith(".oxinp-"):
            pytests.PYC_TAIL = f".oxinp-{__version__}{suffix}"
        return super().find_spec(fullname, target)


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


def is_users_file(filename: str) -> bool:
    """Whether code is the user's, by the file name that its code object has."""
    return filename in _texts or _lies_in_users_folder(filename)


@functools.lru_cache(maxsize=4096)
def _lies_in_users_folder(filename: str) -> bool:
    return not filename.startswith("<") and is_users(os.path.dirname(filename))  # noqa: PTH120 - a name of Python's


def add_text(name: str) -> None:
    """Take what is compiled under a name, and comes from no file, for the user's from now on."""
    _texts.add(name)


@functools.lru_cache(maxsize=4096)
def is_nobodys_file(filename: str) -> bool:
    """Whether code is neither the user's nor a library's: the standard library, ours, or text without a file."""
    if filename.startswith("<"):
        return True
    path = Path(filename).resolve()
    if path.is_relative_to(_OURS):  # which may lie among the installed libraries
        return True
    return not _LIBRARY_FOLDERS & set(path.parts) and any(path.is_relative_to(folder) for folder in _STANDARD)


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
            return _is_of_shell(frame)
        frame = frame.f_back
    return True


def is_typed(frame: FrameType | None) -> bool:
    """Whether a frame runs on behalf of an interactive shell."""
    while frame is not None and is_nobodys_file(frame.f_code.co_filename):
        frame = frame.f_back
    return frame is not None and _is_of_shell(frame)


def _is_of_shell(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] in _SHELLS


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
        add_text(text)
    _lies_in_users_folder.cache_clear()
    make = UsersFinder.path_hook(
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
