"""A finished kernel: its PTX text, parameters and launch shape, and the structured program both come from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial, wraps
from typing import Any

import numpy as np

from oxinp._ptx.frozen import Frozen, deferred
from oxinp._ptx.isa import Op
from oxinp._ptx.types import Type
from oxinp._ptx.value import Immediate, Scope, Value


class Instr:
    """One instruction: an instruction form and its operands."""

    __slots__ = ("dst", "op", "src")

    def __init__(self, op: Op, dst: tuple[Value, ...], src: tuple[Value | Immediate, ...]) -> None:
        self.op = op
        self.dst = dst
        self.src = src

    @property
    def text(self) -> str:
        """PTX text."""
        return self.op.text.format(*[operand.text for operand in (*self.dst, *self.src)])


class Block:
    """A list of instructions and nested constructs.

    Blocks do not know the block around, only scopes do: a finished kernel has no circles, and goes as soon as nobody
    holds it.
    """

    __slots__ = ("nodes", "scope")

    def __init__(self, parent: Block | None) -> None:
        self.nodes: list[Node] = []
        self.scope: Scope = Scope(None if parent is None else parent.scope)


class If:
    """Run `then` where the predicate holds, `orelse` elsewhere."""

    __slots__ = ("orelse", "predicate", "then")

    def __init__(self, predicate: Value, then: Block) -> None:
        self.predicate = predicate
        self.then = then
        self.orelse: Block | None = None


class Loop:
    """Run `body`, then `step`, again and again until `Leave` nodes have taken every lane out."""

    __slots__ = ("body", "step", "used_continue")

    def __init__(self, body: Block, step: Block) -> None:
        self.body = body
        self.step = step
        self.used_continue = False


class Leave:
    """Take lanes out of the innermost loop (``is_break``) or on to its step block, where the predicate holds."""

    __slots__ = ("is_break", "predicate")

    def __init__(self, predicate: Value, *, is_break: bool) -> None:
        self.predicate = predicate
        self.is_break = is_break


Node = Instr | If | Loop | Leave


class Param(Frozen):
    """One kernel parameter.

    `type` is the pointed-to type of a pointer, None for a by-value block of `nbytes` bytes aligned to `align`.
    """

    name: str
    type: Type | None
    is_pointer: bool
    nbytes: int
    align: int
    access: str = ""


class SharedArray(Frozen):
    """One shared-memory array; `offset` is where the emulator puts it. Dynamic ones share one extern symbol."""

    name: str
    nbytes: int
    align: int
    offset: int
    is_dynamic: bool


class Table:
    """An array that a kernel's module holds in global memory."""

    __slots__ = ("name", "values")

    def __init__(self, name: str, values: np.ndarray[Any, Any]) -> None:
        self.name = name
        self.values = values

    def text(self) -> str:
        """PTX text of its declaration: the elements' bits, as words of 32 or 64 bits."""
        nbytes = 8 if self.values.nbytes % 8 == 0 else 4
        words = self.values.view(np.uint64 if nbytes == 8 else np.uint32)
        digits = ", ".join([f"0x{word:x}" for word in words.tolist()])
        return f".global .align 16 .b{8 * nbytes} {self.name}[{len(words)}] = {{{digits}}};"


class Kernel(Frozen, eq=False, aside=("prologue", "body", "num_registers", "shared", "constants")):
    """A kernel ready to be loaded, or run by the emulator.

    Attributes
    ----------
    name, ptx, target : str
        Entry name, module text (of a traced kernel written when it is first read), PTX target (``"sm_80"``).
    params : tuple of Param
    param_format : str
        `struct` format whose packing equals the PTX parameter layout.
    block : tuple of int
        Threads per block in x, y, z.
    cluster : tuple of int or None
        Blocks per cluster.
    shared_nbytes : int
        Dynamic shared memory to give at launch.
    static_shared_nbytes : int
        Shared memory the module itself declares.

    The rest is the program as the emulator runs it; `constants` are numbered behind the registers.
    """

    name: str
    ptx: str = deferred()
    target: str
    params: tuple[Param, ...]
    param_format: str
    block: tuple[int, int, int]
    cluster: tuple[int, int, int] | None
    shared_nbytes: int
    static_shared_nbytes: int
    prologue: Block | None
    body: Block | None
    num_registers: int = 0
    shared: tuple[SharedArray, ...] = ()
    constants: tuple[Immediate, ...] = ()

    def let_go(self) -> None:
        """Let go of the program, thousands of objects that only the emulator reads, if it can be traced again."""
        if "_again" in vars(self):
            vars(self).update(prologue=None, body=None)

    def blocks(self) -> tuple[Block, Block]:
        """Return prologue and body, traced again where they were let go of."""
        prologue, body = self.prologue, self.body
        if prologue is None or body is None:
            again = vars(self)["_again"]()
            prologue, body = again.prologue, again.body
            vars(self).update(prologue=prologue, body=body, constants=again.constants)
        return prologue, body

    @property
    def num_threads(self) -> int:
        """Threads per block."""
        return self.block[0] * self.block[1] * self.block[2]


def traced_with(kernel: Kernel) -> tuple[Any, ...]:
    """Return the arguments of the `retraceable` function that traced a kernel."""
    arguments: tuple[Any, ...] = vars(kernel)["_again"].args
    return arguments


def retraceable(make: Callable[..., Kernel]) -> Callable[..., Kernel]:
    """Decorate a function that traces the same kernel whenever it is called: kernels may then let go of it."""

    @wraps(make)
    def made(*args: Any) -> Kernel:
        kernel = make(*args)
        vars(kernel)["_again"] = partial(make, *args)
        return kernel

    return made


def three_extents(extents: int | tuple[int, ...]) -> tuple[int, int, int]:
    """Extents in x, y and z; missing ones are 1."""
    x, y, z = (extents, 1, 1) if isinstance(extents, int) else (*extents, 1, 1)[:3]
    return x, y, z


def param_layout(params: tuple[Param, ...]) -> tuple[str, tuple[int, ...]]:
    """`struct` format and byte offsets of a parameter list: each at its own alignment, in order."""
    parts, offsets, position = ["<"], [], 0
    for param in params:
        padding = -position % param.align
        if padding:
            parts.append(f"{padding}x")
        position += padding
        offsets.append(position)
        if param.is_pointer:
            parts.append("Q")
        else:
            parts.append(param.type.struct_code if param.type is not None else f"{param.nbytes}s")
        position += param.nbytes
    return "".join(parts), tuple(offsets)


def render(block: Block, labels: Iterator[int], lines: list[str], exits: tuple[str, str] | None = None) -> None:
    """Append the PTX text of a block; `exits` are the labels behind the innermost loop and before its step block."""
    for node in block.nodes:
        if isinstance(node, Instr):
            if node.op.text:
                lines.append(f"\t{node.text}")
        elif isinstance(node, If):
            _render_if(node, labels, lines, exits)
        elif isinstance(node, Loop):
            _render_loop(node, labels, lines)
        else:
            assert exits is not None
            lines.append(f"\t@{node.predicate.text} bra {exits[0 if node.is_break else 1]};")


def _render_if(node: If, labels: Iterator[int], lines: list[str], exits: tuple[str, str] | None) -> None:
    number = next(labels)
    end = f"$end_{number}"
    skip = end if node.orelse is None else f"$else_{number}"
    lines.append(f"\t@!{node.predicate.text} bra {skip};")
    render(node.then, labels, lines, exits)
    if node.orelse is not None:
        lines += [f"\tbra {end};", f"{skip}:"]
        render(node.orelse, labels, lines, exits)
    lines.append(f"{end}:")


def _render_loop(node: Loop, labels: Iterator[int], lines: list[str]) -> None:
    number = next(labels)
    head, step, end = f"$loop_{number}", f"$step_{number}", f"$done_{number}"
    lines.append(f"{head}:")
    render(node.body, labels, lines, (end, step))
    if node.used_continue:
        lines.append(f"{step}:")
    render(node.step, labels, lines, (end, step))
    lines += [f"\tbra {head};", f"{end}:"]
