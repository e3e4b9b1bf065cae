"""The methods of arrays that reduce: one row per method, made from the reduction table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from oxinp._core.errors.hearing import of_one
from oxinp._core.host.fallback import NOT_DONE, call, on_host, on_hosts
from oxinp._core.host.spellings import with_spelling
from oxinp._core.lazy.explain import REPORTS
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.results import types
from oxinp._core.reduction import scan, table
from oxinp._core.reduction.reduce import again, reduce
from oxinp._core.reduction.table import Arguments, ReductionRow, ScanRow


def _method(
    row: ReductionRow | ScanRow, arguments: Arguments, compute: Callable[..., Any], ask: Callable[..., Any]
) -> Callable[..., Any]:
    numpys = getattr(np.ndarray, row.name)
    call_numpy = of_one(numpys)
    out_position = arguments.names.index("out")

    def general(self: Any, *args: Any, **kwargs: Any) -> Any:
        if type(self) is types.ndarray and (held := self._held) is not None and held.host is None:
            total = ask(row, self, args, kwargs)
            if total is not None:
                return total
        if len(args) <= out_position and "out" not in kwargs and not REPORTS:
            is_plain = not args and not kwargs and type(self) is types.ndarray
            result = on_host(call_numpy, self) if is_plain else on_hosts(numpys, (self, *args), kwargs, is_placed=True)
            if result is not NOT_DONE:
                return result
        try:
            return compute(row, self, **arguments.given(args, kwargs))
        except Unsupported:
            return call(numpys, (self, *args), kwargs, name=row.name, mutates=(out_position + 1, "out"))

    method = with_spelling(general, numpys)
    method.__name__ = row.name
    method.__qualname__ = f"ndarray.{row.name}"
    method.__doc__ = numpys.__doc__
    return method


def cumulate(row: ScanRow, array: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """Scan `array` along an axis, or flattened where there is none."""
    return scan.accumulate(row, array, axis, dtype, out)


def reduction_methods() -> dict[str, Any]:
    """Return the reducing methods, by name, for the class body of `ndarray`."""
    reducing = [row for row in table.REDUCTIONS if hasattr(np.ndarray, row.name)]
    methods = {row.name: _method(row, row.arguments, reduce, again) for row in reducing if row.arguments}
    return methods | {
        row.name: _method(row, table.SCANNED, cumulate, scan.again) for row in (table.CUMSUM, table.CUMPROD)
    }
