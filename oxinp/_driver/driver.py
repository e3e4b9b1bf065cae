"""The driver, callable: its functions with their results checked, started once per process."""

from __future__ import annotations

import ctypes
import os
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING

from oxinp._driver import errors
from oxinp._driver.api import FUNCTIONS, MINIMUM_VERSION
from oxinp._driver.library import find

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._driver.api import DriverFunction
    from oxinp._driver.library import Library

__all__ = ["Driver", "load", "start"]


class Driver:
    """The functions of a driver library as attributes; a result that is not CUDA_SUCCESS raises.

    Parameters
    ----------
    library : Library
        Where functions are looked up.
    recover : Callable, optional
        Makes a context current in the calling thread. A call that finds none there is repeated after it.
    suspects : Callable, optional
        Returns the names of the kernels that may be to blame for a fault of the device, the last launched first.
    enter : Callable, optional
        Makes a context current and returns a function that restores what was current before; None where it already is.
        Used once `contexts` has more than one entry: what most calls do depends on the context that is current.
    contexts : set of int, optional
        Handles of the contexts that were made of the library's devices.

    Attributes
    ----------
    ends : list of CudaError
        What `retire` was given, at most one.
    fault : DeviceFault or None
        What ended the context. It is the first one; every call from then on is refused before the driver sees it,
        since some would wait for ever for a device that does nothing any more.

    Raises
    ------
    CudaError
        From every call: what the result stands for; `DriverTooOld` where the library lacks the function.
    """

    def __init__(
        self,
        library: Library,
        recover: Callable[[], None] | None = None,
        suspects: Callable[[], tuple[str, ...]] | None = None,
        enter: Callable[[], Callable[[], None] | None] | None = None,
        contexts: set[int] | None = None,
    ) -> None:
        self.library = library
        self._recover = recover
        self._suspects = suspects
        self._enter = enter
        self.contexts: set[int] = set() if contexts is None else contexts
        self.ends: list[errors.CudaError] = []  # a list, so that every call sees it in its closure

    @property
    def fault(self) -> errors.DeviceFault | None:
        """The fault that ended the context, if one has."""
        end = self.ends[0] if self.ends else None
        return end if isinstance(end, errors.DeviceFault) else None

    def retire(self, error: errors.CudaError) -> None:
        """Let every call from now on raise what `error` says; the first one counts."""
        self.ends.append(error)

    @cached_property
    def version(self) -> int:
        """CUDA version the driver offers, 12040 for 12.4."""
        version = ctypes.c_int()
        self.cuDriverGetVersion(ctypes.byref(version))
        return version.value

    def raw(self, name: str) -> Callable[..., int]:
        """Return a function that gives its CUresult and checks nothing."""
        return self._bind(FUNCTIONS[name])

    def raw_hot(self, name: str) -> Callable[..., int]:
        """Return a function as `raw` does which keeps the interpreter lock, and converts no arguments."""
        return self._bind(FUNCTIONS[name]._replace(is_hot=True))

    def _bind(self, row: DriverFunction) -> Callable[..., int]:
        name = row.name
        try:
            return self.library.bind(row)
        except AttributeError:
            # Asked for as a function of its own: the version may be what is missing.
            found = "of an unknown version" if name == "cuDriverGetVersion" else errors.version_text(self.version)
            raise errors.DriverTooOld(
                f"{name} needs a driver for CUDA {errors.version_text(row.since)} or newer; this one is {found}. "
                "Install a newer NVIDIA driver.",
                call=name,
            ) from None

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name not in FUNCTIONS:
            raise AttributeError(f"the table of driver functions has no {name!r}")
        raw, recover, ends = self.raw(name), self._recover, self.ends
        enter, contexts = self._enter, self.contexts

        def call(*arguments: object) -> None:
            if ends:
                raise _refusal(name, ends[0])
            leave = enter() if len(contexts) > 1 and enter is not None else None
            if leave is None:
                result = raw(*arguments)
            else:
                try:
                    result = raw(*arguments)
                finally:
                    leave()
            if result == errors.INVALID_CONTEXT and recover is not None:
                recover()
                result = raw(*arguments)
            if result:
                raise self.error(result, name)

        setattr(self, name, call)
        return call

    def query(self, name: str, handle: int) -> bool:
        """Return True for CUDA_SUCCESS and False for CUDA_ERROR_NOT_READY."""
        try:
            getattr(self, name)(handle)
        except errors.NotReady:
            return False
        return True

    def error(self, result: int, name: str, detail: str = "") -> errors.CudaError:
        """Return the exception for a result of a function."""
        if self.library.is_forked:
            return errors.ForkedProcess(
                f"{name} cannot work in this process: it was forked from one that already used the GPU, and CUDA does "
                "not survive that. Start it with multiprocessing.get_context('spawn') (or 'forkserver'), or "
                "use the GPU only after the fork.",
                code=result,
                call=name,
            )
        if self.ends:
            return _refusal(name, self.ends[0])
        error = errors.from_result(result, name, detail)
        return self._lose(error) if isinstance(error, errors.DeviceFault) else error

    def _lose(self, error: errors.DeviceFault) -> errors.DeviceFault:
        """Remember the fault that ended the context, with the kernels that may have caused it."""
        kernels = () if self._suspects is None else self._suspects()
        if kernels:
            told = f"{error} {_accuse(kernels)}"
            error = errors.DeviceFault(told, code=error.code, name=error.name, call=error.call)
            error.kernels = kernels
        self.retire(error)
        return error


def _accuse(kernels: tuple[str, ...]) -> str:
    if len(kernels) == 1:
        return f"The kernel was {kernels[0]}."
    return (
        f"One of the kernels launched since the device was last waited for is to blame; the last first: "
        f"{', '.join(kernels)}. With OXINP_SYNCHRONOUS=1 the line that launched it raises the error."
    )


def _refusal(name: str, end: errors.CudaError) -> errors.CudaError:
    """Return what a call of a context that has ended raises."""
    if not isinstance(end, errors.DeviceFault):
        return type(end)(f"{name} was not called: {end}", code=end.code, name=end.name, call=name)
    told = f"{name} was not called: this process has lost the device, when {end}"
    error = errors.DeviceFault(told, code=end.code, name=end.name, call=name)
    error.kernels = end.kernels
    return error


def start(library: Library) -> Driver:
    """Check the version of a library, initialise it and return its functions.

    Raises
    ------
    Unavailable
        It is too old, finds no device, or cannot work; says why.
    """
    driver = Driver(library)
    if driver.version < MINIMUM_VERSION:
        raise errors.DriverTooOld(
            f"The NVIDIA driver offers CUDA {errors.version_text(driver.version)}, needed is "
            f"{errors.version_text(MINIMUM_VERSION)} or newer. Install a newer NVIDIA driver.",
            call="cuDriverGetVersion",
        )
    driver.cuInit(0)
    library.watch_fork()
    return driver


_lock = Lock()
if hasattr(os, "register_at_fork"):  # a thread that the child has not may hold it
    os.register_at_fork(after_in_child=_lock._at_fork_reinit)  # type: ignore[attr-defined]
_loaded: Driver | None = None


def load() -> Driver:
    """Return the driver of this machine, loaded and initialised by the first call.

    Raises
    ------
    Unavailable
        There is none that can be used; says why and what would help.
    """
    global _loaded
    if _loaded is None:
        with _lock:
            if _loaded is None:
                _loaded = start(find())
    return _loaded
