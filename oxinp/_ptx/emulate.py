"""Running kernels on the host, lane by lane in meaning and all lanes at once in NumPy.

A launch starts as one fiber that holds every thread of the grid. Where lanes part at something that may block, the
fiber splits; fibers that meet at the same place become one again. A fiber runs until it blocks, spins or joins; the
others get their turn then. If all of them block, that is a deadlock.

It does not show memory ordering, proxy fences, the bits of approximate instructions, or occupancy.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from oxinp._ptx.emulator.faults import AccessError, DeadlockError, DivergenceError, EmulationError, RaceError
from oxinp._ptx.emulator.frame import Frame
from oxinp._ptx.emulator.lanes import distinct
from oxinp._ptx.emulator.machine import WARP, Machine
from oxinp._ptx.emulator.program import Code, CollectiveNode, IfNode, LeaveNode, LoopNode, Program, WaitNode
from oxinp._ptx.emulator.space import Memory
from oxinp._ptx.kernel import Kernel, three_extents
from oxinp._ptx.truths import all_of, any_of

__all__ = ["AccessError", "DeadlockError", "DivergenceError", "EmulationError", "Memory", "RaceError", "run"]

Array = npt.NDArray[Any]

_MAX_PROGRAMS = 1024  # of the kernels run last; others are decoded again
_IDLE_ROUNDS = 4096  # rounds in which spinning fibers see no write before that counts as a deadlock

FINISHED, BLOCKED, SPUN, JOINED = "finished", "blocked", "spun", "joined"
_BRANCH, _BODY, _STEP = "branch", "body", "step"


class Entry:
    """Where a fiber is in one list of nodes."""

    __slots__ = ("kind", "loop", "nodes", "position")

    def __init__(self, nodes: list[Any], kind: str = _BRANCH, loop: LoopNode | None = None, position: int = 0) -> None:
        self.nodes = nodes
        self.kind = kind
        self.loop = loop
        self.position = position


class Fiber(Frame):
    """Lanes in lockstep with a place in the program."""

    def __init__(self, machine: Machine, lanes: Array, registers: list[Any], stack: list[Entry]) -> None:
        super().__init__(machine, lanes, registers)
        self.stack = stack
        self.waiting: WaitNode | None = None
        self.token: Any = None

    def place(self) -> tuple[Any, ...]:
        """Key that is equal for fibers at the same point of the program."""
        return tuple((id(entry.nodes), entry.position) for entry in self.stack)

    def part(self, chosen: Array) -> Fiber:
        """Move the `chosen` lanes to a new fiber at the same place."""
        machine, num = self.machine, self.num_lanes
        chosen, rest = np.flatnonzero(chosen), np.flatnonzero(~chosen)
        stack = [Entry(e.nodes, e.kind, e.loop, e.position) for e in self.stack]
        other = Fiber(machine, self.lanes[chosen], self._carried(chosen), stack)
        other.waiting, other.token = self.waiting, _take([self.token], chosen, num)[0]
        waiting, token = self.waiting, _take([self.token], rest, num)[0]
        Frame.__init__(self, machine, self.lanes[rest], self._carried(rest))
        self.waiting, self.token = waiting, token
        machine.num_fibers += 1
        return other

    def _carried(self, chosen: Array) -> list[Any]:
        """Registers of some of the lanes."""
        num, registers = self.num_lanes, self.registers
        taken = [None] * self.machine.num_registers + registers[self.machine.num_registers :]
        for i in self.machine.carried:
            a = registers[i]
            taken[i] = a if a is None or len(a) != num else a.take(chosen)
        return taken


def _take(arrays: list[Any], chosen: Array, num: int) -> list[Any]:
    return [a if a is None or len(a) != num else a.take(chosen) for a in arrays]


def _merge(fibers: list[Fiber]) -> Fiber:
    """One fiber of several at the same place."""
    first = fibers[0]
    lanes = np.concatenate([fiber.lanes for fiber in fibers])
    order = np.argsort(lanes)
    machine = first.machine
    registers = [None] * machine.num_registers + first.registers[machine.num_registers :]
    for i in machine.carried:
        arrays = [fiber.registers[i] for fiber in fibers]
        a = arrays[0]
        if a is not None and len(a) == 1 and all(other is a for other in arrays):
            registers[i] = a
        elif not any(other is None for other in arrays):
            spread = [fiber.over_lanes(other) for fiber, other in zip(fibers, arrays, strict=True)]
            registers[i] = np.concatenate(spread)[order]
    machine.num_fibers -= len(fibers) - 1
    return Fiber(machine, lanes[order], registers, first.stack)


def _is_complete(fiber: Fiber, node: CollectiveNode) -> bool:
    """Whether every group of lanes that the instruction needs is here."""
    if fiber.is_everyone:
        return True
    size, machine = node.instr.op.collective, fiber.machine
    if size == WARP and fiber.whole_warps:
        return True
    if size == WARP:
        members = fiber.to_warps(fiber.registers[node.sources[-1]])
        wanted = members & machine.existing_lanes(distinct(fiber.lanes // WARP))
        present = fiber.active_warps()
        words = np.packbits(present, axis=1, bitorder="little").view(np.uint32)
        return not any_of(present & ((wanted & ~words) != 0))
    groups = fiber.lanes // size
    return all_of(np.bincount(groups - groups[0])[distinct(groups) - groups[0]] == size)


class Scheduler:
    """Runs the fibers of one launch."""

    def __init__(self, machine: Machine, root: Fiber) -> None:
        self.machine = machine
        self.fibers = [root]

    def run(self) -> None:
        """Run to the end of the kernel.

        Raises
        ------
        DeadlockError
        """
        idle = 0
        while self.fibers:
            num_writes, num_fibers = self.machine.num_writes, len(self.fibers)
            outcomes, following = set(), []
            for fiber in self._merged():
                spawned: list[Fiber] = []
                outcome = self._advance(fiber, spawned)
                outcomes.add(outcome if outcome != BLOCKED or not spawned else SPUN)  # parts of it have yet to run
                following += spawned if outcome == FINISHED else [fiber, *spawned]
            self.fibers = following
            has_moved = outcomes & {JOINED, FINISHED} or len(following) != num_fibers
            if has_moved or self.machine.num_writes != num_writes or len(self._groups()) < len(following):
                idle = 0
            elif SPUN not in outcomes or idle > _IDLE_ROUNDS:
                self._report_deadlock()
            else:
                idle += 1

    def _merged(self) -> list[Fiber]:
        if len(self.fibers) == 1:
            return self.fibers
        return [group[0] if len(group) == 1 else _merge(group) for group in self._groups()]

    def _groups(self) -> list[list[Fiber]]:
        """Fibers by the place that they are at."""
        groups: dict[tuple[Any, ...], list[Fiber]] = {}
        for fiber in self.fibers:
            place = (id(fiber),) if fiber.waiting is not None else fiber.place()
            groups.setdefault(place, []).append(fiber)
        return list(groups.values())

    def _advance(self, fiber: Fiber, spawned: list[Fiber]) -> str:
        """Run one fiber until it blocks, spins, joins others or ends; new fibers go to `spawned`."""
        while fiber.stack:
            entry = fiber.stack[-1]
            if entry.position == len(entry.nodes):
                if self._leave_block(fiber, entry):
                    return SPUN if entry.kind != _BRANCH else JOINED
                continue
            node = entry.nodes[entry.position]
            if isinstance(node, Code):
                entry.position += 1
                node(fiber)
            elif isinstance(node, WaitNode):
                outcome = self._wait(fiber, node, spawned)
                if outcome is not None:
                    return outcome
            elif isinstance(node, CollectiveNode):
                if not _is_complete(fiber, node):
                    fiber.instr = node.instr
                    return BLOCKED
                entry.position += 1
                node.run(fiber)
            elif isinstance(node, IfNode):
                entry.position += 1
                self._branch(fiber, node, spawned)
            elif isinstance(node, LoopNode):
                entry.position += 1
                fiber.stack.append(Entry(node.body, _BODY, node))
            else:
                entry.position += 1
                self._leave(fiber, node, spawned)
        self.machine.num_fibers -= 1
        return FINISHED

    def _leave_block(self, fiber: Fiber, entry: Entry) -> bool:
        """Leave a finished list of nodes; whether other fibers should run next."""
        fiber.stack.pop()
        if entry.kind == _BODY and entry.loop is not None and entry.loop.step:
            fiber.stack.append(Entry(entry.loop.step, _STEP, entry.loop))
            return False
        if entry.kind != _BRANCH and entry.loop is not None:
            fiber.stack.append(Entry(entry.loop.body, _BODY, entry.loop))
            return True
        return self.machine.num_fibers > 1 and bool(fiber.stack)

    def _wait(self, fiber: Fiber, node: WaitNode, spawned: list[Fiber]) -> str | None:
        """Arrive at a blocking instruction, and let the ready lanes pass; None if the whole fiber passes at once."""
        op, operands = node.instr.op, node.operands(fiber)
        fiber.instr = node.instr
        if fiber.waiting is None:
            fiber.waiting = node
            fiber.token = op.ref.arrive(fiber, op, *operands)
        ready = fiber.over_lanes(op.ref.ready(fiber, op, fiber.token, *operands))
        if not any_of(ready):
            return BLOCKED
        through = fiber if all_of(ready) else fiber.part(ready)
        through.waiting = through.token = None
        through.stack[-1].position += 1
        if through is not fiber:
            spawned.append(through)
            return BLOCKED
        # let those that passed with it join it
        return JOINED if self.machine.num_fibers > 1 else None

    @staticmethod
    def _branch(fiber: Fiber, node: IfNode, spawned: list[Fiber]) -> None:
        holds = fiber.registers[node.predicate]
        if all_of(holds):
            fiber.stack.append(Entry(node.then))
            return
        if any_of(holds):
            other = fiber.part(fiber.over_lanes(holds))
            other.stack.append(Entry(node.then))
            spawned.append(other)
        if node.orelse:
            fiber.stack.append(Entry(node.orelse))

    @staticmethod
    def _leave(fiber: Fiber, node: LeaveNode, spawned: list[Fiber]) -> None:
        going = fiber.registers[node.predicate]
        if not any_of(going):
            return
        leaver = fiber
        if not all_of(going):
            leaver = fiber.part(fiber.over_lanes(going))
            spawned.append(leaver)
        while leaver.stack[-1].loop is not node.loop:
            leaver.stack.pop()
        leaver.stack.pop()
        if not node.is_break:
            leaver.stack.append(Entry(node.loop.step, _STEP, node.loop))

    def _report_deadlock(self) -> None:
        lines = []
        for fiber in sorted(self.fibers, key=lambda fiber: int(fiber.lanes[0])):
            text = fiber.instr.text if fiber.instr is not None else "?"
            verb = "waits at" if fiber.waiting is not None else "spins, or waits for the rest of its warp, near"
            lines.append(f"{fiber.num_lanes} threads, among them {fiber.describe(fiber.lanes[0])}: {verb} `{text}`")
        raise DeadlockError(f"kernel {self.machine.kernel.name} cannot go on: " + "; ".join(lines))


@lru_cache(_MAX_PROGRAMS)
def _program(kernel: Kernel) -> Program:
    """Program of a kernel, whose own thousands of objects go if it can be traced again."""
    program = Program(kernel)
    kernel.let_go()
    return program


def run(kernel: Kernel, memory: Memory, grid: int | tuple[int, ...], param_bytes: bytes) -> None:
    """Run a kernel to its end.

    Parameters
    ----------
    kernel : Kernel
    memory : Memory
        Global memory; pointers in `param_bytes` are its addresses.
    grid : int or tuple of int
        Blocks in x, y, z.
    param_bytes : bytes
        Parameters packed with ``kernel.param_format``.

    Raises
    ------
    EmulationError
        The kernel did something that is wrong on the device: see `oxinp._ptx.emulator.faults`.
    """
    extents = three_extents(grid)
    if min(extents) < 1:
        raise ValueError(f"grid {extents} has no blocks")
    program = _program(kernel)
    machine = Machine(kernel, memory, extents, bytes(param_bytes), program.carried)
    memory.tracker.begin_launch()
    root = Fiber(machine, machine.all_lanes(), program.registers(), [Entry(program.body)])
    try:
        with np.errstate(all="ignore"):
            program.prologue(root)
            Scheduler(machine, root).run()
    finally:
        for address in machine.tables.values():
            memory.free(address)
        memory.clock = machine.epochs.now
