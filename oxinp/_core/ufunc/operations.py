"""What rows of the ufunc table record: an elementwise operation per output, whose loops NumPy chooses."""

from __future__ import annotations

import functools
from typing import Any

from oxinp._core.lazy.balance import WEIGHTS
from oxinp._core.lazy.expr import Loop, Operation, Unsupported
from oxinp._core.memory.dtypes import FLOAT16
from oxinp._core.ufunc import exceptions
from oxinp._core.ufunc.table import UfuncRow
from oxinp._kernels.flags import NOTHING
from oxinp._ptx.math.widen import widened

_widened = functools.cache(widened)  # one lowering for each, or graphs would not be equal


def operations_of(
    row: UfuncRow, signature: tuple[Any, ...] | None = None, casting: str = "same_kind"
) -> tuple[Operation, ...]:
    """Return what is recorded for each output of a row of the ufunc table.

    Parameters
    ----------
    row : UfuncRow
    signature, casting
        See `numpy.ufunc.resolve_dtypes`.
    """
    made = tuple(_operation_of(row, i, signature, casting) for i in range(row.numpy.nout))
    for operation in made:
        operation.outputs = made  # recorded together: one kernel computes all that are wanted
    made[0].raises = exceptions.OF_UFUNCS.get(row.numpy) or NOTHING  # of several outputs, the first tells of all
    return made


def _operation_of(row: UfuncRow, output: int, signature: tuple[Any, ...] | None, casting: Any) -> Operation:
    lowering = row.lowerings[output]
    num_inputs = row.numpy.nin
    options: Any = {"casting": casting} if signature is None else {"signature": signature, "casting": casting}

    def find_loop(kinds: tuple[Any, ...]) -> Loop:
        if any(getattr(kind, "kind", "") == "V" for kind in kinds):  # compared by Python's operators, not by ufuncs
            raise Unsupported("structured dtypes have no kernels")
        dtypes = row.numpy.resolve_dtypes((*kinds, *[None] * row.numpy.nout), **options)
        first = dtypes[0]
        lower = lowering.get(first.name)
        if lower is None:
            lower = lowering.get(first.kind)
            if lower is not None and first == FLOAT16:
                lower = _widened(lower)  # as NumPy computes: rounded after each operation
        if lower is None:
            msg = f"{row.name} has no kernel for {dtypes[0]}"
            raise Unsupported(msg)
        WEIGHTS[lower] = row.weight_of(first.kind)
        return Loop(dtypes[:num_inputs], dtypes[num_inputs + output], lower)

    return Operation(row.name, find_loop, row.weight, takes_any_integer=row.takes_any_integer)
