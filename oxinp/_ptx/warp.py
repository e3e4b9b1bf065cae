"""Warp instructions: shuffles, votes, matches, reductions over the 32 lanes.

Every one names the lanes that take part (``membermask``, all 32 unless told) and all of those have to arrive.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from oxinp._ptx import isa
from oxinp._ptx.compound import by_part
from oxinp._ptx.isa import EFFECT, Op, Row
from oxinp._ptx.types import Compound, i8, i16, i32, pred, u8, u16, u32, u64
from oxinp._ptx.value import Language, Value

FULL = 0xFFFFFFFF
WARP = 32
_LANES = np.arange(WARP, dtype=np.int64)


def _shuffle(mode: str) -> Callable[..., Any]:
    """Meaning of shfl.sync: `clamp` holds the segment mask in bits 8-12 and the last lane in bits 0-4."""

    def evaluate(frame: Any, _op: Op, values: Any, lane: Any, clamp: Any, members: Any) -> Any:
        frame.check_members(members)
        rows = frame.to_warps(values)
        if len(lane) == len(clamp) == 1:  # every warp shuffles alike
            source = common_sources(int(lane[0]) & 31, int(clamp[0]))
            frame.check_sources(source)
            return frame.from_warps(rows.take(source, axis=1))
        source = sources(
            frame.to_warps(lane).astype(np.int64) & 31,
            frame.to_warps(clamp).astype(np.int64),
        )
        frame.check_sources(source)
        return frame.from_warps(rows[np.arange(len(rows))[:, None], source])

    def sources(offset: Any, clamp: Any) -> Any:
        """Lane that each lane reads: its own where the other lies outside its segment."""
        segment = (clamp >> 8) & 31
        bound = (_LANES & segment) | (clamp & 31 & ~segment)
        if mode == "up":
            source = _LANES - offset
            return np.where(source >= bound, source, _LANES)
        if mode == "idx":
            source = (_LANES & segment) | (offset & ~segment)
        else:
            source = _LANES + offset if mode == "down" else _LANES ^ offset
        return np.where(source <= bound, source, _LANES)

    common_sources = lru_cache(sources)  # few: kernels shuffle by powers of two
    return evaluate


def _ballot_word(rows: Any) -> Any:
    """Words of the bits along the last axis, which has 32."""
    return np.packbits(rows, axis=-1, bitorder="little").view(np.uint32)[..., 0]


def _ballot(frame: Any, _op: Op, predicate: Any, members: Any) -> Any:
    frame.check_members(members)
    return frame.spread(_ballot_word(frame.to_warps(predicate) & frame.active_warps()))


def _any(frame: Any, _op: Op, predicate: Any, members: Any) -> Any:
    frame.check_members(members)
    return frame.spread((frame.to_warps(predicate) & frame.active_warps()).any(axis=1))


def _all(frame: Any, _op: Op, predicate: Any, members: Any) -> Any:
    frame.check_members(members)
    return frame.spread((frame.to_warps(predicate) | ~frame.active_warps()).all(axis=1))


def _active_mask(frame: Any, _op: Op) -> Any:
    return frame.spread(_ballot_word(frame.active_warps()))


def _redux(function: np.ufunc, identity: Callable[[np.dtype[Any]], int]) -> Callable[..., Any]:
    def evaluate(frame: Any, _op: Op, values: Any, members: Any) -> Any:
        frame.check_members(members)
        rows = np.where(frame.active_warps(), frame.to_warps(values), values.dtype.type(identity(values.dtype)))
        return frame.spread(function.reduce(rows, axis=1, dtype=values.dtype))

    return evaluate


def _match_any(frame: Any, _op: Op, values: Any, members: Any) -> Any:
    frame.check_members(members)
    rows, active = frame.to_warps(values), frame.active_warps()
    return frame.from_warps(_ballot_word((rows[:, :, None] == rows[:, None, :]) & active[:, None, :]))


def _rows() -> list[Row]:
    rows = [
        Row(
            f"shfl_{mode}",
            f"shfl.sync.{mode}.b32",
            "u32 <- u32 u32 u32 u32",
            ((),),
            _shuffle(mode),
            kind=EFFECT,
            collective=WARP,
        )
        for mode in ("up", "down", "bfly", "idx")
    ]
    for name, ref, out in (("ballot", _ballot, "u32"), ("any", _any, "pred"), ("all", _all, "pred")):
        rows.append(
            Row(
                f"vote_{name}",
                f"vote.sync.{name}.{'b32' if out == 'u32' else 'pred'}",
                f"{out} <- pred u32",
                ((),),
                ref,
                kind=EFFECT,
                collective=WARP,
            )
        )
    rows.append(Row("activemask", "activemask.b32", "u32 <-", ((),), _active_mask, kind=EFFECT))
    rows.append(
        Row(
            "match_any",
            "match.any.sync.{b}",
            "u32 <- t u32",
            ((u32,), (u64,)),
            _match_any,
            kind=EFFECT,
            collective=WARP,
        )
    )
    signed = ((u32,), (i32,))
    for name, function, identity, types in (
        ("add", np.add, lambda _: 0, signed),
        ("min", np.minimum, lambda dtype: int(np.iinfo(dtype).max), signed),
        ("max", np.maximum, lambda dtype: int(np.iinfo(dtype).min), signed),
        ("and", np.bitwise_and, lambda _: 0xFFFFFFFF, ((u32,),)),
        ("or", np.bitwise_or, lambda _: 0, ((u32,),)),
        ("xor", np.bitwise_xor, lambda _: 0, ((u32,),)),
    ):
        suffix = "{t}" if types is signed else "b32"
        rows.append(
            Row(
                f"redux_{name}",
                f"redux.sync.{name}.{suffix}",
                "t <- t u32",
                types,
                _redux(function, identity),
                kind=EFFECT,
                collective=WARP,
            )
        )
    return rows


isa.register(_rows())


def shuffle(k: Language, mode: str, value: Value, lane: Any, width: int = WARP, members: Any = FULL) -> Value:
    """`value` of another lane of the warp, for every type.

    Parameters
    ----------
    mode : str
        ``"up"`` (lane - n), ``"down"`` (lane + n), ``"bfly"`` (lane ^ n), ``"idx"`` (lane n). Out of the segment of
        `width` lanes: the lane's own value.
    lane : int or u32 Value
    width : int
        Power of two up to 32.
    members : int or u32 Value
        Lanes that take part.
    """
    if width not in (1, 2, 4, 8, 16, 32):
        raise ValueError(f"shuffle width must be a power of two up to 32, not {width}")
    clamp = (WARP - width) << 8 | (0 if mode == "up" else 31)
    name = f"shfl_{mode}"

    def move(word: Value) -> Value:
        moved: Value = k.emit(name, word, lane, clamp, members)
        return moved

    type = value.type
    if isinstance(type, Compound):
        return by_part(k, lambda part: shuffle(k, mode, part, lane, width, members), value)
    if type is pred:
        return move(k.where(value, k.const(1, u32), k.const(0, u32))) != 0
    if type.bits == 64:
        low, high = k.unpack(k.bitcast(value, u64))
        return k.bitcast(k.pack(move(low), move(high)), type)
    if type.bits == 32:
        return k.bitcast(move(k.bitcast(value, u32)), type)
    bits = value if type in (i8, u8, i16, u16) else k.bitcast(value, u16)
    word = move(k.bitcast(k.cast(bits, i32), u32) if bits.type.kind == "i" else k.cast(bits, u32))
    narrow = k.cast(word, bits.type)
    return narrow if bits.type is type else k.bitcast(narrow, type)


def reduce(
    k: Language, value: Value, combine: Callable[[Value, Value], Value], width: int = WARP, members: Any = FULL
) -> Value:
    """Combine `value` over segments of `width` lanes; every lane gets the result.

    A fixed tree (strides width/2, ..., 2, 1 by butterfly), so the same input gives the same bits. `combine` has to be
    commutative; it is called with (own, other).
    """
    stride = width // 2
    while stride:
        value = combine(value, shuffle(k, "bfly", value, stride, WARP, members))
        stride //= 2
    return value


__all__ = ["FULL", "WARP", "reduce", "shuffle"]
