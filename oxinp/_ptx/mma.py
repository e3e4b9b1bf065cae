"""Matrix multiply of one warp (mma.sync, sm_80) and the loads that feed it (ldmatrix).

Fragments of lane l, r = l / 4 and q = l % 4: of A (16 x 16) the pairs (r, 2 q), (r + 8, 2 q), (r, 2 q + 8) and
(r + 8, 2 q + 8) along K, of B (16 x 8) the pairs (2 q, r) and (2 q + 8, r) along K, of the sums (16 x 8) the elements
(r, 2 q), (r, 2 q + 1), (r + 8, 2 q), (r + 8, 2 q + 1). Of f64, M x 8 x K with M and K 8 and 4 (sm_80), 16 and 4 or
16 and 8 (sm_90): of A (r + 8 i, q + 4 j) in the order of i, then j, of B (q + 4 j, r), of the sums as above.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp._ptx import isa
from oxinp._ptx.emulator.faults import DivergenceError
from oxinp._ptx.isa import EFFECT, Op, Row
from oxinp._ptx.memory import Access
from oxinp._ptx.truths import all_of
from oxinp._ptx.types import Type, bf16, f16, u32
from oxinp._ptx.value import Value

if TYPE_CHECKING:
    from oxinp._ptx.builder import Builder
    from oxinp._ptx.emulator.frame import Array, Frame

WARP = 32
_LANES = np.arange(WARP)
_ROW, _PAIR = _LANES // 4, _LANES % 4
_HERE = np.zeros(1, np.int32)


def _check_whole_warps(frame: Frame) -> None:
    active = frame.active_warps()
    if not frame.whole_warps or (frame.mask is not None and not all_of(active.all(axis=1) | ~active.any(axis=1))):
        raise DivergenceError(f"{frame.where()}: all 32 lanes of a warp have to be here together")


def _values(words: Array, type: Type) -> Array:
    """The two elements of each word, as float64, in a new last axis."""
    halves = np.ascontiguousarray(words)[..., None].view(np.uint16)
    if type is bf16:
        return (halves.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    return halves.view(np.float16).astype(np.float64)


def _multiply(type: Type) -> Callable[..., tuple[Array, ...]]:
    """Meaning of mma: the exact sum, rounded once (the hardware truncates; error bounds cover both)."""

    def evaluate(frame: Frame, _op: Op, *sources: Array) -> tuple[Array, ...]:
        _check_whole_warps(frame)
        words = [frame.to_warps(source) for source in sources]
        num_warps = len(words[0])
        a = np.zeros((num_warps, 16, 16))
        b = np.zeros((num_warps, 16, 8))
        for number in range(4):
            rows, columns = _ROW + 8 * (number & 1), 2 * _PAIR + 8 * (number >> 1)
            a[:, rows[:, None], columns[:, None] + np.arange(2)] = _values(words[number], type)
        for number in range(2):
            b[:, (2 * _PAIR + 8 * number)[:, None] + np.arange(2), _ROW[:, None]] = _values(words[4 + number], type)
        sums = a @ b
        places = [(_ROW + 8 * (number >> 1), 2 * _PAIR + (number & 1)) for number in range(4)]
        return tuple(
            frame.from_warps((sums[:, rows, columns] + c).astype(np.float32))
            for (rows, columns), c in zip(places, words[6:], strict=True)
        )

    return evaluate


def _load_matrices(*, is_transposed: bool) -> Callable[..., tuple[Array, ...]]:
    """Meaning of ldmatrix: lane i names the 16-byte row i % 8 of matrix i / 8."""

    def evaluate(frame: Frame, _op: Op, address: Array) -> tuple[Array, ...]:
        _check_whole_warps(frame)
        words = frame.load(Access("shared", u32, 4, ""), address, _HERE)
        grid = np.stack([frame.to_warps(word) for word in words], axis=-1)  # (warps, lane that names, word of its row)
        results = []
        for matrix in range(4):
            rows = np.ascontiguousarray(grid[:, 8 * matrix : 8 * matrix + 8])
            if is_transposed:
                rows = np.ascontiguousarray(rows.view(np.uint16).transpose(0, 2, 1)).view(np.uint32)
            results.append(frame.from_warps(rows[:, _ROW, _PAIR]))
        return tuple(results)

    return evaluate


def _multiply_f64(m: int, depth: int) -> Callable[..., tuple[Array, ...]]:
    """Meaning of mma of f64: the sum in f64 (the hardware chains FMAs; error bounds cover both)."""
    num_a, num_b = m * depth // WARP, 8 * depth // WARP

    def evaluate(frame: Frame, _op: Op, *sources: Array) -> tuple[Array, ...]:
        _check_whole_warps(frame)
        values = [frame.to_warps(source) for source in sources]
        a = np.zeros((len(values[0]), m, depth))
        b = np.zeros((len(values[0]), depth, 8))
        for number in range(num_a):
            i, j = number % (m // 8), number // (m // 8)
            a[:, _ROW + 8 * i, _PAIR + 4 * j] = values[number]
        for j in range(num_b):
            b[:, _PAIR + 4 * j, _ROW] = values[num_a + j]
        sums = a @ b
        return tuple(
            frame.from_warps(sums[:, _ROW + 8 * (number >> 1), 2 * _PAIR + (number & 1)] + c)
            for number, c in enumerate(values[num_a + num_b :])
        )

    return evaluate


def _row_f64(m: int, depth: int, sm: int) -> Row:
    num_c, num_a, num_b = m * 8 // WARP, m * depth // WARP, 8 * depth // WARP
    starts = (0, num_c, num_c + num_a, num_c + num_a + num_b)
    groups = [
        "{{" + ", ".join(f"{{{start + i}}}" for i in range(count)) + "}}"
        for start, count in zip(starts, (num_c, num_a, num_b, num_c), strict=True)
    ]
    signature = " ".join(["f64"] * num_c) + " <- " + " ".join(["f64"] * (num_a + num_b + num_c))
    opcode = f"mma.sync.aligned.m{m}n8k{depth}.row.col.f64.f64.f64.f64"
    ptx = (7, 8) if sm >= 90 else (7, 0)
    return Row(
        f"mma_f64_{m}x8x{depth}",
        opcode,
        signature,
        ((),),
        _multiply_f64(m, depth),
        sm,
        ptx,
        layout=", ".join(groups),
        kind=EFFECT,
    )


def _row(name: str, opcode: str, signature: str, types: tuple[isa.Binding, ...], ref: Any, layout: str) -> Row:
    # Not marked as collective: that is for instructions that name their lanes. These need all, and check it.
    return Row(name, opcode, signature, types, ref, layout=layout, kind=EFFECT)


isa.register(
    [
        _row_f64(8, 4, 80),
        _row_f64(16, 4, 90),
        _row_f64(16, 8, 90),
        *(
            _row(
                "mma",
                "mma.sync.aligned.m16n8k16.row.col.f32.{t}.{t}.f32",
                "f32 f32 f32 f32 <- u32 u32 u32 u32 u32 u32 f32 f32 f32 f32",
                ((type,),),
                _multiply(type),
                "{{{0}, {1}, {2}, {3}}}, {{{4}, {5}, {6}, {7}}}, {{{8}, {9}}}, {{{10}, {11}, {12}, {13}}}",
            )
            for type in (f16, bf16)
        ),
        *(
            _row(
                f"ldmatrix{suffix}",
                f"ldmatrix.sync.aligned.m8n8.x4{ptx}.shared.b16",
                "u32 u32 u32 u32 <- u32",
                ((),),
                _load_matrices(is_transposed=bool(suffix)),
                "{{{0}, {1}, {2}, {3}}}, [{4}]",
            )
            for suffix, ptx in (("", ""), ("_trans", ".trans"))
        ),
    ]
)


def multiply(
    k: Builder, type: Type, a: Sequence[Value], b: Sequence[Value], sums: Sequence[Value]
) -> tuple[Value, ...]:
    """Return sums + a @ b of the warp.

    Parameters
    ----------
    type : Type
        f16 or bf16; sums are f32.
    a, b, sums : sequence of Value
        4, 2 and 4 of this lane, u32 pairs and f32; see the module.
    """
    results: Any = k.emit("mma", *a, *b, *sums, types=(type,))
    return tuple(results)


def multiply_f64(k: Builder, a: Sequence[Value], b: Sequence[Value], sums: Sequence[Value]) -> tuple[Value, ...]:
    """Return sums + a @ b of the warp in f64: 1, 1 and 2 values of this lane, or on sm_90 2, 1 and 4 or 4, 2 and 4."""
    results: Any = k.emit(f"mma_f64_{4 * len(sums)}x8x{4 * len(b)}", *a, *b, *sums, types=())
    return tuple(results)


def load_matrices(k: Builder, address: Value, *, is_transposed: bool = False) -> tuple[Value, ...]:
    """Load four 8 x 8 matrices of 16-bit elements from shared memory into the warp.

    Lane i gives the address of row i % 8 of matrix i / 8. Of each matrix lane l gets the pair (l / 4, 2 (l % 4)), of
    its transpose if `is_transposed`.
    """
    name = "ldmatrix_trans" if is_transposed else "ldmatrix"
    results: Any = k.emit(name, address, types=())
    return tuple(results)


__all__ = ["load_matrices", "multiply", "multiply_f64"]
