"""Tracing a kernel: `Builder` records instructions and control flow as Python runs, and `build` makes the `Kernel`."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from oxinp._ptx import isa
from oxinp._ptx.control import ControlFlow
from oxinp._ptx.isa import EFFECT, Op
from oxinp._ptx.kernel import Block, Kernel, Param, SharedArray, Table, param_layout, render, three_extents
from oxinp._ptx.memory import Pointer
from oxinp._ptx.operations import Operations
from oxinp._ptx.types import Compound, Type, bf16, f16, from_dtype, pred, u8, u32, u64
from oxinp._ptx.value import Value

_SHARED_GAP = 16  # unallocated bytes between shared arrays, so that the emulator sees overruns
_DYNAMIC_ALIGN = 1024


class Builder(ControlFlow, Operations):
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
        super().__init__(name, three_extents(block), target)
        self.cluster = None if cluster is None else three_extents(cluster)
        self._directives = [
            f".{word} {value}"
            for word, value in (("minnctapersm", min_blocks), ("maxnreg", max_registers))
            if value is not None
        ]
        self._params: list[Param] = []
        self._shared: list[SharedArray] = []
        self._tables: list[Table] = []
        self._static_nbytes = self._dynamic_nbytes = 0

    # -- parameters

    def pointer(self, name: str, type: Type, access: str = "rw") -> Pointer:
        """Global pointer parameter to elements of `type`; `access` is ``"r"``, ``"w"`` or ``"rw"``."""
        if access not in ("r", "w", "rw"):
            raise ValueError(f"access is 'r', 'w' or 'rw', not {access!r}")
        base = self._parameter(Param(name, type, is_pointer=True, nbytes=8, align=8, access=access), u64)
        return Pointer(self, base, type, "global", access)

    def scalar(self, name: str, type: Type) -> Value:
        """By-value parameter; a `pred` travels as one byte, a compound as one parameter per part."""
        if type is pred:
            return self.cast(self.scalar(name, u8), pred)
        if isinstance(type, Compound):
            return self.compound(type, *[self.scalar(f"{name}_part{i}", part) for i, part in enumerate(type.parts)])
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
        op = Op(
            "ld_param",
            text or f"ld.param.{suffix} {{0}}, [{param.name}];",
            (type,),
            (),
            _read_parameter,
            EFFECT,
            ptx=ptx,
            detail=len(self._params),
        )
        self._params.append(param)
        return self.in_prologue(op)

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
            value = self._specials[array.name] = self.in_prologue(op)
        return Pointer(self, value, type, "shared", "rw", shape, offset)

    # -- tables

    def table(self, values: np.ndarray[Any, Any]) -> Pointer:
        """Read-only array in global memory that the kernel's module brings along.

        Parameters
        ----------
        values : ndarray
            One dimension, of a dtype that a machine type holds.
        """
        table = Table(f"{self.name}_table_{len(self._tables)}", np.ascontiguousarray(values))
        self._tables.append(table)
        op = Op("table", f"mov.u64 {{0}}, {table.name};", (u64,), (), _table_address, EFFECT, detail=table)
        return Pointer(self, self.in_prologue(op), from_dtype(values.dtype), "global", "r")

    # -- the end

    def build(self) -> Kernel:
        """The finished kernel; the builder is of no use afterwards."""
        prologue, body = self._prologue, self._body
        if not body.scope.is_open:
            raise ValueError(f"kernel {self.name} was built already")
        if self._static_nbytes and any(array.is_dynamic and array.align > 16 for array in self._shared):
            # Seen on the H200: the driver's linker put 1024-byte aligned dynamic memory 64 bytes behind static arrays.
            raise ValueError(f"kernel {self.name}: dynamic shared memory is not aligned behind static: use one kind")
        prologue.scope.is_open = False
        body.scope.is_open = False
        params = tuple(self._params)
        kernel = Kernel(
            name=self.name,
            ptx=_Text(self._head(params)),  # type: ignore[arg-type] # deferred
            target=self.target,
            params=params,
            param_format=param_layout(params)[0],
            block=self.block,
            cluster=self.cluster,
            shared_nbytes=self._dynamic_nbytes,
            static_shared_nbytes=self._static_nbytes,
            prologue=prologue,
            body=body,
            num_registers=self._num_registers,
            shared=tuple(self._shared),
            constants=tuple(self._constants),
        )
        # Values know their builder: what it knew of them would be a circle, and keep all of them until a collection.
        self._current = self._prologue = self._body = Block(None)
        self._body.scope.is_open = False
        self._specials.clear()
        self._split.clear()
        return kernel

    def _head(self, params: tuple[Param, ...]) -> list[str]:
        """Lines of the module before the first instruction."""
        lines = [f".version {self._ptx[0]}.{self._ptx[1]}", f".target {self.target}", ".address_size 64", ""]
        if self._dynamic_nbytes:
            lines += [f".extern .shared .align {_DYNAMIC_ALIGN} .b8 dynamic_shared[];", ""]
        for table in self._tables:
            lines += [table.text(), ""]
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
        return lines


class _Text:
    """What writes the text of a kernel, once somebody reads it."""

    __slots__ = ("_head",)

    def __init__(self, head: list[str]) -> None:
        self._head = head

    def __call__(self, kernel: Kernel) -> str:
        lines, labels = [*self._head], itertools.count()
        for block in kernel.blocks():
            render(block, labels, lines)
        lines += ["\tret;", "}", ""]
        return "\n".join(lines)


def _declare(param: Param) -> str:
    if param.is_pointer:
        return f".param .u64 {param.name}"
    if param.type is None:
        return f".param .align {param.align} .b8 {param.name}[{param.nbytes}]"
    suffix = param.type.untyped if param.type in (f16, bf16) else param.type.ptx
    return f".param .{suffix} {param.name}"


def _read_parameter(frame: Any, op: Op) -> Any:
    return frame.parameter(op.detail)


def _table_address(frame: Any, op: Op) -> Any:
    return frame.table_address(op.detail)


def _shared_address(frame: Any, op: Op) -> Any:
    return frame.shared_address(op.detail)
