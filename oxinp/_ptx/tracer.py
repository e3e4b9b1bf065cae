"""Recording instructions: the part of `Builder` that everything else of it stands on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from oxinp._ptx import compound, isa, synchronize
from oxinp._ptx.cast import cast
from oxinp._ptx.isa import WAIT, Binding, Op
from oxinp._ptx.kernel import Block, Instr, Loop
from oxinp._ptx.types import Compound, Type, bf16, f16, f32, i8, i16, pred, u8, u16
from oxinp._ptx.value import Coordinate, Immediate, Language, Scope, Value, Var, as_operand

_WIDENED = {i8: i16, u8: u16, f16: f32}
_REGISTERS: frozenset[Any] = frozenset({Value, Var, Coordinate})
_WITHOUT_LITERALS = frozenset({pred, f16, bf16})  # types whose constants instructions take from registers only


class Tracer(Language):
    """Registers, blocks and instructions of one kernel.

    Parameters
    ----------
    name : str
    block : tuple of int
        Threads per block in x, y, z.
    target : str
    """

    def __init__(self, name: str, block: tuple[int, int, int], target: str) -> None:
        self.name = name
        self.block = block
        self.target = target
        self._sm = int("".join(c for c in target if c.isdigit()))
        self._ptx: isa.Version = (8, 0) if target.endswith("a") else (7, 8) if self._sm >= 90 else (7, 0)
        self._specials: dict[str, Value] = {}
        self._split: dict[int, tuple[Value, list[Value]]] = {}  # words by id of the first of their narrow elements
        self._num_registers = 0
        self._class_counts = dict.fromkeys("phrd", 0)
        self._usable: dict[Op, bool] = {}  # instructions of the target -> whether they may block
        self._constants: dict[Immediate, None] = {}
        self._prologue = Block(None)
        self._body = Block(None)
        self._current = self._body
        self._loops: list[Loop] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Instructions of the table, as methods."""
        if name.startswith("__") or not isa.has(name):
            raise AttributeError(f"no instruction {name!r} in the table")
        return partial(self.emit, name)

    # -- special registers

    def special(self, register: str) -> Value:
        """Special register such as ``"tid.x"`` or ``"laneid"``, read once."""
        value = self._specials.get(register)
        if value is None:
            value = self._specials[register] = self.in_prologue(synchronize.special_op(register))
        return value

    @property
    def tid(self) -> Coordinate:
        """Thread index in the block (x; ``.y``, ``.z``), u32."""
        return Coordinate(self.special("tid.x"), "tid")

    @property
    def ntid(self) -> Coordinate:
        """Threads per block."""
        return Coordinate(self.special("ntid.x"), "ntid")

    @property
    def ctaid(self) -> Coordinate:
        """Block index in the grid."""
        return Coordinate(self.special("ctaid.x"), "ctaid")

    @property
    def nctaid(self) -> Coordinate:
        """Blocks in the grid."""
        return Coordinate(self.special("nctaid.x"), "nctaid")

    @property
    def lane(self) -> Value:
        """Lane in the warp, 0 to 31."""
        return self.special("laneid")

    @property
    def warp(self) -> Value:
        """Warp in the block."""
        return self.thread_index() >> 5

    def thread_index(self) -> Value:
        """Thread number in the block over all three axes, x fastest, u32."""
        x, y, z = self.block
        index: Value = self.special("tid.x")
        if y > 1:
            index = index + self.special("tid.y") * x
        if z > 1:
            index = index + self.special("tid.z") * (x * y)
        return index

    def new_value(self, type: Type) -> Value:
        """Fresh register of the current block."""
        register, index = type.register, self._num_registers
        count = self._class_counts[register]
        self._class_counts[register] = count + 1
        self._num_registers = index + 1
        return Value(self, index, type, f"%{register}{count}", self._current.scope)

    def operand(self, value: Any, type: Type) -> Value | Immediate:
        """`value` checked as an instruction operand of `type`."""
        operand = as_operand(value, type)
        if isinstance(operand, Value):
            if isinstance(operand, compound.CompoundValue):
                for part in operand.parts:
                    self.operand(part, part.type)
                return operand
            if operand.builder is not self:
                raise ValueError("a value of another kernel")
            if not operand.scope.is_open:
                raise TypeError(
                    f"{operand!r} was made inside a k.when, k.range or k.loop that is closed: "
                    "make a k.var before it and assign it inside"
                )
            return operand
        if type in _WITHOUT_LITERALS:
            return self.as_value(operand, type)
        self._constants[operand] = None
        return operand

    def as_value(self, value: Any, type: Type) -> Value:
        """`value` in a register, or in the registers of a compound type."""
        if isinstance(type, Compound):
            return compound.as_value(self, value, type)
        if isinstance(value, Value):
            return as_operand(value, type)  # type: ignore[return-value]
        immediate = as_operand(value, type)
        assert isinstance(immediate, Immediate)
        op = isa.find("mov", (type,))
        assert op is not None
        result = self.new_value(type)
        self._constants[immediate] = None
        self._current.nodes.append(Instr(op, (result,), (immediate,)))
        return result

    def const(self, value: Any, type: Type) -> Value:
        """A constant of `type` as a value: of a compound type that is not complex, a tuple of constants."""
        return self.as_value(value, type)

    def compound(self, type: Type, *parts: Any) -> compound.CompoundValue:
        """The value of a compound type made of its parts: ``k.compound(c64, re, im)``."""
        return compound.make(self, type, parts)

    def emit_op(self, op: Op, *args: Any) -> Any:
        """Record one instruction form; returns None, its value, or the tuple of its values."""
        if len(args) != len(op.src):
            raise TypeError(f"{op.name} takes {len(op.src)} operands, not {len(args)}")
        may_block = self._usable.get(op)
        if may_block is None:
            may_block = self._use(op)
        src: list[Value | Immediate] = []
        for arg, type in zip(args, op.src):  # noqa: B905 - of one length, and this runs for every instruction
            # what `operand` finds out about most
            is_good = arg.__class__ in _REGISTERS and arg.type is type and arg.builder is self and arg.scope.is_open
            src.append(arg if is_good else self.operand(arg, type))
        if may_block:
            self._mark_blocking()
        block, dst = self._current, op.dst
        if len(dst) != 1:
            results = tuple([self.new_value(type) for type in dst])
            block.nodes.append(Instr(op, results, tuple(src)))
            return results or None
        # what `new_value` does
        type = dst[0]
        register, index = type.register, self._num_registers
        count = self._class_counts[register]
        self._class_counts[register] = count + 1
        self._num_registers = index + 1
        result = Value(self, index, type, f"%{register}{count}", block.scope)
        block.nodes.append(Instr(op, (result,), tuple(src)))
        return result

    def _use(self, op: Op) -> bool:
        """Check that the target has an instruction; whether it may block."""
        if op.sm > self._sm or (op.arch_specific and not self.target.endswith("a")):
            suffix = "a" if op.arch_specific else ""
            raise ValueError(f"{op.name} needs sm_{op.sm}{suffix}, and kernel {self.name} targets {self.target}")
        self._ptx = max(self._ptx, op.ptx)
        may_block = self._usable[op] = op.kind == WAIT or op.spins
        return may_block

    def emit(self, name: str, *args: Any, types: Binding | None = None) -> Value:
        """Record the instruction `name`, bound to `types` or to the type of its first run-time operand.

        Gives what `emit_op` gives: the value, for the instructions that have one result.
        """
        if types is None:
            types = ()
            for arg in args:
                if isinstance(arg, Value):
                    types = (arg.type,)
                    break
        op = isa.find(name, types)
        if op is None:
            if types and types[0] in _WIDENED:
                return self._emit_narrow(name, args, types[0])
            if types and isinstance(types[0], Compound):
                return compound.emit(self, name, args, types[0])
            what = ", ".join(t.name for t in types) or "constants only"
            raise TypeError(f"no instruction {name} for {what}")
        value: Value = self.emit_op(op, *args)
        return value

    def _emit_narrow(self, name: str, args: tuple[Any, ...], narrow: Type) -> Value:
        """Arithmetic in the type twice as wide, and its low byte; of f16, what f32 has, rounded once more."""
        wide = _WIDENED[narrow]
        args = tuple(self.cast(a, wide) if isinstance(a, Value) and a.type is narrow else a for a in args)
        result = self.emit(name, *args)
        return self.cast(result, narrow) if result.type is wide else result

    def in_prologue(self, op: Op) -> Value:
        """Record an instruction that every later one may rely on."""
        current, self._current = self._current, self._prologue
        value: Value = self.emit_op(op)
        self._current = current
        return value

    def _mark_blocking(self) -> None:
        scope: Scope | None = self._current.scope
        while scope is not None and not scope.is_blocking:
            scope.is_blocking = True
            scope = scope.parent

    @contextmanager
    def inside(self, block: Block) -> Iterator[None]:
        """Record into a nested block, and close it."""
        outer, self._current = self._current, block
        try:
            yield
        finally:
            block.scope.is_open = False
            self._current = outer

    def nested(self) -> Block:
        """New block inside the current one."""
        return Block(self._current)

    def cast(self, value: Any, to: Type) -> Value:
        """Conversion with NumPy's result for every input; see `oxinp._ptx.cast`."""
        return cast(self, value, to) if isinstance(value, Value) else self.const(value, to)
