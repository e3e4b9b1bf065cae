"""Tracing a kernel: `Builder` records instructions and control flow as Python runs, and `build` makes the `Kernel`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from oxinp._ptx import isa, synchronize
from oxinp._ptx.cast import cast
from oxinp._ptx.control import ControlFlow
from oxinp._ptx.isa import ALIAS, EFFECT, WAIT, Binding, Op
from oxinp._ptx.kernel import Block, Instr, Kernel, Param, SharedArray, param_layout, render
from oxinp._ptx.memory import Pointer
from oxinp._ptx.types import UNSIGNED, Type, bf16, f16, f64, i8, i16, pred, u8, u16, u32, u64
from oxinp._ptx.value import Coordinate, Immediate, Value, as_operand
from oxinp._ptx.warp import FULL, shuffle

_WIDENED = {i8: i16, u8: u16}
_SHARED_GAP = 16  # unallocated bytes between shared arrays, so that the emulator sees overruns
_DYNAMIC_ALIGN = 1024


class Builder(ControlFlow):
    """A kernel under construction.

    Every instruction of the table is a method: ``k.fma(a, b, c)``, ``k.sqrt(x)``, ``k.popc(x)``; see
    `oxinp._ptx.isa`. What stands here is what a table row cannot say.

    Parameters
    ----------
    name : str
        Entry name.
    block : int or tuple of int
        Threads per block.
    target : str
        ``"sm_80"``, ``"sm_90"``, ``"sm_90a"``; instructions it lacks raise.
    min_blocks, max_registers : int, optional
        ``.minnctapersm`` and ``.maxnreg``.
    cluster : int or tuple of int, optional
        Blocks per cluster.
    """

    def __init__(
        self,
        name: str,
        block: int | tuple[int, ...] = 256,
        target: str = "sm_80",
        min_blocks: int | None = None,
        max_registers: int | None = None,
        cluster: int | tuple[int, ...] | None = None,
    ) -> None:
        self.name = name
        self.target = target
        self.block = _three(block)
        self.cluster = None if cluster is None else _three(cluster)
        self._sm = int("".join(c for c in target if c.isdigit()))
        self._ptx: isa.Version = (8, 0) if target.endswith("a") else (7, 8) if self._sm >= 90 else (7, 0)
        self._directives = [
            f".{word} {value}"
            for word, value in (("minnctapersm", min_blocks), ("maxnreg", max_registers))
            if value is not None
        ]
        self._params: list[Param] = []
        self._shared: list[SharedArray] = []
        self._static_nbytes = self._dynamic_nbytes = 0
        self._specials: dict[str, Value] = {}
        self._num_registers = 0
        self._class_counts = dict.fromkeys("phrd", 0)
        self._prologue = Block(None)
        self._body = Block(None)
        self._current = self._body
        self._loops: list[Any] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Instructions of the table, as methods."""
        if name.startswith("__") or not isa.has(name):
            raise AttributeError(f"no instruction {name!r} in the table")
        return partial(self.emit, name)

    # -- parameters

    def pointer(self, name: str, type: Type, access: str = "rw") -> Pointer:
        """Global pointer parameter to elements of `type`; `access` is ``"r"``, ``"w"`` or ``"rw"``."""
        if access not in ("r", "w", "rw"):
            raise ValueError(f"access is 'r', 'w' or 'rw', not {access!r}")
        base = self._parameter(Param(name, type, is_pointer=True, nbytes=8, align=8, access=access), u64)
        return Pointer(self, base, type, "global", access)

    def scalar(self, name: str, type: Type) -> Value:
        """By-value parameter; a `pred` travels as one byte."""
        if type is pred:
            return self.cast(self.scalar(name, u8), pred)
        return self._parameter(Param(name, type, is_pointer=False, nbytes=type.nbytes, align=type.nbytes), type)

    def parameter_block(self, name: str, nbytes: int = 128, align: int = 64) -> Value:
        """By-value block of bytes (a tensor map); returns its generic address."""
        param = Param(name, None, is_pointer=False, nbytes=nbytes, align=align)
        text = f"mov.b64 {{0}}, {name};\n\tcvta.param.u64 {{0}}, {{0}};"
        return self._parameter(param, u64, text, (7, 7))

    def _parameter(self, param: Param, type: Type, text: str = "", ptx: isa.Version = (7, 0)) -> Value:
        if any(other.name == param.name for other in self._params):
            raise ValueError(f"two parameters named {param.name!r}")
        suffix = type.untyped if type in (f16, bf16) else type.ptx
        op = Op("ld_param", text or f"ld.param.{suffix} {{0}}, [{param.name}];", (type,), (), _read_parameter, EFFECT,
                ptx=ptx, detail=len(self._params))
        self._params.append(param)
        return self._in_prologue(op)

    # -- special registers

    def special(self, register: str) -> Value:
        """Special register such as ``"tid.x"`` or ``"laneid"``, read once."""
        value = self._specials.get(register)
        if value is None:
            value = self._specials[register] = self._in_prologue(synchronize.special_op(register))
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

    # -- shared memory

    def shared(self, type: Type, shape: int | tuple[int, ...], align: int = 16) -> Pointer:
        """Static shared array (all of them together at most 48 KiB); index it with one or `len(shape)` integers."""
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        nbytes = math.prod(shape) * type.nbytes
        offset = -(-self._static_nbytes // align) * align
        array = SharedArray(f"shared_{len(self._shared)}", nbytes, align, offset, is_dynamic=False)
        self._static_nbytes = offset + nbytes + _SHARED_GAP
        return self._shared_pointer(array, type, shape, 0)

    def dynamic_shared(self, type: Type, shape: int | tuple[int, ...], align: int = 16) -> Pointer:
        """Part of the dynamic shared memory, up to the device's limit; parts follow each other."""
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        nbytes = math.prod(shape) * type.nbytes
        start = -(-self._dynamic_nbytes // align) * align
        array = SharedArray("dynamic_shared", nbytes, align, start, is_dynamic=True)
        self._dynamic_nbytes = start + nbytes
        return self._shared_pointer(array, type, shape, start)

    def _shared_pointer(self, array: SharedArray, type: Type, shape: tuple[int, ...], offset: int) -> Pointer:
        self._shared.append(array)
        value = self._specials.get(array.name)
        if value is None:
            op = Op("shared", f"mov.u32 {{0}}, {array.name};", (u32,), (), _shared_address, EFFECT, detail=array)
            value = self._specials[array.name] = self._in_prologue(op)
        return Pointer(self, value, type, "shared", "rw", shape, offset)

    # -- emitting

    def new_value(self, type: Type) -> Value:
        """Fresh register of the current block."""
        count = self._class_counts[type.register]
        self._class_counts[type.register] = count + 1
        self._num_registers += 1
        return Value(self, self._num_registers - 1, type, f"%{type.register}{count}", self._current)

    def operand(self, value: Any, type: Type) -> Value | Immediate:
        """`value` checked as an instruction operand of `type`."""
        operand = as_operand(value, type)
        if isinstance(operand, Value):
            if operand.builder is not self:
                raise ValueError("a value of another kernel")
            if not operand.block.is_open:
                raise TypeError(
                    f"{operand!r} was made inside a k.when, k.range or k.loop that is closed: "
                    "make a k.var before it and assign it inside"
                )
            return operand
        # Instructions take no literals of these types.
        return self.as_value(operand, type) if type in (pred, f16, bf16) else operand

    def as_value(self, value: Any, type: Type) -> Value:
        """`value` in a register."""
        if isinstance(value, Value):
            return as_operand(value, type)  # type: ignore[return-value]
        immediate = value if isinstance(value, Immediate) else as_operand(value, type)
        op = isa.find("mov", (type,))
        assert op is not None
        result = self.new_value(type)
        self._current.nodes.append(Instr(op, (result,), (immediate,)))
        return result

    def const(self, value: Any, type: Type) -> Value:
        """A constant of `type` as a value."""
        return self.as_value(value, type)

    def emit_op(self, op: Op, *args: Any) -> Any:
        """Record one instruction form; returns None, its value, or the tuple of its values."""
        if len(args) != len(op.src):
            raise TypeError(f"{op.name} takes {len(op.src)} operands, not {len(args)}")
        if op.sm > self._sm or (op.arch_specific and not self.target.endswith("a")):
            suffix = "a" if op.arch_specific else ""
            raise ValueError(f"{op.name} needs sm_{op.sm}{suffix}, and kernel {self.name} targets {self.target}")
        if op.ptx > self._ptx:
            self._ptx = op.ptx
        src = tuple([self.operand(arg, type) for arg, type in zip(args, op.src, strict=True)])
        dst = tuple([self.new_value(type) for type in op.dst])
        self._current.nodes.append(Instr(op, dst, src))
        if op.kind == WAIT or op.spins:
            self._mark_blocking()
        return None if not dst else dst[0] if len(dst) == 1 else dst

    def emit(self, name: str, *args: Any, types: Binding | None = None) -> Any:
        """Record the instruction `name`, bound to `types` or to the type of its first run-time operand."""
        if types is None:
            first = next((arg.type for arg in args if isinstance(arg, Value)), None)
            types = () if first is None else (first,)
        op = isa.find(name, types)
        if op is None:
            if types and types[0] in _WIDENED:
                return self._emit_narrow(name, args, types[0])
            what = ", ".join(t.name for t in types) or "constants only"
            raise TypeError(f"no instruction {name} for {what}")
        return self.emit_op(op, *args)

    def _emit_narrow(self, name: str, args: tuple[Any, ...], narrow: Type) -> Any:
        """8-bit arithmetic: in 16 bits, and the low byte of the result."""
        wide = _WIDENED[narrow]
        result = self.emit(name, *[self.cast(a, wide) if isinstance(a, Value) and a.type is narrow else a for a in args])
        return self.cast(result, narrow) if isinstance(result, Value) and result.type is wide else result

    def _in_prologue(self, op: Op) -> Value:
        """Record an instruction that every later one may rely on."""
        current, self._current = self._current, self._prologue
        value: Value = self.emit_op(op)
        self._current = current
        return value

    def _mark_blocking(self) -> None:
        block: Block | None = self._current
        while block is not None and not block.is_blocking:
            block.is_blocking = True
            block = block.parent

    # -- operations that are more than one row

    def compare(self, name: str, a: Any, b: Any) -> Value:
        """``lt le gt ge eq ne``; predicates have ``eq`` and ``ne``."""
        if isinstance(a, Value) and a.type is pred and name in ("eq", "ne"):
            different: Value = self.emit("xor_", a, b)
            return different if name == "ne" else ~different
        result: Value = self.emit(name, a, b)
        return result

    def neg(self, a: Value) -> Value:
        """Negation; ``0 - a`` for unsigned integers."""
        result: Value = self.emit("sub", 0, a) if a.type.kind == "u" else self.emit("neg", a)
        return result

    def abs(self, a: Value) -> Value:
        """Absolute value; the value itself for unsigned integers."""
        if a.type.kind == "u":
            return a
        result: Value = self.emit("abs", a)
        return result

    def isnan(self, a: Value) -> Value:
        """Whether a float is NaN."""
        result: Value = self.emit("isnan", a, a)
        return result

    def where(self, predicate: Value, a: Any, b: Any) -> Value:
        """`a` where the predicate holds, else `b`."""
        first = a if isinstance(a, Value) else b
        if not isinstance(first, Value):
            raise TypeError("k.where of two constants: say their type with k.const(value, type)")
        if first.type is pred:
            chosen: Value = (predicate & a) | (~predicate & b)
            return chosen
        result: Value = self.emit("selp", a, b, predicate, types=(first.type,))
        return result

    def min_nan(self, a: Any, b: Any) -> Value:
        """Smaller of two, NaN if either is (``numpy.minimum``)."""
        return self._extremum("min", a, b)

    def max_nan(self, a: Any, b: Any) -> Value:
        """Larger of two, NaN if either is (``numpy.maximum``)."""
        return self._extremum("max", a, b)

    def _extremum(self, name: str, a: Any, b: Any) -> Value:
        first = a if isinstance(a, Value) else b
        if not first.type.is_float:
            result: Value = self.emit(name, a, b)
            return result
        if first.type is not f64:
            result = self.emit(name + "_nan", a, b)
            return result
        # f64 has no .NaN form: a NaN operand is its own sum with the other
        a, b = self.as_value(a, f64), self.as_value(b, f64)
        return self.where(self.emit("isnan", a, b), a + b, self.emit(name, a, b))

    def shl(self, a: Value, count: Any) -> Value:
        """Left shift; counts of the width and above give 0."""
        result: Value = self.emit("shl", a, self._count(count), types=(a.type,))
        return result

    def shr(self, a: Value, count: Any) -> Value:
        """Right shift, arithmetic on signed types."""
        result: Value = self.emit("shr", a, self._count(count), types=(a.type,))
        return result

    def _count(self, count: Any) -> Any:
        return self.cast(count, u32) if isinstance(count, Value) and count.type is not u32 else count

    def cast(self, value: Any, to: Type) -> Value:
        """Conversion with NumPy's result for every input; see `oxinp._ptx.cast`."""
        return cast(self, value, to) if isinstance(value, Value) else self.const(value, to)

    def cvt(self, value: Value, to: Type, rounding: str = "") -> Value:
        """PTX conversion; `rounding` is ``rzi rni rmi rpi`` for float to integer (saturating) or to integral float."""
        result: Value = self.emit(f"cvt_{rounding}" if rounding else "cvt", value, types=(to, value.type))
        return result

    def bitcast(self, value: Value, to: Type) -> Value:
        """The same bits as another type of the same width; costs nothing."""
        if value.type is to:
            return value
        if value.type.register != to.register or value.type.bits != to.bits:
            raise TypeError(f"bitcast from {value.type} to {to}: the widths differ")
        self.operand(value, value.type)
        result = Value(self, self._num_registers, to, value.text, self._current)
        self._num_registers += 1
        op = Op("bitcast", "", (to,), (value.type,), partial(_view, to.dtype), ALIAS)
        self._current.nodes.append(Instr(op, (result,), (value,)))
        return result

    def split_word(self, word: Value, type: Type) -> list[Value]:
        """The 2 or 4 narrow elements of a u32."""
        if type.bits == 16:
            halves = self.emit("unpack", word, types=(u32,))
            return [self.bitcast(half, type) for half in halves]
        return [self.cast(word >> shift if shift else word, type) for shift in (0, 8, 16, 24)]

    def join_word(self, values: list[Any], type: Type) -> Value:
        """A u32 of 2 or 4 narrow elements."""
        values = [self.as_value(v, type) for v in values]
        result: Value
        if type.bits == 16:
            result = self.emit("pack", *[self.bitcast(v, u16) for v in values], types=(u16,))
            return result
        words = [self.cast(self.bitcast(v, UNSIGNED[8]), u32) for v in values]
        low, high = (self.emit("prmt", words[i], words[i + 1], 0x0040) for i in (0, 2))
        result = self.emit("prmt", low, high, 0x5410)
        return result

    # -- warps and blocks

    def shfl_up(self, value: Value, lane: Any, width: int = 32, members: Any = FULL) -> Value:
        """`value` of the lane `lane` below."""
        return shuffle(self, "up", value, lane, width, members)

    def shfl_down(self, value: Value, lane: Any, width: int = 32, members: Any = FULL) -> Value:
        """`value` of the lane `lane` above."""
        return shuffle(self, "down", value, lane, width, members)

    def shfl_bfly(self, value: Value, lane: Any, width: int = 32, members: Any = FULL) -> Value:
        """`value` of the lane whose number is this one's xor `lane`."""
        return shuffle(self, "bfly", value, lane, width, members)

    def shfl_idx(self, value: Value, lane: Any, width: int = 32, members: Any = FULL) -> Value:
        """`value` of lane number `lane`."""
        return shuffle(self, "idx", value, lane, width, members)

    def ballot(self, predicate: Value, members: Any = FULL) -> Value:
        """Word of the lanes in which the predicate holds."""
        result: Value = self.emit("vote_ballot", predicate, members)
        return result

    def any(self, predicate: Value, members: Any = FULL) -> Value:
        """Whether the predicate holds in any lane of the warp."""
        result: Value = self.emit("vote_any", predicate, members)
        return result

    def all(self, predicate: Value, members: Any = FULL) -> Value:
        """Whether the predicate holds in all lanes of the warp."""
        result: Value = self.emit("vote_all", predicate, members)
        return result

    def redux(self, name: str, value: Value, members: Any = FULL) -> Value:
        """Reduction over the warp in one instruction: ``add min max`` (i32, u32), ``and or xor`` (u32)."""
        result: Value = self.emit(f"redux_{name}", value, members)
        return result

    def warp_sync(self, members: Any = FULL) -> None:
        """Wait for the warp's lanes and order their memory accesses."""
        self.emit("warp_sync", members, types=())

    def barrier(self, number: Any = 0, count: Any = None) -> None:
        """Wait for the block's threads, or for `count` of them at barrier `number`; orders memory accesses."""
        if count is None:
            self.emit("barrier", number, types=())
        else:
            self.emit("barrier_count", number, count, types=())

    def fence(self, scope: str = "gpu", order: str = "acq_rel") -> None:
        """Memory fence; scope ``cta``, ``cluster``, ``gpu`` or ``sys``."""
        self.emit(f"fence_{order}_{scope}", types=())

    # -- the end

    @contextmanager
    def inside(self, block: Block) -> Iterator[None]:
        """Record into a nested block, and close it."""
        outer, self._current = self._current, block
        try:
            yield
        finally:
            block.is_open = False
            self._current = outer

    def nested(self) -> Block:
        """New block inside the current one."""
        return Block(self._current)

    def build(self) -> Kernel:
        """The finished kernel; the builder is of no use afterwards."""
        if not self._body.is_open:
            raise ValueError(f"kernel {self.name} was built already")
        self._body.is_open = self._prologue.is_open = False
        params = tuple(self._params)
        return Kernel(
            name=self.name,
            ptx=self._text(params),
            target=self.target,
            params=params,
            param_format=param_layout(params)[0],
            block=self.block,
            cluster=self.cluster,
            shared_nbytes=self._dynamic_nbytes,
            static_shared_nbytes=self._static_nbytes,
            prologue=self._prologue,
            body=self._body,
            num_registers=self._num_registers,
            shared=tuple(self._shared),
        )

    def _text(self, params: tuple[Param, ...]) -> str:
        lines = [f".version {self._ptx[0]}.{self._ptx[1]}", f".target {self.target}", ".address_size 64", ""]
        if self._dynamic_nbytes:
            lines += [f".extern .shared .align {_DYNAMIC_ALIGN} .b8 dynamic_shared[];", ""]
        declared = ",\n".join(f"\t{_declare(param)}" for param in params)
        lines += [f".visible .entry {self.name}(", declared, ")"]
        lines.append(".reqntid {}, {}, {}".format(*self.block))
        if self.cluster is not None:
            lines.append(".reqnctapercluster {}, {}, {}".format(*self.cluster))
        lines += [*self._directives, "{"]
        for letter, type in (("p", "pred"), ("h", "b16"), ("r", "b32"), ("d", "b64")):
            if self._class_counts[letter]:
                lines.append(f"\t.reg .{type} %{letter}<{self._class_counts[letter]}>;")
        lines += [
            f"\t.shared .align {array.align} .b8 {array.name}[{array.nbytes}];"
            for array in self._shared
            if not array.is_dynamic
        ]
        labels = itertools.count()
        render(self._prologue, labels, lines, {})
        render(self._body, labels, lines, {})
        lines += ["\tret;", "}", ""]
        return "\n".join(lines)


def _three(extent: int | tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = (extent, 1, 1) if isinstance(extent, int) else (*extent, 1, 1)[:3]
    return x, y, z


def _declare(param: Param) -> str:
    if param.is_pointer:
        return f".param .u64 {param.name}"
    if param.type is None:
        return f".param .align {param.align} .b8 {param.name}[{param.nbytes}]"
    suffix = param.type.untyped if param.type in (f16, bf16) else param.type.ptx
    return f".param .{suffix} {param.name}"


def _read_parameter(frame: Any, op: Op) -> Any:
    return frame.parameter(op.detail)


def _shared_address(frame: Any, op: Op) -> Any:
    return frame.shared_address(op.detail)


def _view(dtype: Any, array: Any) -> Any:
    return array.view(dtype)
