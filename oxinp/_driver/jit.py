"""Options and logs of the driver's compiler and linker."""

from __future__ import annotations

import contextlib
import ctypes
from typing import TYPE_CHECKING

from oxinp._driver import errors
from oxinp._driver.enums import JitOption

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["JitOptions"]

_LOG_NBYTES = 1 << 16


class JitOptions:
    """Options of the compiler, and the buffers of its logs: keep this object until the compiler is done.

    Parameters
    ----------
    is_verbose : bool
        Whether the information log names registers, spills and shared memory per kernel.

    Attributes
    ----------
    arguments : tuple
        Number of options, their names, their values, as every driver function that takes options wants them.
    """

    __slots__ = ("_error", "_info", "_names", "_values", "arguments")

    def __init__(self, *, is_verbose: bool) -> None:
        self._info = ctypes.create_string_buffer(_LOG_NBYTES)
        self._error = ctypes.create_string_buffer(_LOG_NBYTES)
        options = {
            JitOption.INFO_LOG_BUFFER: ctypes.addressof(self._info),
            JitOption.INFO_LOG_BUFFER_SIZE_BYTES: _LOG_NBYTES,
            JitOption.ERROR_LOG_BUFFER: ctypes.addressof(self._error),
            JitOption.ERROR_LOG_BUFFER_SIZE_BYTES: _LOG_NBYTES,
            JitOption.LOG_VERBOSE: int(is_verbose),
        }
        # Numbers are stored in the pointers themselves. The driver writes the lengths of the logs into their slots.
        self._names = (ctypes.c_int * len(options))(*options)
        self._values = (ctypes.c_void_p * len(options))(*options.values())
        self.arguments = (len(options), self._names, self._values)

    @property
    def info_log(self) -> str:
        """Messages of the compiler that are not errors."""
        return self._info.value.decode(errors="replace").strip()

    @property
    def error_log(self) -> str:
        """The errors the compiler found."""
        return self._error.value.decode(errors="replace").strip()

    @contextlib.contextmanager
    def reporting(self) -> Iterator[None]:
        """Add the log to errors of driver calls made inside the `with` block."""
        try:
            yield
        except errors.CudaError as error:
            log = self.error_log or self.info_log
            if not log:
                raise
            explained = type(error)(f"{error}\n{log}", code=error.code, name=error.name, call=error.call)
            if isinstance(explained, errors.CompileError):
                explained.log = log
            raise explained from None
