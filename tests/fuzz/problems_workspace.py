"""Random plans for the planner of smaller workspaces: what they compute is the same where arrays share memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from oxinp._kernels import workspace
from oxinp._kernels.plan import ALIGNMENT, Argument, Beside, Copy, Fill, Plan, Read, Scratch, Step, in_order
from tests.fuzz.problem import Problem

NBYTES = (ALIGNMENT, 100, 1000, 4 * ALIGNMENT, 5000)
NUM_STEPS = 14


class _Made:
    """A plan of copies while it is drawn: outputs and arrays are read once something has been written there."""

    def __init__(self, p: Problem) -> None:
        self.p, self.scratch = p, Scratch()
        self.outputs = [p.choice((0, *NBYTES)) for _ in range(p.choice((0, 1, 2)))]
        self.arrays = [(self.scratch.take(n), n) for n in (p.choice(NBYTES) for _ in range(p.choice((0, 1, 3, 6))))]
        if p.chance(30):  # of a plan within, whose arrays are unknown
            self.arrays += [(self.scratch.take_of(Plan((), n)), n) for n in (p.choice(NBYTES),)]
        self.places = self.arrays + [(Argument(f"out{i}"), n) for i, n in enumerate(self.outputs) if n]
        self.written: list[tuple[Argument, int]] = []

    def step(self, places: list[tuple[Argument, int]], sources: list[tuple[Argument, int]]) -> Step:
        """Return a step that writes one of some places."""
        p, (target, nbytes) = self.p, self.p.choice(places)
        whole = [(place, n) for place, n in sources if n >= nbytes and place != target]
        if (target, nbytes) not in self.written:
            self.written.append((target, nbytes))
        if not whole or p.chance(20):
            return Fill(target, nbytes, p.integer(1, 255))
        source, _ = p.choice(whole)
        return Copy(target, source, nbytes)

    def plan(self) -> Plan:
        """Return the plan."""
        steps: list[Step] = []
        for _ in range(self.p.integer(0, NUM_STEPS) if self.places else 0):
            if len(self.places) > 1 and self.p.chance(25):
                cut = self.p.integer(1, len(self.places) - 1)
                sides = self.places[:cut], self.places[cut:]
                known = [[each for each in self.written if each in side] for side in sides]
                urgent, rest = ((self.step(side, own),) for side, own in zip(sides, known, strict=True))
                steps.append(Beside(urgent, rest))
            elif self.written and self.p.chance(15):
                steps.append(Read(self.p.choice(self.written)[0]))
            else:
                steps.append(self.step(self.places, self.written))
        return self.scratch.plan(steps)


def _run(plan: Plan, outputs: list[int]) -> tuple[list[bytes], list[bytes]]:
    """Return what a plan leaves in outputs, and what it reads, of memory that is zeros."""
    memory = {f"out{i}": np.zeros(n, np.uint8) for i, n in enumerate(outputs)}
    memory["scratch"] = np.full(plan.scratch_nbytes, 0xEE, np.uint8)
    read = []

    def at(place: Argument, nbytes: int) -> Any:
        found = memory[place.buffer][place.offset : place.offset + nbytes]
        assert len(found) == nbytes, (place, nbytes)
        return found

    for step in in_order(plan.steps):
        if isinstance(step, Fill):
            at(step.target, step.nbytes)[:] = step.byte
        elif isinstance(step, Copy):
            at(step.target, step.nbytes)[:] = at(step.source, step.nbytes).copy()
        elif isinstance(step, Read):
            read.append(at(step.source, 8).tobytes())
    return [memory[f"out{i}"].tobytes() for i in range(len(outputs))], read


def smaller_workspaces(p: Problem) -> Any:
    """Compute the same by a plan and by the one whose arrays share memory."""
    made = _Made(p)
    plan = made.plan()
    p.text = f"{plan} {made.outputs}"
    smaller = workspace.compacted(plan, made.outputs)
    assert smaller.scratch_nbytes <= plan.scratch_nbytes
    (outputs, read), (expected, told) = _run(smaller, made.outputs), _run(plan, made.outputs)
    assert read == told
    used = {x.buffer for step in in_order(plan.steps) if not isinstance(step, Read) for x in (step.target,)}
    for i, (found, wanted) in enumerate(zip(outputs, expected, strict=True)):
        assert found == wanted or f"out{i}" not in used, (i, smaller)
    if p.chance(10):
        assert (
            workspace.compacted(plan.replace(then=lambda _: plan), made.outputs).scratch_nbytes == plan.scratch_nbytes
        )
