"""THE INSTRUCTION TABLE: one row per instruction, from which text, operand checks, emulation and tests come.

A row's `signature` reads ``"destinations <- sources"``. Its words are type names (``u32``, ``pred``) or stand for
the types the row is bound to: ``t`` and ``s`` are the first and second bound type, ``w`` is the type twice as wide
as ``t``, ``b`` the unsigned type of its width. `opcode` is a format string over ``{t}``, ``{s}``, ``{w}`` (PTX
suffixes) and ``{b}`` (bit type of ``t``); a rounding is part of it, so each has its row. `layout` orders the
operands; ``None`` is the usual comma list, destinations first.

`ref` is the meaning. For `kind`:

* ``PURE``: ``ref(*source arrays) -> array, or tuple of arrays``, lane by lane;
* ``EFFECT``: ``ref(frame, op, *source arrays) -> array, tuple or None``; sees memory and other lanes and must honour
  ``frame.mask``;
* ``WAIT``: may block: ``ref`` is a `Wait`;
* ``ALIAS``: another name for the same register bits, no PTX text.

`collective` is the number of consecutive lanes (32, 128) that have to arrive together. `arch_specific` instructions
need a target with the suffix ``a`` (``sm_90a``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from oxinp._ptx import reference as ref
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.types import (
    BY_NAME,
    UNSIGNED,
    WIDER,
    Type,
    bf16,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    pred,
    u8,
    u16,
    u32,
    u64,
)

PURE, EFFECT, WAIT, ALIAS = "pure", "effect", "wait", "alias"

Binding = tuple[Type, ...]
Version = tuple[int, int]


class Wait(NamedTuple):
    """Meaning of an instruction that may block.

    Attributes
    ----------
    arrive : callable
        ``arrive(frame, op, *source arrays) -> token``, run once; `token` is an array over the frame's lanes or None.
    ready : callable
        ``ready(frame, op, token, *source arrays) -> bool array over the frame's lanes``: who may go on.
    """

    arrive: Callable[..., Any]
    ready: Callable[..., Any]


class Row(NamedTuple):
    """One instruction; see the module docstring."""

    name: str
    opcode: str
    signature: str
    types: tuple[Binding, ...]
    ref: Any
    sm: int = 80
    ptx: Version = (7, 0)
    layout: str | None = None
    kind: str = PURE
    collective: int = 0
    arch_specific: bool = False


class Op(Frozen, eq=False):
    """One instruction form: a row bound to types and modifiers. Interned, compares by identity.

    Attributes
    ----------
    name, text : str
        Name of the row, and the instruction as a format string over its operands' texts, destinations first.
    dst, src : tuple of Type
        Operand types.
    ref, kind, sm, ptx, collective, arch_specific
        As in `Row`.
    spins : bool
        A loop around it may be waiting for another thread's write.
    detail : Any
        What an effect needs to know (a `memory.Access`, ...).
    """

    name: str
    text: str
    dst: Binding
    src: Binding
    ref: Any
    kind: str = PURE
    sm: int = 80
    ptx: Version = (7, 0)
    collective: int = 0
    spins: bool = False
    detail: Any = None
    arch_specific: bool = False

    def __repr__(self) -> str:
        return self.text


def plain_layout(num_operands: int) -> str:
    """Comma list of operands."""
    return ", ".join(f"{{{i}}}" for i in range(num_operands))


def _each(*types: Type) -> tuple[Binding, ...]:
    return tuple((t,) for t in types)


SIGNED = (i16, i32, i64)
UNSIGNED_TYPES = (u16, u32, u64)
INTEGERS = SIGNED + UNSIGNED_TYPES
WORDS = (i32, i64, u32, u64)
FLOATS = (f32, f64)

_COMPARISONS = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}


_RING: dict[str, np.ufunc] = {"add": np.add, "sub": np.subtract, "mul": np.multiply}
# Integers are subtracted with the other signedness, which gives the same bits: ptxas 13.0 makes one instruction of
# max(max(a, -b), c) for sm_90 and loses the sign where the negation has the signedness of the extrema around it.
_SUBTRACTED_AS = {i16: u16, i32: u32, i64: u64, u16: i16, u32: i32, u64: i64}


def _arithmetic() -> Iterable[Row]:
    for name, function in _RING.items():
        # Only rn has a NumPy meaning; directed roundings are added with the first kernel that needs one.
        yield Row(name, f"{name}.rn.{{t}}", "t <- t t", _each(f16, *FLOATS), function)
    yield Row("add", "add.{t}", "t <- t t", _each(*INTEGERS), np.add)
    for type_, as_type in _SUBTRACTED_AS.items():
        yield Row("sub", f"sub.{as_type.ptx}", "t <- t t", _each(type_), np.subtract)
    yield Row("mul", "mul.lo.{t}", "t <- t t", _each(*INTEGERS), np.multiply)
    yield Row("div", "div.rn.{t}", "t <- t t", _each(*FLOATS), np.divide)
    yield Row("div", "div.{t}", "t <- t t", _each(*INTEGERS), ref.truncating_divide)
    yield Row("rem", "rem.{t}", "t <- t t", _each(*INTEGERS), ref.truncating_remainder)
    yield Row("fma", "fma.rn.{t}", "t <- t t t", _each(f16, *FLOATS), ref.fma)
    yield Row("sqrt", "sqrt.rn.{t}", "t <- t", _each(*FLOATS), np.sqrt)
    yield Row("mad", "mad.lo.{t}", "t <- t t t", _each(*INTEGERS), lambda a, b, c: a * b + c)
    yield Row("mulhi", "mul.hi.{t}", "t <- t t", _each(*INTEGERS), ref.multiply_high)
    wide = _each(i16, i32, u16, u32)
    yield Row("mul_wide", "mul.wide.{t}", "w <- t t", wide, ref.multiply_wide)
    yield Row("mad_wide", "mad.wide.{t}", "w <- t t w", wide, ref.multiply_add_wide)
    yield Row("dp4a", "dp4a.u32.u32", "u32 <- u32 u32 u32", ((u32,),), ref.multiply_add_bytes)
    yield Row("neg", "neg.{t}", "t <- t", _each(f16, *FLOATS), ref.negate)
    yield Row("abs", "abs.{t}", "t <- t", _each(f16, *SIGNED, *FLOATS), ref.absolute)
    yield Row("copysign", "copysign.{t}", "t <- t t", _each(*FLOATS), ref.copy_sign)
    yield Row("min", "min.{t}", "t <- t t", _each(*INTEGERS), np.minimum)
    yield Row("max", "max.{t}", "t <- t t", _each(*INTEGERS), np.maximum)
    yield Row("min", "min.{t}", "t <- t t", _each(f16, *FLOATS), ref.minimum_number)
    yield Row("max", "max.{t}", "t <- t t", _each(f16, *FLOATS), ref.maximum_number)
    yield Row("min_nan", "min.NaN.{t}", "t <- t t", _each(f16, f32), ref.minimum_nan)
    yield Row("max_nan", "max.NaN.{t}", "t <- t t", _each(f16, f32), ref.maximum_nan)
    yield Row("min_f16x2", "min.f16x2", "u32 <- u32 u32", ((),), ref.of_halves(ref.minimum_number))
    yield Row("max_f16x2", "max.f16x2", "u32 <- u32 u32", ((),), ref.of_halves(ref.maximum_number))
    for name, function in _COMPARISONS.items():
        # ne is true for NaN (neu), as in NumPy and in IEEE 754; the others are false.
        yield Row(
            name,
            f"setp.{name}u.{{t}}" if name == "ne" else f"setp.{name}.{{t}}",
            "pred <- t t",
            _each(f16, *FLOATS),
            function,
        )
        yield Row(name, f"setp.{name}.{{t}}", "pred <- t t", _each(*INTEGERS), function)
    yield Row("isnan", "setp.nan.{t}", "pred <- t t", _each(f16, *FLOATS), lambda a, b: np.isnan(a) | np.isnan(b))


def _bits() -> Iterable[Row]:
    for name, function in (("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor)):
        yield Row(name + "_", f"{name}.{{b}}", "t <- t t", _each(pred, *INTEGERS), function)
    yield Row("not_", "not.{b}", "t <- t", _each(pred, *INTEGERS), np.invert)
    yield Row("shl", "shl.{b}", "t <- t u32", _each(*INTEGERS), ref.shift_left)
    yield Row("shr", "shr.{t}", "t <- t u32", _each(*INTEGERS), ref.shift_right)
    yield Row("shf_l", "shf.l.wrap.b32", "u32 <- u32 u32 u32", ((),), ref.funnel_shift_left)
    yield Row("shf_r", "shf.r.wrap.b32", "u32 <- u32 u32 u32", ((),), ref.funnel_shift_right)
    yield Row("popc", "popc.{b}", "u32 <- t", _each(*WORDS), ref.population_count)
    yield Row("clz", "clz.{b}", "u32 <- t", _each(*WORDS), ref.count_leading_zeros)
    yield Row("brev", "brev.{b}", "t <- t", _each(*WORDS), ref.reverse_bits)
    yield Row("bfind", "bfind.{t}", "u32 <- t", _each(*WORDS), ref.find_leading_one)
    yield Row("bfe", "bfe.{t}", "t <- t u32 u32", _each(u32, u64), ref.extract_bits)
    yield Row("prmt", "prmt.b32", "u32 <- u32 u32 u32", ((),), ref.permute_bytes)


def _moves() -> Iterable[Row]:
    every = _each(pred, i8, u8, f16, bf16, *INTEGERS, *FLOATS)
    yield Row("mov", "mov.{b}", "t <- t", every, lambda a: a)
    yield Row("selp", "selp.{b}", "t <- t t pred", every[1:], lambda a, b, p: np.where(p, a, b))
    yield Row("pack", "mov.b64", "u64 <- u32 u32", ((),), ref.pack_words, layout="{0}, {{{1}, {2}}}")
    yield Row("unpack", "mov.b64", "u32 u32 <- u64", ((),), ref.unpack_words, layout="{{{0}, {1}}}, {2}")
    yield Row("pack", "mov.b32", "u32 <- u16 u16", ((u16,),), ref.pack_words, layout="{0}, {{{1}, {2}}}")
    yield Row("unpack", "mov.b32", "u16 u16 <- u32", ((u32,),), ref.unpack_words, layout="{{{0}, {1}}}, {2}")


def _approximations() -> Iterable[Row]:
    # Approximate instructions: the emulator gives the correctly rounded value, the hardware a nearby one.
    yield Row("rcp", "rcp.rn.{t}", "t <- t", _each(*FLOATS), lambda a: a.dtype.type(1) / a)
    yield Row("rcp_approx", "rcp.approx.ftz.{t}", "t <- t", _each(*FLOATS), ref.approximate_reciprocal)
    yield Row("rsqrt_approx", "rsqrt.approx.{t}", "t <- t", _each(*FLOATS), lambda a: a.dtype.type(1) / np.sqrt(a))
    yield Row("rsqrt_approx_ftz", "rsqrt.approx.ftz.{t}", "t <- t", _each(*FLOATS), ref.approximate_inverse_root)
    for name, function in (("ex2", np.exp2), ("lg2", np.log2), ("sin", np.sin), ("cos", np.cos)):
        yield Row(f"{name}_approx", f"{name}.approx.f32", "t <- t", _each(f32), function)
    yield Row("tanh_approx", "tanh.approx.f32", "t <- t", _each(f32), np.tanh)


def _conversions() -> Iterable[Row]:
    """Conversions as PTX has them; the second binding is the source. NumPy's are `Builder.cast`."""
    whole = (i8, u8, *INTEGERS)
    yield from (
        Row("cvt", "cvt.{t}.{s}", "t <- s", ((to, source),), ref.convert(to.dtype))
        for to, source in product(whole, whole)
        if to is not source
    )
    yield from (
        Row("cvt", "cvt.rn.{t}.{s}", "t <- s", ((to, source),), ref.convert(to.dtype))
        for to, source in product((f16, f32, f64), whole)
    )
    for rounding in ("rzi", "rni", "rmi", "rpi"):
        yield from (
            Row(
                "cvt_" + rounding,
                f"cvt.{rounding}.{{t}}.{{s}}",
                "t <- s",
                ((to, source),),
                ref.float_to_integer(to.dtype, rounding),
            )
            for to, source in product(whole, (f16, f32, f64))
        )
        yield from (
            Row(
                "cvt_" + rounding, f"cvt.{rounding}.{{t}}.{{s}}", "t <- s", ((to, to),), ref.round_to_integral(rounding)
            )
            for to in (f16, f32, f64)
        )
    for to, source in ((f32, f16), (f64, f16), (f64, f32)):
        yield Row("cvt", "cvt.{t}.{s}", "t <- s", ((to, source),), ref.convert(to.dtype))
    for to, source in ((f16, f32), (f16, f64), (f32, f64)):
        yield Row("cvt", "cvt.rn.{t}.{s}", "t <- s", ((to, source),), ref.convert(to.dtype))
    yield Row("cvt", "cvt.rn.bf16.f32", "t <- s", ((bf16, f32),), ref.f32_to_bf16)
    yield Row("cvt_pair", "cvt.rn.bf16x2.f32", "u32 <- f32 f32", ((),), ref.f32_to_bf16_pair)


ROWS: list[Row] = [*_arithmetic(), *_bits(), *_moves(), *_approximations(), *_conversions()]

_INDEX: dict[tuple[str, Binding], Row] = {}
_NAMES: set[str] = set()
_OPS: dict[tuple[str, Binding], Op] = {}


def register(rows: Iterable[Row]) -> None:
    """Add rows to the table; each asynchronous module registers its own on import."""
    for row in rows:
        _NAMES.add(row.name)
        for binding in row.types:
            key = (row.name, binding)
            if key in _INDEX:
                raise ValueError(f"two rows for {row.name} {binding}")
            _INDEX[key] = row


def _resolve(word: str, binding: Binding) -> Type:
    if word in BY_NAME:
        return BY_NAME[word]
    first = binding[0]
    return {"t": first, "s": binding[-1], "w": WIDER.get(first, first), "b": UNSIGNED.get(first.bits, first)}[word]


def bind(row: Row, binding: Binding) -> Op:
    """Instruction form of a row for one binding of its types."""
    left, right = row.signature.split("<-")
    dst = tuple(_resolve(word, binding) for word in left.split())
    src = tuple(_resolve(word, binding) for word in right.split())
    names = {}
    if binding:
        names = {
            "t": binding[0].ptx,
            "s": binding[-1].ptx,
            "b": binding[0].untyped,
            "w": WIDER.get(binding[0], binding[0]).ptx,
        }
    layout = row.layout or plain_layout(len(dst) + len(src))
    text = "" if row.kind == ALIAS else f"{row.opcode.format(**names)} {layout};"
    return Op(
        row.name, text, dst, src, row.ref, row.kind, row.sm, row.ptx, row.collective, arch_specific=row.arch_specific
    )


def find(name: str, binding: Binding = ()) -> Op | None:
    """Instruction form by name and bound types, or None."""
    op = _OPS.get((name, binding))
    if op is None:
        row = _INDEX.get((name, binding)) or _INDEX.get((name, ()))
        if row is None:
            return None
        op = _OPS[name, binding] = bind(row, binding if (name, binding) in _INDEX else ())
    return op


def has(name: str) -> bool:
    """Whether the table has an instruction of this name."""
    return name in _NAMES


register(ROWS)
