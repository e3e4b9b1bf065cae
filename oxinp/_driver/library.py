"""The driver library: where it is, how functions are taken from it, and what becomes of them in a forked child."""

from __future__ import annotations

import ctypes
import os
import sys
from typing import TYPE_CHECKING, Protocol

from oxinp._driver import errors
from oxinp._driver.api import argument_types
from oxinp._driver.early import FILE_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._driver.api import DriverFunction

__all__ = ["Library", "SharedLibrary", "find"]


class Library(Protocol):
    """Something that has the functions of the table `api.FUNCTIONS`."""

    is_forked: bool
    """This process was forked after the library had been initialised."""

    def bind(self, row: DriverFunction, /) -> Callable[..., int]:
        """Return a function; AttributeError where there is none of that name."""
        ...

    def watch_fork(self) -> None:
        """From now on the functions are of no use in a forked child, and have to say so there."""
        ...


def _refuse() -> int:
    return errors.NOT_INITIALIZED


class SharedLibrary:
    """A driver library opened with ctypes.

    Parameters
    ----------
    path : str or None
        What the operating system's loader takes.

    Raises
    ------
    OSError
        There is none.

    Notes
    -----
    CUDA does not survive a fork, and most of its functions then fail in ways that hang or mislead. Testing for it
    before each launch would cost every launch something. Instead the child gets other functions: a ctypes function
    object is a cell that holds an address, and after a fork every cell given out is made to point to `_refuse`. Callers
    see an ordinary CUresult, and `is_forked` tells them what it means.
    """

    def __init__(self, path: str | None) -> None:
        self.is_forked = False
        self._releasing = ctypes.CDLL(path)
        self._keeping = ctypes.PyDLL(path)
        self._bound: dict[DriverFunction, ctypes._NamedFuncPointer] = {}
        # Made here: the child should not have to build anything.
        self._refusal = ctypes.CFUNCTYPE(ctypes.c_int)(_refuse)

    def bind(self, row: DriverFunction) -> Callable[..., int]:
        """Return a function, with its argument types set; AttributeError where there is none of that name."""
        bound = self._bound.get(row)
        if bound is None:
            bound = getattr(self._keeping if row.is_hot else self._releasing, row.name)
            bound.restype = ctypes.c_int
            if not row.is_hot:
                bound.argtypes = argument_types(row)
            self._bound[row] = bound
            if self.is_forked:
                self._disable(bound)
        function: Callable[..., int] = bound
        return function

    def watch_fork(self) -> None:
        """Disable every function in children forked from now on."""
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork_in_child)

    def _after_fork_in_child(self) -> None:
        self.is_forked = True
        for bound in self._bound.values():
            self._disable(bound)

    def _disable(self, bound: ctypes._NamedFuncPointer) -> None:
        address = ctypes.cast(self._refusal, ctypes.c_void_p).value
        ctypes.c_void_p.from_address(ctypes.addressof(bound)).value = address


_ABSENT = ("No such file or directory", "Could not find module")  # what the systems' loaders say of no file


def find(platform: str = sys.platform, opener: Callable[[str], Library] = SharedLibrary) -> Library:
    """Return the driver library of this machine, opened.

    Parameters
    ----------
    platform : str
        As `sys.platform` names it.
    opener : Callable
        Takes a file name; raises OSError where there is no such library.

    Raises
    ------
    UnsupportedPlatform
        CUDA does not exist there.
    NoDriver
        It is not installed; says what was tried.
    """
    names = FILE_NAMES.get(platform)
    if names is None:
        raise errors.UnsupportedPlatform(
            f"NVIDIA has no CUDA driver for this platform ({platform}). Use Linux or Windows for the GPU."
        )
    failures = []
    for name in names:
        try:
            return opener(name)
        except OSError as error:
            said = str(error)
            if not any(absent in said for absent in _ABSENT):
                failures.append(said if name in said else f"{name}: {said}")
    reason = "; ".join(failures) or f"there is no {names[0]}"
    raise errors.NoDriver(
        f"The NVIDIA driver's library could not be loaded: {reason}. Install the NVIDIA driver; in a container, start "
        "it with access to GPUs (docker run --gpus all)."
    )
