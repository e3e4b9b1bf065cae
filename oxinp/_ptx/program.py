"""A kernel's program made ready for the emulator.

Constructs without anything that may block become Python closures that run on masks. What may block (a barrier, a
wait, a loop that spins on memory, and the branches and loops around them) stays as nodes, which the emulator walks
with an explicit stack, so that lanes can part there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from oxinp._ptx.frame import Frame, LoopState
from oxinp._ptx.isa import EFFECT, WAIT, Op
from oxinp._ptx.kernel import Block, If, Instr, Kernel, Leave, Loop, Node
from oxinp._ptx.value import Immediate, Var

Array = npt.NDArray[Any]
Step = Callable[[Frame], None]


@dataclass(slots=True, eq=False)
class WaitNode:
    """An instruction that may block."""

    instr: Instr
    sources: list[int]

    def operands(self, frame: Frame) -> list[Array]:
        """Source arrays."""
        return [frame.registers[i] for i in self.sources]


@dataclass(slots=True, eq=False)
class CollectiveNode:
    """An instruction that needs all lanes of its groups together."""

    instr: Instr
    sources: list[int]
    run: Step


@dataclass(slots=True, eq=False)
class IfNode:
    """A branch that may block, or leaves a loop that does."""

    predicate: int
    then: list[Any]
    orelse: list[Any]


@dataclass(slots=True, eq=False)
class LoopNode:
    """A loop that may block."""

    body: list[Any]
    step: list[Any]


@dataclass(slots=True, eq=False)
class LeaveNode:
    """Leaves a `LoopNode`."""

    predicate: int
    loop: LoopNode
    is_break: bool


class Program:
    """Closures and nodes of one kernel, and the immediates that follow its registers."""

    def __init__(self, kernel: Kernel) -> None:
        self._num_registers = kernel.num_registers
        self._immediates: list[Array] = []
        self._loops: dict[Loop, LoopNode] = {}
        prologue, body = kernel.blocks()
        self.prologue: list[Any] = self._block(prologue, None)
        self.body: list[Any] = self._block(body, None)

    def registers(self) -> list[Any]:
        """Fresh register file."""
        return [None] * self._num_registers + self._immediates

    def _source(self, operand: Any) -> int:
        if isinstance(operand, Immediate):
            self._immediates.append(operand.array)
            return self._num_registers + len(self._immediates) - 1
        index: int = operand.index
        return index

    def _block(self, block: Block, loop: Loop | None) -> list[Any]:
        """Nodes of a block that the emulator walks; `loop` is the innermost loop around if that is walked too."""
        return [self._walked(node, loop) for node in block.nodes]

    def _walked(self, node: Node, loop: Loop | None) -> Any:
        if isinstance(node, Instr):
            sources = [self._source(operand) for operand in node.src]
            if node.op.kind == WAIT:
                return WaitNode(node, sources)
            step = _instruction(node, sources)
            return CollectiveNode(node, sources, step) if node.op.collective else step
        if isinstance(node, Leave):
            return LeaveNode(node.predicate.index, self._loops[node.loop], node.is_break)
        if isinstance(node, If):
            blocks = [node.then] if node.orelse is None else [node.then, node.orelse]
            parts = any(b.is_blocking or (loop is not None and _leaves(b)) for b in blocks)
            if not parts:
                return self._masked(node)
            return IfNode(
                node.predicate.index, *([] if b is None else self._block(b, loop) for b in (node.then, node.orelse))
            )
        if not node.body.is_blocking:
            return self._masked(node)
        walked = self._loops[node] = LoopNode([], [])
        walked.body, walked.step = self._block(node.body, node), self._block(node.step, node)
        return walked

    def _masked(self, node: Node) -> Step:
        """Closure of a construct without anything that blocks."""
        if isinstance(node, Instr):
            return _instruction(node, [self._source(operand) for operand in node.src])
        if isinstance(node, Leave):
            return _leave(node.predicate.index, is_break=node.is_break)
        if isinstance(node, If):
            then = self._run(node.then)
            orelse = None if node.orelse is None else self._run(node.orelse)
            leaves = _leaves(node.then) or (node.orelse is not None and _leaves(node.orelse))
            return _branch(node.predicate.index, then, orelse, leaves=leaves)
        return _repeat(self._run(node.body), self._run(node.step) if node.step.nodes else None)

    def _run(self, block: Block) -> Step:
        steps = [self._masked(node) for node in block.nodes]
        if _leaves(block):

            def run_while_active(frame: Frame) -> None:
                for step in steps:
                    step(frame)
                    if frame.is_dead:
                        return

            return run_while_active

        def run(frame: Frame) -> None:
            for step in steps:
                step(frame)

        return run


def _leaves(block: Block) -> bool:
    """Whether lanes may leave the loop around from inside the block."""
    return any(
        isinstance(node, Leave)
        or (isinstance(node, If) and (_leaves(node.then) or (node.orelse is not None and _leaves(node.orelse))))
        for node in block.nodes
    )


# --------------------------------------------------------------------------------------------------------------
# closures


def _instruction(instr: Instr, sources: list[int]) -> Step:
    op, targets = instr.op, [value.index for value in instr.dst]
    if op.kind == EFFECT:
        return _effect(instr, op, sources, targets)
    ref = op.ref
    if len(targets) != 1:
        return _pure_many(ref, sources, targets)
    target = targets[0]
    if isinstance(instr.dst[0], Var):
        return _assignment(sources[0], target)
    if len(sources) == 1:
        (a,) = sources

        def unary(frame: Frame) -> None:
            registers = frame.registers
            registers[target] = ref(registers[a])

        return unary
    if len(sources) == 2:
        a, b = sources

        def binary(frame: Frame) -> None:
            registers = frame.registers
            registers[target] = ref(registers[a], registers[b])

        return binary

    def general(frame: Frame) -> None:
        registers = frame.registers
        registers[target] = ref(*[registers[i] for i in sources])

    return general


def _pure_many(ref: Any, sources: list[int], targets: list[int]) -> Step:
    def run(frame: Frame) -> None:
        registers = frame.registers
        for target, value in zip(targets, ref(*[registers[i] for i in sources]), strict=True):
            registers[target] = value

    return run


def _assignment(source: int, target: int) -> Step:
    def assign(frame: Frame) -> None:
        registers = frame.registers
        if frame.mask is None or registers[target] is None:
            registers[target] = registers[source]
        else:
            registers[target] = np.where(frame.mask, registers[source], registers[target])

    return assign


def _effect(instr: Instr, op: Op, sources: list[int], targets: list[int]) -> Step:
    ref = op.ref
    single = targets[0] if len(targets) == 1 else None

    def run(frame: Frame) -> None:
        registers = frame.registers
        frame.instr = instr
        result = ref(frame, op, *[registers[i] for i in sources])
        if single is not None:
            registers[single] = result
        elif targets:
            for target, value in zip(targets, result, strict=True):
                registers[target] = value

    return run


def _without(mask: Array | None, gone: Array | None) -> Array | None:
    if gone is None:
        return mask
    return ~gone if mask is None else mask & ~gone


def _union(a: Array | None, b: Array | None) -> Array | None:
    if a is None or b is None:
        return b if a is None else a
    return a | b


def _leave(predicate: int, *, is_break: bool) -> Step:
    def run(frame: Frame) -> None:
        going = frame.registers[predicate]
        if not going.any():
            return
        outer = frame.mask
        going = np.broadcast_to(going, frame.shape) if outer is None else going & outer
        state = frame.loops[-1]
        if is_break:
            state.left = _union(state.left, going)
        else:
            state.skipped = _union(state.skipped, going)
        frame.mask = _without(outer, going)
        frame.is_dead = not frame.mask.any()  # type: ignore[union-attr]

    return run


def _branch(predicate: int, then: Step, orelse: Step | None, *, leaves: bool) -> Step:
    def run(frame: Frame) -> None:
        condition = frame.registers[predicate]
        outer = frame.mask
        holds = condition if outer is None else condition & outer
        if len(condition) == 1 or outer is None:
            if condition.all():
                then(frame)
                return
            if not condition.any():
                if orelse is not None:
                    orelse(frame)
                return
        if holds.any():
            frame.mask = holds
            then(frame)
        if orelse is not None:
            others = ~condition if outer is None else outer & ~condition
            if others.any():
                frame.mask, frame.is_dead = others, False
                orelse(frame)
        frame.mask = outer
        if leaves:
            state = frame.loops[-1]
            frame.mask = _without(outer, _union(state.left, state.skipped))
            frame.is_dead = frame.mask is not None and not frame.mask.any()

    return run


def _repeat(body: Step, step: Step | None) -> Step:
    def run(frame: Frame) -> None:
        entry = frame.mask
        state = LoopState()
        frame.loops.append(state)
        active = entry
        while True:
            frame.mask, frame.is_dead, state.skipped = active, False, None
            body(frame)
            active = _without(entry, state.left)
            if active is not None and not active.any():
                break
            if step is not None:
                frame.mask, frame.is_dead, state.skipped = active, False, None
                step(frame)
                active = _without(entry, state.left)
                if active is not None and not active.any():
                    break
        frame.loops.pop()
        frame.mask, frame.is_dead = entry, False

    return run
