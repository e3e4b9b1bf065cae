"""One lane at a time: a plain interpreter to hold the emulator against, and random programs to do it with."""

import numpy as np

from oxinp._ptx.kernel import If, Instr, Loop
from oxinp._ptx.types import i32
from oxinp._ptx.value import Immediate


class _Left(Exception):
    """A lane leaves a loop, or goes on with its next round."""

    def __init__(self, is_break):
        super().__init__()
        self.is_break = is_break


def run(kernel, specials, value):
    """Run a kernel without memory accesses for one lane and return what `value` is at the end."""
    registers = {}

    def read(operand):
        return operand.array if isinstance(operand, Immediate) else registers[operand.index]

    def execute(node):
        if isinstance(node, Instr):
            if node.op.name == "special":
                registers[node.dst[0].index] = np.asarray([specials[node.op.detail]], np.uint32)
            else:
                registers[node.dst[0].index] = node.op.ref(*map(read, node.src))
        elif isinstance(node, If):
            block = node.then if read(node.predicate)[0] else node.orelse
            for child in block.nodes if block is not None else ():
                execute(child)
        elif isinstance(node, Loop):
            repeat(node)
        elif read(node.predicate)[0]:
            raise _Left(node.is_break)

    def repeat(loop):
        while True:
            for block in (loop.body, loop.step):
                try:
                    for child in block.nodes:
                        execute(child)
                except _Left as left:
                    if left.is_break:
                        return

    with np.errstate(all="ignore"):
        for node in (*kernel.prologue.nodes, *kernel.body.nodes):
            execute(node)
    return int(registers[value.index][0])


def random_body(k, lane, pause, rng):
    """Trace a random program over three variables; returns the value it ends with."""
    variables = [k.var(lane), k.var(lane * 7 + 3), k.var(1, i32)]
    _random_block(k, variables, pause, rng, depth=0, in_loop=False)
    return (variables[0] * 31 + variables[1]) * 31 + variables[2]


def _random_value(variables, rng):
    a, b = (variables[i] for i in rng.integers(0, 3, 2))
    constant = int(rng.integers(-9, 10))
    kind = int(rng.integers(0, 5))
    operations = (
        lambda: a + b,
        lambda: a - constant,
        lambda: a * 5 + constant,
        lambda: a ^ b,
        lambda: (a >> 1) & 0xFFFF,
    )
    return operations[kind]()


def _random_predicate(variables, rng):
    value = _random_value(variables, rng)
    return (value & int(rng.integers(1, 8))) == int(rng.integers(0, 3))


def _random_block(k, variables, pause, rng, depth, in_loop):
    for _ in range(int(rng.integers(2, 5))):
        kind = int(rng.integers(0, 7))
        if kind <= 1 or depth == 3:
            variables[int(rng.integers(0, 3))].set(_random_value(variables, rng))
        elif kind == 2:
            pause()
        elif kind == 3:
            with k.when(_random_predicate(variables, rng)):
                _random_block(k, variables, pause, rng, depth + 1, in_loop)
            if rng.integers(0, 2):
                with k.otherwise():
                    _random_block(k, variables, pause, rng, depth + 1, in_loop)
        elif kind == 4:
            with k.range(0, variables[0].get() & 7, int(rng.integers(1, 3))) as i:
                variables[2].set(variables[2] + i)
                _random_block(k, variables, pause, rng, depth + 1, in_loop=True)
        elif kind == 5 and in_loop:
            k.break_if(_random_predicate(variables, rng))
        elif kind == 6 and in_loop:
            k.continue_if(_random_predicate(variables, rng))
