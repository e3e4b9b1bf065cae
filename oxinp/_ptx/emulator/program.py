"""A kernel's program made ready for the emulator.

Constructs without anything that may block become `Code`, which runs on masks. What may block (a barrier, a wait, a
loop that spins on memory, and the branches and loops around them) stays as nodes, which the emulator walks with an
explicit stack, so that lanes can part there. Instructions are decoded when their block runs for the first time: most
launches of the tests take one path of several.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from oxinp._ptx.emulator.frame import Frame
from oxinp._ptx.emulator.lanes import LoopState
from oxinp._ptx.isa import EFFECT, WAIT
from oxinp._ptx.kernel import Block, If, Instr, Kernel, Leave, Node
from oxinp._ptx.truths import all_of, any_of
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
    """Code and nodes of one kernel, and the constants that follow its registers.

    Attributes
    ----------
    carried : tuple of int
        The registers that matter between nodes: what one `Code` computes for itself alone is done with at its end.
    """

    def __init__(self, kernel: Kernel) -> None:
        prologue, body = kernel.blocks()
        self._num_registers = kernel.num_registers
        self._constants = [c.array for c in kernel.constants] + [c.array[0, ...] for c in kernel.constants]
        numbers = {constant: kernel.num_registers + i for i, constant in enumerate(kernel.constants)}
        if not body.scope.is_blocking:  # lanes stay together
            self.prologue, self.body = Code(prologue.nodes, numbers), [Code(body.nodes, numbers)]
            self.carried: tuple[int, ...] = ()
            return
        walker = _Walker(numbers)
        self.prologue = walker.code(prologue.nodes)
        self.body = walker.walked(body, None)
        self.carried = tuple(walker.carried)

    def registers(self) -> list[Any]:
        """Fresh register file."""
        return [None] * self._num_registers + self._constants


# Number of every constant in the register file; as many behind them are the same without axes.
_Numbers = dict[Immediate, int]
_BRANCHING, _ASSIGNMENT = 0, -1  # what is not told by the number of operands


class Code:
    """Instructions and constructs that cannot block, decoded when they run for the first time.

    They are held in columns, not objects, of which the garbage collector would have to look at many thousands: number
    of operands (or what else it is), function, and numbers of the registers of the result and of up to three operands.
    """

    __slots__ = ("_columns", "_nodes", "_numbers")

    def __init__(self, nodes: list[Node], numbers: _Numbers) -> None:
        self._nodes, self._numbers = nodes, numbers
        self._columns: tuple[list[Any], ...] | None = None

    def __call__(self, frame: Frame) -> None:
        """Run until the end, or until no lane is left."""
        columns = self._columns
        if columns is None:
            columns = self._columns = _decode(self._nodes, self._numbers)
            self._nodes = []
        registers = frame.registers
        for kind, function, target, a, b, c in zip(*columns, strict=True):
            if kind == 2:
                registers[target] = function(registers[a], registers[b])
            elif kind == 1:
                registers[target] = function(registers[a])
            elif kind == _BRANCHING:
                function(frame)
                if frame.is_dead:
                    return
            elif kind == 3:
                registers[target] = function(registers[a], registers[b], registers[c])
            elif frame.mask is None or registers[target] is None:
                registers[target] = registers[a]
            else:
                registers[target] = np.where(frame.mask, registers[a], registers[target])


def _decode(nodes: list[Node], numbers: _Numbers) -> tuple[Any, ...]:
    rows: list[tuple[int, Any, int, int, int, int]] = []
    num_constants, first = len(numbers), next(iter(numbers.values()), 0)
    for node in nodes:
        if not isinstance(node, Instr) or node.op.kind == EFFECT:
            rows.append((_BRANCHING, _step(node, numbers), 0, 0, 0, 0))
            continue
        dst, num = node.dst, len(node.src)
        target = dst[0]
        if isinstance(target, Var):
            rows.append((_ASSIGNMENT, None, target.index, _sources(node, numbers)[0], 0, 0))
        elif len(dst) > 1 or not 0 < num <= 3:
            rows.append((_BRANCHING, _general(node, _sources(node, numbers)), 0, 0, 0, 0))
        else:
            sources = _sources(node, numbers)
            if num > 1 and max(sources) >= first > min(sources):
                # Beside registers, constants are those without axes, with which NumPy computes in half of the time.
                sources = [i + num_constants if i >= first else i for i in sources]
            a, b, c = sources if num == 3 else (*sources, 0) if num == 2 else (sources[0], 0, 0)
            rows.append((num, node.op.ref, target.index, a, b, c))
    return tuple(zip(*rows, strict=True)) or ((),) * 6


def _sources(instr: Instr, numbers: _Numbers) -> list[int]:
    return [numbers[x] if isinstance(x, Immediate) else x.index for x in instr.src]


def _taker(sources: list[int]) -> Callable[[list[Any]], Sequence[Any]]:
    """What takes the sources out of the registers, as a sequence."""
    if len(sources) > 1:
        return itemgetter(*sources)
    return itemgetter(slice(sources[0], sources[0] + 1) if sources else slice(0))


class _Walker:
    """Makes what the emulator walks of blocks, and notes which registers are named in more than one place of it."""

    def __init__(self, numbers: _Numbers) -> None:
        self._numbers = numbers
        self._named: set[int] = set()
        self.carried: set[int] = set()

    def walked(self, block: Block, loop: LoopNode | None) -> list[Any]:
        """Nodes of a block that the emulator walks; `loop` is the innermost loop around if that is walked too."""
        walked: list[Any] = []
        straight: list[Node] = []
        for node in block.nodes:
            found = self._node(node, loop)
            if found is None:
                straight.append(node)
                continue
            if straight:
                walked.append(self.code(straight))
                straight = []
            walked.append(found)
        if straight:
            walked.append(self.code(straight))
        return walked

    def code(self, nodes: list[Node]) -> Code:
        """Code that cannot block."""
        named: set[int] = set()
        _name(nodes, named)
        self.carried |= self._named & named
        self._named |= named
        return Code(nodes, self._numbers)

    def _node(self, node: Node, loop: LoopNode | None) -> Any:
        """A construct as a node to be walked; None for what cannot block."""
        numbers = self._numbers
        if isinstance(node, Instr):
            if node.op.kind != WAIT and not node.op.collective:
                return None
            _name([node], self.carried)
            sources = _sources(node, numbers)
            return (
                WaitNode(node, sources)
                if node.op.kind == WAIT
                else CollectiveNode(node, sources, _effect(node, numbers))
            )
        if isinstance(node, Leave):
            assert loop is not None
            self.carried.add(node.predicate.index)
            return LeaveNode(node.predicate.index, loop, node.is_break)
        if isinstance(node, If):
            blocks = [node.then] if node.orelse is None else [node.then, node.orelse]
            if not any(b.scope.is_blocking or (loop is not None and _leaves(b)) for b in blocks):
                return None
            self.carried.add(node.predicate.index)
            then, orelse = ([] if b is None else self.walked(b, loop) for b in (node.then, node.orelse))
            return IfNode(node.predicate.index, then, orelse)
        if not node.body.scope.is_blocking:
            return None
        walked = LoopNode([], [])
        walked.body, walked.step = self.walked(node.body, walked), self.walked(node.step, walked)
        return walked


def _name(nodes: list[Node], named: set[int]) -> None:
    """Add the registers that constructs name."""
    for node in nodes:
        if isinstance(node, Instr):
            for value in node.dst:
                named.add(value.index)
            for operand in node.src:
                if not isinstance(operand, Immediate):
                    named.add(operand.index)
        elif isinstance(node, Leave):
            named.add(node.predicate.index)
        elif isinstance(node, If):
            named.add(node.predicate.index)
            _name(node.then.nodes, named)
            if node.orelse is not None:
                _name(node.orelse.nodes, named)
        else:
            _name(node.body.nodes, named)
            _name(node.step.nodes, named)


def _step(node: Node, numbers: _Numbers) -> Step:
    """What runs one construct that cannot block, or one instruction with effects."""
    if isinstance(node, Instr):
        return _effect(node, numbers)
    if isinstance(node, Leave):
        return _leave(node.predicate.index, is_break=node.is_break)
    if isinstance(node, If):
        then = Code(node.then.nodes, numbers)
        orelse = None if node.orelse is None else Code(node.orelse.nodes, numbers)
        leaves = _leaves(node.then) or (node.orelse is not None and _leaves(node.orelse))
        return _branch(node.predicate.index, then, orelse, leaves=leaves)
    return _repeat(Code(node.body.nodes, numbers), Code(node.step.nodes, numbers) if node.step.nodes else None)


def _leaves(block: Block) -> bool:
    """Whether lanes may leave the loop around from inside the block."""
    for node in block.nodes:
        if isinstance(node, Leave):
            return True
        if isinstance(node, If) and (_leaves(node.then) or (node.orelse is not None and _leaves(node.orelse))):
            return True
    return False


# --------------------------------------------------------------------------------------------------------------
# closures


def _general(instr: Instr, sources: list[int]) -> Step:
    """What runs an instruction of several results, or of many operands."""
    ref, take, targets = instr.op.ref, _taker(sources), [value.index for value in instr.dst]

    def run(frame: Frame) -> None:
        registers = frame.registers
        result = ref(*take(registers))
        for target, value in zip(targets, result if len(targets) > 1 else (result,), strict=True):
            registers[target] = value

    return run


def _effect(instr: Instr, numbers: _Numbers) -> Step:
    op, take, targets = instr.op, _taker(_sources(instr, numbers)), [value.index for value in instr.dst]
    ref = op.ref
    single = targets[0] if len(targets) == 1 else None

    def run(frame: Frame) -> None:
        registers = frame.registers
        frame.instr = instr
        result = ref(frame, op, *take(registers))
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
        if not any_of(going):
            return
        outer = frame.mask
        going = frame.over_lanes(going) if outer is None else going & outer
        state = frame.loops[-1]
        if is_break:
            state.left = _union(state.left, going)
        else:
            state.skipped = _union(state.skipped, going)
        left = ~going if outer is None else outer & ~going
        frame.mask, frame.is_dead = left, not any_of(left)

    return run


def _branch(predicate: int, then: Step, orelse: Step | None, *, leaves: bool) -> Step:
    def run(frame: Frame) -> None:
        condition = frame.registers[predicate]
        outer = frame.mask
        if outer is None or len(condition) == 1:
            if all_of(condition):
                then(frame)
                return
            if not any_of(condition):
                if orelse is not None:
                    orelse(frame)
                return
        holds = condition if outer is None else condition & outer
        if outer is None or any_of(holds):
            frame.mask = holds
            then(frame)
        if orelse is not None:
            others = ~condition if outer is None else outer & ~condition
            if outer is None or any_of(others):
                frame.mask, frame.is_dead = others, False
                orelse(frame)
        frame.mask = outer
        if leaves:
            state = frame.loops[-1]
            frame.mask = _without(outer, _union(state.left, state.skipped))
            frame.is_dead = frame.mask is not None and not any_of(frame.mask)

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
            if active is not None and not any_of(active):
                break
            if step is not None:
                frame.mask, frame.is_dead, state.skipped = active, False, None
                step(frame)
                active = _without(entry, state.left)
                if active is not None and not any_of(active):
                    break
        frame.loops.pop()
        frame.mask, frame.is_dead = entry, False

    return run
