"""Narrow types, computed in the next ones that the hardware has arithmetic for."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from oxinp._ptx.types import f16, f32, i32, u32

Function = Callable[..., Any]


def widened(function: Function) -> Function:
    """Return `function` for narrow types, too: integers in 32 bits and f16 in f32, then back.

    Right where the wide result, cut or rounded to the narrow type, is the narrow result.
    """

    @functools.wraps(function)
    def lower(k: Any, *values: Any) -> Any:
        narrow = values[0].type
        wide = _WIDE.get((narrow.kind, narrow.bits))
        if wide is None:
            return function(k, *values)
        result = function(k, *[k.cast(v, wide) if v.type is narrow else v for v in values])
        return k.cast(result, narrow) if result.type is wide else result

    return lower


_WIDE = {("i", 8): i32, ("i", 16): i32, ("u", 8): u32, ("u", 16): u32, (f16.kind, 16): f32}
