"""Arrays: what NumPy users see, over layouts, storages, expressions and the scheduler."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any


def __getattr__(name: str) -> Any:
    """Return what programs that reach into NumPy find there: ``np._core.umath`` is NumPy's own."""
    if name.startswith("__") or find_spec(f"{__name__}.{name}") is not None:  # one of ours, not imported yet
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    numpys = import_module("numpy._core")
    try:
        return getattr(numpys, name)
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
