"""What `power` has beyond a row: exponents that NumPy refuses, and those for which it computes something simpler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from oxinp._config import config
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.handle import Handle, fetch, host_view
from oxinp._core.lazy.masked import applied, shaped, update
from oxinp._core.lazy.operands import declined, declined_in_place, operand_in_place, other_side
from oxinp._core.lazy.placement import is_recorded_on_host
from oxinp._core.lazy.record import cost_of, is_hosted
from oxinp._core.lazy.stores import check_cast, check_writeable
from oxinp._core.reduction.reduce import reduce
from oxinp._core.reduction.table import ANY
from oxinp._core.ufunc.object import OBJECTS, ufunc
from oxinp._core.ufunc.operator_texts import SIMPLER
from oxinp._core.ufunc.operators import on_common_ways
from oxinp._core.ufunc.table import UfuncRow

_F16 = np.dtype(np.float16)


def _kind_of(operand: Any) -> str:
    """Return the dtype kind of an array, or of a scalar."""
    if isinstance(operand, Handle):
        return operand._layout.dtype.kind
    return operand.dtype.kind if isinstance(operand, np.generic) else np.dtype(type(operand)).kind


def _refuse_negative(base: Any, exponent: Any, where: Any, options: dict[str, Any]) -> None:
    """Raise what NumPy raises for integers to negative integer powers; where that depends on the device, wait for it.

    Parameters
    ----------
    base, exponent : Handle or scalar
    where : object or None
        Which elements count.
    options : dict
        What else the call says, such as the dtype to compute in.

    Raises
    ------
    ValueError
        An exponent is negative.
    Unsupported
        One is, and whether it counts depends on `where`.
    """
    if _kind_of(exponent) != "i" or _kind_of(base) not in "iub":
        return
    if any(isinstance(x, Handle) and not x._layout.size for x in (base, exponent)):
        return  # there is none, nor an element to raise
    if not _any_negative(exponent):
        return
    if where is not None:
        raise Unsupported("negative exponents of some elements")
    stand_ins = [np.ones(1, x._layout.dtype) if isinstance(x, Handle) else x for x in (base, exponent)]
    stand_ins[1] = stand_ins[1] * 0 - 1 if isinstance(exponent, Handle) else exponent
    np.power(*stand_ins, **options)  # NumPy's own error, unless it computes these dtypes as floats


def _any_negative(exponent: Any) -> bool:
    if not isinstance(exponent, Handle):
        return bool(exponent < 0)
    if exponent._storage.host is not None:
        return bool((host_view(exponent) < 0).any())
    return bool(reduce(ANY, OBJECTS["less"](exponent, 0)) if exponent._layout.ndim else fetch(exponent) < 0)


def _takes(base: Handle, exponent: float) -> bool:
    """Whether no element of what has not been selected refuses an exponent: of integers some may, if there are any."""
    return exponent > 0 or not issubclass(shaped(base, is_counted=False).dtype.type, np.integer | np.bool_)


def _simpler(base: Any, exponent: Any, *, is_operator: bool) -> tuple[str, np.dtype[Any]] | None:
    """Return the ufunc that NumPy computes in place of a power, and its dtype; None for none.

    Parameters
    ----------
    base, exponent : Handle or scalar
    is_operator : bool
        ``base ** exponent`` rather than the ufunc, whose f16 loop knows no simpler ones.
    """
    if isinstance(exponent, Handle) or not isinstance(base, Handle):
        return None
    name = SIMPLER.get(exponent)
    if name is None:
        return None
    kind = type(exponent) if type(exponent) in (int, float) else np.dtype(type(exponent))
    dtype = np.power.resolve_dtypes((base._layout.dtype, kind, None))[0]
    if dtype.kind != "f" or (dtype == _F16 and not is_operator):
        return None
    return name, dtype


class Power(ufunc):
    """`numpy.power`: integers are checked for negative exponents, and some scalar exponents mean simpler ufuncs."""

    __slots__ = ()

    def __init__(self, row: UfuncRow) -> None:
        super().__init__(row)
        self._direct = None
        # Calls do not look for simpler ufuncs, as the operator does.
        self._plain, self._reflected = on_common_ways(
            row._replace(python=None, operators=()),
            lambda a, b: self._call((a, b), {}),
            lambda a, b: self._call((b, a), {}),
        )
        plain, reflected, in_place = self.methods
        reach = row.weight * 16

        def is_small(a: Any, b: Any) -> bool:
            """Whether both are on the host, and so small that the power is computed there."""
            size = 1
            for x in (a, b):
                if isinstance(x, Handle):
                    if x._storage.host is None:
                        return False
                    size *= host_view(x).size
            return size * reach < config.offload_threshold

        def operator(a: Any, b: Any, modulus: Any = None) -> Any:
            if modulus is not None:
                return NotImplemented
            if type(b) in _PYTHON_NUMBERS:
                if a._known is None and _takes(a, b) and (found := applied(self.methods[0], a, b)) is not None:
                    return found
                name = SIMPLER.get(b)
                if name is not None:
                    is_here = (a._held or a._storage).host is None
                    kind = (a._known or a._layout if is_here else host_view(a)).dtype.kind
                    is_simpler = kind == "f" or (kind == "c" and name != "positive")  # 1: complex -0 becomes 0
                    if is_simpler or (kind in "biu" and name == "square" and type(b) is int):
                        return OBJECTS[name].methods[0](a)
            else:
                other = other_side(b)
                if other is NotImplemented:
                    return declined(row.numpy, row.python, a, b)
                b = other
            return plain(a, b) if is_small(a, b) else self._on_device((a, b), (None,))

        def reflected_operator(a: Any, b: Any, modulus: Any = None) -> Any:
            if modulus is not None:
                return NotImplemented
            other = other_side(b)
            if other is NotImplemented:
                return declined(row.numpy, row.python, b, a)
            b = other
            return reflected(a, b) if is_small(a, b) else self._on_device((b, a), (None,))

        def in_place_operator(a: Any, b: Any) -> Any:
            if (
                a._known is None
                and type(b) in _PYTHON_NUMBERS
                and _takes(a, b)
                and update((self.methods[0], self.methods[2]), a, b)
            ):
                return a
            other = operand_in_place(b)
            if other is NotImplemented:
                return declined_in_place(row.numpy, a, b)
            return in_place(a, other) if is_small(a, other) else self._on_device((a, other), (a,))

        self.methods = (*on_common_ways(row, operator, reflected_operator), in_place_operator)

    def _on_device(self, operands: tuple[Any, ...], outs: tuple[Any, ...]) -> Any:
        try:
            return self._compute(operands, outs, None, {}, self._row.on_host)
        except Unsupported:
            return self._fall_back(operands, {} if outs[0] is None else {"out": outs[0]})

    def _compute(
        self,
        operands: tuple[Any, ...],
        outs: tuple[Any, ...],
        mask: Any,
        options: dict[str, Any],
        on_host: Callable[..., Any] | None = None,
    ) -> Any:
        given = [out for out in outs if out is not None]
        if not (
            is_hosted((*operands, *given, mask))
            and is_recorded_on_host(cost_of(self.operations[0], operands), self.operations[0].weight)
        ):
            base, exponent = operands
            for out in given:
                check_writeable(out)
                check_cast(self._row.numpy, operands, out)
            _refuse_negative(base, exponent, mask, options)
            other = None if options else _simpler(base, exponent, is_operator=on_host is not None)
            if other is not None:
                name, dtype = other
                cast = {} if base._layout.dtype == dtype else {"dtype": dtype}
                return OBJECTS[name]._compute((base,), outs, mask, cast)
        return super()._compute(operands, outs, mask, options, on_host)


_PYTHON_NUMBERS = (int, float)
