"""What threads of a reduction carry along: running values, and the fixed trees that join them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._ptx.compound import by_part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.problem import ReduceOp
    from oxinp._ptx import Builder
    from oxinp._ptx.value import Value


def tree(k: Builder, op: ReduceOp, values: Sequence[Value]) -> Value:
    """Combine neighbours, then neighbours of the results, and so on."""
    level = list(values)
    while len(level) > 1:
        pairs = [op.combine(k, a, b) for a, b in zip(level[::2], level[1::2], strict=False)]
        level = pairs + level[len(pairs) * 2 :]
    return level[0]


class Running:
    """One running value of a thread; for a compensated sum also the rounding errors so far."""

    def __init__(self, k: Builder, op: ReduceOp) -> None:
        self.k = k
        self.op = op
        self._value = k.var(op.identity, op.acc)
        self._error = k.var(0.0, op.acc) if op.is_compensated else None

    def add(self, value: Value) -> None:
        """Combine one more value."""
        if self._error is None:
            self._value.set(self.op.combine(self.k, self._value, value))
            return
        before = self._value.get()
        total = before + value
        seen = total - before
        self._error.set(self._error + ((before - (total - seen)) + (value - seen)))
        self._value.set(total)

    def total(self) -> Value:
        """The value, rounded once."""
        value = self._value.get()
        return value if self._error is None else by_part(self.k, self._settled, value, self._error)

    def _settled(self, value: Value, error: Value) -> Value:
        """The sum and its error; after an infinity the error is NaN, and the plain sum what IEEE says."""
        return self.k.where(self.k.compare("eq", error, error), value + error, value)


class Runnings:
    """One `Running` per element of a vector."""

    def __init__(self, k: Builder, op: ReduceOp, width: int) -> None:
        self.k = k
        self.op = op
        self._running = [Running(k, op) for _ in range(width)]

    def add(self, units: Sequence[Sequence[Value]], valid: Sequence[Value] | None = None) -> None:
        """Combine several units of `width` values: each element's values in a tree, then into its running value.

        Units that are not `valid` are left out.
        """
        k, op = self.k, self.op
        for running, *values in zip(self._running, *units, strict=True):
            cast = [k.cast(v, op.acc) for v in values]
            if valid is not None:
                identity = k.const(op.identity, op.acc)
                cast = [k.where(p, v, identity) for p, v in zip(valid, cast, strict=True)]
            running.add(tree(k, op, cast))

    def add_first(self, value: Value) -> None:
        """Combine a single value into the first running value."""
        self._running[0].add(self.k.cast(value, self.op.acc))

    def totals(self) -> list[Value]:
        """What each came to."""
        return [running.total() for running in self._running]
