"""The methods of arrays that reduce: one row per method, made from the reduction table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from oxinp._config import config
from oxinp._core.host.fallback import NOT_DONE, call, on_hosts
from oxinp._core.lazy.explain import REPORTS
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.reduction import table
from oxinp._core.reduction.reduce import reduce
from oxinp._core.reduction.scan import accumulate
from oxinp._core.reduction.table import ReductionRow, ScanRow

_WITH_DTYPE = ("axis", "dtype", "out", "keepdims", "initial", "where")
_WITHOUT_DTYPE = ("axis", "out", "keepdims", "initial", "where")

# Row -> its method's parameters, in NumPy's order, and how many of them may be given by position.
METHODS: dict[ReductionRow, tuple[tuple[str, ...], int]] = {
    table.SUM: (_WITH_DTYPE, 6),
    table.PROD: (_WITH_DTYPE, 6),
    table.MAX: (_WITHOUT_DTYPE, 5),
    table.MIN: (_WITHOUT_DTYPE, 5),
    table.ANY: (("axis", "dtype", "out", "keepdims", "where"), 4),
    table.ALL: (("axis", "dtype", "out", "keepdims", "where"), 4),
    table.MEAN: (("axis", "dtype", "out", "keepdims", "where"), 4),
    table.VAR: (("axis", "dtype", "out", "ddof", "keepdims", "where", "mean"), 5),
    table.STD: (("axis", "dtype", "out", "ddof", "keepdims", "where", "mean"), 5),
    table.ARGMAX: (("axis", "out", "keepdims"), 2),
    table.ARGMIN: (("axis", "out", "keepdims"), 2),
}


def _method(
    row: ReductionRow | ScanRow, names: tuple[str, ...], num_positional: int, compute: Callable[..., Any] = reduce
) -> Callable[..., Any]:
    numpys = getattr(np.ndarray, row.name)
    known = frozenset(names)
    out_position = names.index("out")

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if len(args) <= out_position and "out" not in kwargs and not REPORTS:
            result = on_hosts(numpys, (self, *args), kwargs, config.offload_threshold)
            if result is not NOT_DONE:
                return result
        given = dict(zip(names, args, strict=False), **kwargs) if args else kwargs
        is_clear = len(given) == len(args) + len(kwargs) and len(args) <= num_positional
        if is_clear and known.issuperset(given):
            try:
                return compute(row, self, **given)
            except Unsupported:
                pass
        return call(numpys, (self, *args), kwargs, name=row.name, mutates=(out_position + 1, "out"))

    method.__name__ = row.name
    method.__qualname__ = f"ndarray.{row.name}"
    method.__doc__ = numpys.__doc__
    return method


def cumulate(row: ScanRow, array: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """Scan `array` along an axis, or flattened where there is none."""
    return accumulate(row, array, axis, dtype, out)


CUMULATIVE = (table.CUMSUM, table.CUMPROD)


def reduction_methods() -> dict[str, Any]:
    """Return the reducing methods, by name, for the class body of `ndarray`."""
    methods = {row.name: _method(row, names, num_positional) for row, (names, num_positional) in METHODS.items()}
    return methods | {row.name: _method(row, ("axis", "dtype", "out"), 3, cumulate) for row in CUMULATIVE}
