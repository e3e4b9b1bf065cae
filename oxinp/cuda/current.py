"""Current: the backend as this package sees it, and what it does to pending work."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from oxinp import _runtime
from oxinp._runtime import hooks

if TYPE_CHECKING:
    from oxinp._runtime.cuda import CudaBackend

__all__ = ["cuda_backend", "flush"]


def cuda_backend() -> CudaBackend | None:
    """Return the backend in use if it is a GPU; elsewhere work is done as soon as it is asked for."""
    backend = _runtime.current()
    return cast("CudaBackend", backend) if backend is not None and backend.name == "cuda" else None


def flush() -> None:
    """Launch everything that is pending on the current stream, without waiting for it."""
    for hook in tuple(hooks.before_synchronize):
        hook()
