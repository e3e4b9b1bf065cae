"""Functions that are placed as a whole: LAPACK's on the host where that was measured to be faster."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from oxinp._core.array import dispatch
from oxinp._core.host.fallback import OUT, placed_on_host
from oxinp._core.ops.crossover import belongs_on_host

__all__ = ["may_overwrite", "placed"]

Function = Callable[..., Any]
PERMISSION = "overwrite_"


def may_overwrite(theirs: Function) -> tuple[str, ...]:
    """Tell fallbacks which arguments a function may overwrite where it is allowed to; return its parameters."""
    names = tuple(inspect.signature(theirs).parameters)
    targets = {PERMISSION + name: name for name in names}
    written = [(targets[name], name, True) for name in names if name in targets]
    if written:
        dispatch.mutates.setdefault(theirs, (*written, *OUT))
    return names


def placed(routine: str, theirs: Function) -> Callable[[Function], Function]:
    """Let NumPy or SciPy compute where the first argument belongs on the host, which is no fallback.

    Parameters
    ----------
    routine : str
        Whose crossover counts.
    theirs : callable
        It writes to none of its arguments but with a permission that begins with ``overwrite``, which it is not given.

    Returns
    -------
    callable
        A decorator of ours, whose arguments are theirs.
    """
    names = may_overwrite(theirs)

    def decorate(ours: Function) -> Function:
        @wraps(ours)
        def placing(*args: Any, **kwargs: Any) -> Any:
            if not args or not belongs_on_host(routine, args[0]):
                return ours(*args, **kwargs)
            given = [x if not name.startswith(PERMISSION) else False for x, name in zip(args, names, strict=False)]
            kept = {name: x for name, x in kwargs.items() if not name.startswith(PERMISSION)}
            return placed_on_host(theirs, (*given, *args[len(names) :]), kept)

        return placing

    return decorate
