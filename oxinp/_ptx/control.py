"""Run-time control flow and variables of a kernel under construction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from oxinp._ptx import compound
from oxinp._ptx.isa import find
from oxinp._ptx.kernel import If, Instr, Leave, Loop
from oxinp._ptx.tracer import Tracer
from oxinp._ptx.types import Compound, Type, i32, pred, u32
from oxinp._ptx.value import Value, Var


class ControlFlow(Tracer):
    """The part of `Builder` that records branches, loops and assignments."""

    # -- variables

    def var(self, value: Any, type: Type | None = None) -> Var:
        """A variable that starts as `value`; a Python scalar needs a `type`."""
        if type is None:
            if not isinstance(value, Value):
                raise TypeError("k.var of a Python number needs a type: k.var(0, f32)")
            type = value.type
        if isinstance(type, Compound):
            return compound.variable(self, value, type)
        fresh = self.new_value(type)
        variable = Var(fresh.builder, fresh.index, type, fresh.text, fresh.scope)
        self.assign(variable, value)
        return variable

    def assign(self, variable: Var, value: Any) -> None:
        """Assign a variable in the lanes that are active here."""
        self.operand(variable, variable.type)
        if isinstance(variable, compound.CompoundVar):
            compound.assign(self, variable, value)
            return
        source = self.operand(value, variable.type)
        self._current.nodes.append(Instr(_move(variable.type), (variable,), (source,)))

    # -- branches

    @contextmanager
    def when(self, predicate: Value) -> Iterator[None]:
        """Run the block where the predicate holds."""
        self.operand(predicate, pred)
        node = If(predicate, self.nested())
        self._current.nodes.append(node)
        with self.inside(node.then):
            yield

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """Run the block where the predicate of the `when` just before does not hold."""
        node = self._current.nodes[-1] if self._current.nodes else None
        if not isinstance(node, If) or node.orelse is not None:
            raise TypeError("k.otherwise() has to follow a k.when(...) directly")
        node.orelse = self.nested()
        with self.inside(node.orelse):
            yield

    # -- loops

    @contextmanager
    def loop(self) -> Iterator[None]:
        """Run the block again and again until `break_if` has taken every lane out."""
        node = Loop(self.nested(), self.nested())
        with self._in_loop(node):
            yield

    @contextmanager
    def _in_loop(self, node: Loop) -> Iterator[None]:
        self._current.nodes.append(node)
        self._loops.append(node)
        try:
            with self.inside(node.body):
                yield
        finally:
            self._loops.pop()
            node.step.scope.is_open = False

    def break_if(self, predicate: Value) -> None:
        """Leave the innermost loop where the predicate holds."""
        self._leave(predicate, is_break=True)

    def continue_if(self, predicate: Value) -> None:
        """Continue with the next iteration of the innermost loop where the predicate holds."""
        self._leave(predicate, is_break=False)

    def _leave(self, predicate: Value, *, is_break: bool) -> None:
        if not self._loops:
            raise TypeError("k.break_if and k.continue_if belong inside a k.loop, k.range or k.grid_stride")
        loop = self._loops[-1]
        loop.used_continue |= not is_break
        self.operand(predicate, pred)
        self._current.nodes.append(Leave(predicate, is_break=is_break))

    @contextmanager
    def range(self, start: Any, stop: Any = None, step: Any = 1) -> Iterator[Value]:
        """Run the block with ``start, start + step, ...`` below `stop` (above it for a negative Python `step`).

        The index has the type of the run-time bounds, i32 if there are none. Unsigned indices may end anywhere up
        to their largest value; signed ones must not overflow.
        """
        if stop is None:
            start, stop = 0, start
        given = next((v.type for v in (start, stop, step) if isinstance(v, Value)), i32)
        is_down = not isinstance(step, Value) and step < 0
        if not isinstance(step, Value) and step == 0:
            raise ValueError("k.range with step 0")
        # bounds that are variables are read now, as Python's range would
        stop = self.emit("mov", stop) if isinstance(stop, Var) else stop
        step = self.emit("mov", step) if isinstance(step, Var) else step
        index = self.var(start, given)
        node = Loop(self.nested(), self.nested())
        with self._in_loop(node):
            self.break_if(index <= stop if is_down else index >= stop)
            yield Value(index.builder, index.index, index.type, index.text, node.body.scope)
            with self.inside(node.step):
                self._advance(index, step, is_down=is_down)

    def _advance(self, index: Var, step: Any, *, is_down: bool) -> None:
        if is_down and index.type.kind == "u":
            following = index - (-step)
            wraps = following > index
        else:
            following = index + step
            wraps = following < index
        # unsigned: a step past the largest value (below 0) ends the loop; a step of 1 cannot pass `stop`
        if index.type.kind == "u" and (isinstance(step, Value) or step != 1):
            self._current.nodes.append(Leave(wraps, is_break=True))
        self.assign(index, following)

    def grid_stride(self, n: Any, type: Type | None = None) -> AbstractContextManager[Value]:
        """Run the block for every index below `n` that is this thread's, the grid's threads apart (x axis).

        The index has the type of `n`, or `type` (u32) for a Python int.
        """
        index_type = n.type if isinstance(n, Value) else type or u32
        start = self.cast(self.ctaid, index_type) * self.cast(self.ntid, index_type) + self.cast(self.tid, index_type)
        stride = self.cast(self.nctaid, index_type) * self.cast(self.ntid, index_type)
        return self.range(start, n, stride)


def _move(type: Type) -> Any:
    op = find("mov", (type,))
    assert op is not None
    return op
