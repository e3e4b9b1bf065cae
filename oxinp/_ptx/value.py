"""Run-time values of a kernel being traced, and their operators."""

from __future__ import annotations

import struct
from functools import lru_cache
from math import copysign, isnan
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np

from oxinp._ptx.reference import f32_to_bf16
from oxinp._ptx.types import Type, bf16, pred

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from oxinp._ptx.isa import Binding, Op

Scalar = bool | int | float | np.generic


class Immediate:
    """A constant written into an instruction.

    Parameters
    ----------
    value : scalar
        Python or NumPy scalar that `type` can hold.
    type : Type
        Operand type.

    Raises
    ------
    TypeError, OverflowError
        `value` is not representable: a float for an integer type, or an integer out of range.
    """

    __slots__ = ("array", "text", "type", "value")

    def __init__(self, value: Scalar, type: Type) -> None:
        self.type = type
        if type.is_float:
            number: int | float = float(value)
        elif isinstance(value, (bool, int, np.integer, np.bool_)):
            number = int(value)
        else:
            raise TypeError(f"{value!r} is not an integer, and a {type} operand is needed: convert it yourself")
        self.value = number
        if type is bf16:
            with np.errstate(over="ignore"):
                self.array = f32_to_bf16(np.asarray([number], np.float32))
        else:
            self.array = np.asarray([number], dtype=type.dtype)  # OverflowError where it does not fit
        self.text = _literal(self.array, type)

    def __repr__(self) -> str:
        return self.text


def _literal(array: np.ndarray[Any, Any], type: Type) -> str:
    if type.is_float:
        if type.bits == 32:
            return f"0f{struct.unpack('<I', array.tobytes())[0]:08X}"
        if type.bits == 64:
            return f"0d{struct.unpack('<Q', array.tobytes())[0]:016X}"
        return f"{struct.unpack('<H', array.tobytes())[0]:#06x}"
    number = int(array[0])
    return f"{number}U" if number >= 1 << 63 else str(number)


@lru_cache(maxsize=4096, typed=True)
def _shared(value: bool | float, type: Type, _sign: float) -> Immediate:
    return Immediate(value, type)


def immediate(value: Scalar, type: Type) -> Immediate:
    """`value` as a constant of `type`: the same object for the same number, as kernels repeat a few of them."""
    if value.__class__ is int or value.__class__ is bool:
        return _shared(value, type, 0.0)
    if value.__class__ is float and not isnan(value):  # a NaN would not be found again
        return _shared(value, type, copysign(1.0, value))  # zeros are equal
    return Immediate(value, type)


class Scope:
    """The extent of a block in the trace: a value is used only while the block that made it is open.

    Attributes
    ----------
    parent : Scope or None
        That of the block around.
    is_open : bool
        Whether the trace is inside.
    is_blocking : bool
        Whether something inside may have to wait for other threads.
    """

    __slots__ = ("is_blocking", "is_open", "parent")

    def __init__(self, parent: Scope | None = None) -> None:
        self.parent = parent
        self.is_open = True
        self.is_blocking = False

    def contains(self, other: Scope | None) -> bool:
        """Whether another scope is this one or lies inside."""
        while other is not None:
            if other is self:
                return True
            other = other.parent
        return False


class Language(Protocol):
    """What values, and the modules that `Builder` is put together from, ask of the kernel under construction.

    The instructions of the table are methods as well; `Builder` and its bases document the others.
    """

    def __getattr__(self, name: str) -> Callable[..., Any]: ...

    def emit(self, name: str, *args: Any, types: Binding | None = None) -> Value: ...
    def emit_op(self, op: Op, *args: Any) -> Any: ...
    def operand(self, value: Any, type: Type) -> Value | Immediate: ...
    def as_value(self, value: Any, type: Type) -> Value: ...
    def const(self, value: Any, type: Type) -> Value: ...
    def compound(self, type: Type, *parts: Any) -> Value: ...
    def cast(self, value: Any, to: Type) -> Value: ...
    def bitcast(self, value: Value, to: Type) -> Value: ...
    def special(self, register: str) -> Value: ...

    def neg(self, a: Value) -> Value: ...
    def abs(self, a: Value) -> Value: ...
    def shl(self, a: Value, count: Any) -> Value: ...
    def shr(self, a: Value, count: Any) -> Value: ...
    def min(self, a: Any, b: Any) -> Value: ...
    def max(self, a: Any, b: Any) -> Value: ...
    def compare(self, name: str, a: Any, b: Any) -> Value: ...
    def where(self, predicate: Value, a: Any, b: Any) -> Value: ...
    def split_word(self, word: Value, type: Type) -> list[Value]: ...
    def join_word(self, values: list[Any], type: Type) -> Value: ...

    def var(self, value: Any, type: Type | None = None) -> Var: ...
    def assign(self, variable: Var, value: Any) -> None: ...
    def when(self, predicate: Value) -> AbstractContextManager[None]: ...
    def range(self, start: Any, stop: Any = None, step: Any = 1) -> AbstractContextManager[Value]: ...


class Value:
    """One run-time value: a register that is written once.

    Operators are the IEEE round-to-nearest or the integer instruction of the operands' common type and are never
    contracted. Both operands have one type; Python and NumPy scalars take the type of the other side. ``/`` and
    ``%`` on integers truncate as in C. Comparisons give `pred`; ``&``, ``|``, ``^`` and ``~`` combine them.
    """

    __slots__ = ("builder", "index", "scope", "text", "type")

    def __init__(self, builder: Language, index: int, type: Type, text: str, scope: Scope) -> None:
        self.builder = builder
        self.index = index
        self.type = type
        self.text = text
        self.scope = scope

    def __repr__(self) -> str:
        return f"<{self.type} {self.text}>"

    @property
    def parts(self) -> tuple[Value, ...]:
        """The values that one of a compound type consists of; of other types, the value itself."""
        return (self,)

    # -- arithmetic

    def __add__(self, other: Any) -> Value:
        return self.builder.emit("add", self, other)

    def __radd__(self, other: Any) -> Value:
        return self.builder.emit("add", other, self)

    def __sub__(self, other: Any) -> Value:
        return self.builder.emit("sub", self, other)

    def __rsub__(self, other: Any) -> Value:
        return self.builder.emit("sub", other, self)

    def __mul__(self, other: Any) -> Value:
        return self.builder.emit("mul", self, other)

    def __rmul__(self, other: Any) -> Value:
        return self.builder.emit("mul", other, self)

    def __truediv__(self, other: Any) -> Value:
        if self._is_power_of_two(other):
            return self >> int(other).bit_length() - 1
        return self.builder.emit("div", self, other)

    def __rtruediv__(self, other: Any) -> Value:
        return self.builder.emit("div", other, self)

    def __mod__(self, other: Any) -> Value:
        if self._is_power_of_two(other):
            return self & int(other) - 1
        return self.builder.emit("rem", self, other)

    def _is_power_of_two(self, divisor: Any) -> bool:
        """Whether `divisor` is a power of two, so that shifts and masks divide; ptxas was seen to divide instead."""
        is_plain = self.type.kind == "u" and self.type.bits >= 32
        return is_plain and type(divisor) is int and divisor > 0 and not divisor & (divisor - 1)

    def __rmod__(self, other: Any) -> Value:
        return self.builder.emit("rem", other, self)

    def __neg__(self) -> Value:
        return self.builder.neg(self)

    def __abs__(self) -> Value:
        return self.builder.abs(self)

    # -- bits

    def __and__(self, other: Any) -> Value:
        return self.builder.emit("and_", self, other)

    def __rand__(self, other: Any) -> Value:
        return self.builder.emit("and_", other, self)

    def __or__(self, other: Any) -> Value:
        return self.builder.emit("or_", self, other)

    def __ror__(self, other: Any) -> Value:
        return self.builder.emit("or_", other, self)

    def __xor__(self, other: Any) -> Value:
        return self.builder.emit("xor_", self, other)

    def __rxor__(self, other: Any) -> Value:
        return self.builder.emit("xor_", other, self)

    def __invert__(self) -> Value:
        return self.builder.emit("not_", self)

    def __lshift__(self, count: Any) -> Value:
        return self.builder.shl(self, count)

    def __rshift__(self, count: Any) -> Value:
        return self.builder.shr(self, count)

    # -- comparisons

    def __lt__(self, other: Any) -> Value:
        return self.builder.emit("lt", self, other)

    def __le__(self, other: Any) -> Value:
        return self.builder.emit("le", self, other)

    def __gt__(self, other: Any) -> Value:
        return self.builder.emit("gt", self, other)

    def __ge__(self, other: Any) -> Value:
        return self.builder.emit("ge", self, other)

    def __eq__(self, other: object) -> Value:  # type: ignore[override]
        return self.builder.compare("eq", self, other)

    def __ne__(self, other: object) -> Value:  # type: ignore[override]
        return self.builder.compare("ne", self, other)

    __hash__ = object.__hash__

    # -- what a value is not

    def __bool__(self) -> bool:
        raise TypeError(
            "a run-time value has no truth value while the kernel is being built: "
            "use k.when(p), k.where(p, a, b), or & and | instead of `if`, `and`, `or`"
        )

    def __index__(self) -> int:
        raise TypeError("a run-time value is not known while the kernel is being built: use k.range, or k.where")

    def __iter__(self) -> NoReturn:
        raise TypeError("a run-time value cannot be iterated: use `with k.range(n) as i:`")

    def __float__(self) -> float:
        raise TypeError("a run-time value is not known while the kernel is being built: use k.cast(value, f64)")

    def __int__(self) -> int:
        raise TypeError("a run-time value is not known while the kernel is being built: use k.cast(value, i32)")


class Var(Value):
    """The only assignable thing of a kernel: ``v.set(x)``, or ``v += x``, ``v *= x``, ...

    Used as an operand it is its value at that moment. ``v.get()`` is a copy that later assignments leave alone.
    """

    __slots__ = ()

    def set(self, value: Any) -> None:
        """Assign `value` in the lanes that are active here."""
        self.builder.assign(self, value)

    def get(self) -> Value:
        """Copy of the present value."""
        return self.builder.emit("mov", self)

    def __iadd__(self, other: Any) -> Var:
        self.set(self + other)
        return self

    def __isub__(self, other: Any) -> Var:
        self.set(self - other)
        return self

    def __imul__(self, other: Any) -> Var:
        self.set(self * other)
        return self

    def __iand__(self, other: Any) -> Var:
        self.set(self & other)
        return self

    def __ior__(self, other: Any) -> Var:
        self.set(self | other)
        return self

    def __ixor__(self, other: Any) -> Var:
        self.set(self ^ other)
        return self

    def __ilshift__(self, count: Any) -> Var:
        self.set(self << count)
        return self

    def __irshift__(self, count: Any) -> Var:
        self.set(self >> count)
        return self


class Coordinate(Value):
    """A thread or block coordinate: itself is ``x``; ``.y`` and ``.z`` are the others."""

    __slots__ = ("_register",)

    def __init__(self, value: Value, register: str) -> None:
        super().__init__(value.builder, value.index, value.type, value.text, value.scope)
        self._register = register

    @property
    def x(self) -> Value:
        """The same as the coordinate itself."""
        return self

    @property
    def y(self) -> Value:
        """Second axis."""
        return self.builder.special(self._register + ".y")

    @property
    def z(self) -> Value:
        """Third axis."""
        return self.builder.special(self._register + ".z")


def as_operand(value: Any, type: Type) -> Value | Immediate:
    """`value` as an operand of exactly `type`.

    Raises
    ------
    TypeError
        A run-time value of another type (nothing is cast silently).
    """
    if isinstance(value, (Value, Immediate)):
        if value.type is not type:
            raise TypeError(f"operand is {value.type} where {type} is needed: use k.cast(value, {type})")
        return value
    if type is pred and not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{value!r} is not a truth value")
    return immediate(value, type)
