"""Who is told of kernels when they are traced, so that one compiles while the plan's next one is traced."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from oxinp._ptx import Kernel

    Tracing = Callable[[Callable[[], Kernel]], Kernel]

_TRACING: ContextVar[Tracing | None] = ContextVar("tracing", default=None)


@contextmanager
def tracing(by: Tracing) -> Iterator[None]:
    """Have kernels traced by a function that is given what traces each and returns it, inside the `with` block."""
    token = _TRACING.set(by)
    try:
        yield
    finally:
        _TRACING.reset(token)


def traced(make: Callable[..., Kernel]) -> Callable[..., Kernel]:
    """Decorate a function that traces a kernel: inside of `tracing`, that one's function calls it."""

    @wraps(make)
    def made(*args: Any) -> Kernel:
        by = _TRACING.get()
        return make(*args) if by is None else by(partial(make, *args))

    return made


__all__ = ["traced", "tracing"]
