"""Accumulators of a thread: the running one, and the fixed tree in which elements are combined first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from oxinp._kernels.problem import Element, ReduceOp
    from oxinp._ptx import Builder
    from oxinp._ptx.value import Value


def tree(k: Builder, combine: Callable[..., Any], values: Sequence[Any]) -> Any:
    """Combine neighbours, then neighbours of the results, and so on."""
    level = list(values)
    while len(level) > 1:
        pairs = [combine(k, a, b) for a, b in zip(level[::2], level[1::2], strict=False)]
        level = pairs + level[len(pairs) * 2 :]
    return level[0]


def gather(k: Builder, op: ReduceOp, elements: Sequence[Element]) -> Value:
    """The accumulator of several elements."""
    if op.gather is not None:
        gathered: Value = op.gather(k, elements)
        return gathered
    lifted = []
    for element in elements:
        value = k.cast(element.value, op.acc) if op.lift is None else op.lift(k, element.value)
        if element.is_valid is not None:
            value = k.where(element.is_valid, value, k.const(op.identity, op.acc))
        lifted.append(value)
    joined: Value = tree(k, op.combine, lifted)
    return joined


class Running:
    """One running accumulator of a thread."""

    def __init__(self, k: Builder, op: ReduceOp) -> None:
        self.k = k
        self.op = op
        self._value = k.var(k.const(op.identity, op.acc))

    def take(self, elements: Sequence[Element]) -> None:
        """Combine elements, at once or in a tree, then their accumulator with the running one."""
        self.join(gather(self.k, self.op, elements))

    def join(self, gathered: Value) -> None:
        """Combine an accumulator with the running one."""
        self._value.set(self.op.combine(self.k, self._value.get(), gathered))

    def total(self) -> Value:
        """Return its value."""
        return self._value.get()
