"""Values of several registers: complex numbers, and other fixed tuples of machine types.

The instruction table has no rows for compound types: `emit` lowers an instruction to instructions of the components.
Moves and selects are lowered component by component, arithmetic is complex arithmetic (`oxinp._ptx.complex`). Modules
below this one, the emulator included, see component instructions only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oxinp._ptx import complex as complex_
from oxinp._ptx.types import Compound, Type
from oxinp._ptx.value import Language, Value, Var, as_operand

if TYPE_CHECKING:
    from collections.abc import Callable


class CompoundValue(Value):
    """One value of a `Compound` type.

    Attributes
    ----------
    parts : tuple of Value
        ``.real`` and ``.imag`` are the first two.
    """

    __slots__ = ("_parts",)

    type: Compound

    def __init__(self, builder: Language, type: Compound, parts: tuple[Value, ...]) -> None:
        self.builder = builder
        self.type = type
        self._parts = parts

    @property
    def parts(self) -> tuple[Value, ...]:
        """The values it consists of."""
        return self._parts

    @property
    def real(self) -> Value:
        """First part."""
        return self._parts[0]

    @property
    def imag(self) -> Value:
        """Second part."""
        return self._parts[1]

    def __repr__(self) -> str:
        return f"<{self.type} {', '.join(part.text for part in self._parts)}>"


class CompoundVar(CompoundValue, Var):
    """A variable of a `Compound` type: its parts are variables."""

    __slots__ = ()


def make(k: Language, type: Type, parts: Any) -> CompoundValue:
    """The value of a `Compound` type with these parts: values, or numbers that the parts' types hold."""
    if not isinstance(type, Compound) or len(parts) != len(type.parts):
        raise TypeError(f"{len(parts)} parts do not make a {type}")
    made = tuple([k.as_value(part, of) for part, of in zip(parts, type.parts, strict=True)])
    return CompoundValue(k, type, made)


def as_value(k: Language, value: Any, type: Compound) -> CompoundValue:
    """`value` as a value of exactly `type`: one already, or a constant (a tuple, where `type` is not complex)."""
    if isinstance(value, Value):
        same = as_operand(value, type)
        assert isinstance(same, CompoundValue)
        return same
    if type.is_complex:
        number = complex(value)
        return make(k, type, (number.real, number.imag))
    return make(k, type, value)


def by_part(k: Language, function: Callable[..., Value], *values: Value) -> Value:
    """Apply `function` component by component to compound values, and once to plain values."""
    first = values[0]
    if not isinstance(first, CompoundValue):
        return function(*values)
    parts = [function(*group) for group in zip(*[value.parts for value in values], strict=True)]
    return CompoundValue(k, first.type, tuple(parts))


def emit(k: Language, name: str, args: tuple[Any, ...], type: Compound) -> Value:
    """Lower instruction `name` of a compound type to instructions of its components."""
    if name == "mov":
        return by_part(k, lambda a: k.emit("mov", a), as_value(k, args[0], type))
    if name == "selp":
        a, b, predicate = args
        return by_part(k, lambda x, y: k.where(predicate, x, y), as_value(k, a, type), as_value(k, b, type))
    operation = complex_.OPERATIONS.get(name) if type.is_complex else None
    if operation is None:
        raise TypeError(f"no instruction {name} for {type}")
    return operation(k, *[as_value(k, arg, type) for arg in args])


def variable(k: Language, value: Any, type: Compound) -> CompoundVar:
    """A variable that starts as `value`."""
    start = as_value(k, value, type)
    return CompoundVar(k, type, tuple([k.var(part) for part in start.parts]))


def assign(k: Language, variable: CompoundVar, value: Any) -> None:
    """Assign all components of a variable at once: the new ones may read the variable's old ones."""
    values = as_value(k, value, variable.type).parts
    if any(isinstance(part, Var) for part in values):
        values = tuple([k.emit("mov", part) for part in values])
    for part, new in zip(variable.parts, values, strict=True):
        k.assign(part, new)  # type: ignore[arg-type]
