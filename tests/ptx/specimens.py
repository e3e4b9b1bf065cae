"""Operands worth trying, and kernels of one instruction each."""

import itertools

import numpy as np

from oxinp._ptx import Builder, isa
from oxinp._ptx.types import bf16, pred

NUM_LANES = 256

_FLOATS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    3.0,
    1e-3,
    255.0,
    256.0,
    32768.0,
    -32769.0,
    65504.0,
    1e5,
    2147483520.0,
    2147483648.0,
    -2147483648.0,
    4294967296.0,
    9.2e18,
    9.223372036854775808e18,
    -1e19,
    1.8e19,
    1e38,
    float("inf"),
    float("-inf"),
    float("nan"),
]


def specimens(type, seed=0, num=NUM_LANES):
    """`num` values of a type: special ones crossed with themselves by shifting, then random bits."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 256, num * type.nbytes, dtype=np.uint8)
    if type is pred:
        return (bits & 1).astype(bool)
    values = bits.view(type.dtype).copy()
    if type is bf16:
        return values
    if type.is_float:
        info = np.finfo(type.dtype)
        with np.errstate(over="ignore"):
            special = np.asarray(
                [*_FLOATS, info.tiny, info.smallest_subnormal, -info.smallest_subnormal, info.max, info.eps]
            )
            special = special.astype(type.dtype)
    else:
        info = np.iinfo(type.dtype)
        special = np.asarray(
            [0, 1, 2, 3, 7, 31, 32, 33, 100, info.max, info.max - 1, info.min, info.min + 1], type.dtype
        )
        if info.min < 0:
            special = np.append(special, np.asarray([-1, -2, -7], type.dtype))
    # shifted by the seed times a stride coprime to most lengths, so that operands meet in many pairs
    special = np.tile(special, 8)[: num // 2]
    values[: len(special)] = np.roll(special, seed * 7)
    return values


def shift_counts(seed=0, num=NUM_LANES):
    """Bit counts, sensible and too large."""
    return np.random.default_rng(seed).integers(0, 80, num).astype(np.uint32)


def pure_forms():
    """Every (row, binding) of the table that computes lane by lane."""
    return [(row, binding) for row in isa.ROWS if row.kind == isa.PURE for binding in row.types]


def form_name(row, binding):
    """Unique and fit for an entry name."""
    return "_".join([row.name, *[t.name for t in binding]])


def one_instruction(row, binding):
    """Kernel that applies an instruction to arrays: outputs first, then inputs."""
    op = isa.bind(row, binding)
    target = f"sm_{op.sm}{'a' if op.arch_specific else ''}"
    k = Builder(form_name(row, binding), block=NUM_LANES, target=target)
    outputs = [k.pointer(f"out{i}", t, "w") for i, t in enumerate(op.dst)]
    inputs = [k.pointer(f"in{i}", t, "r") for i, t in enumerate(op.src)]
    i = k.tid
    results = k.emit_op(op, *[pointer[i] for pointer in inputs])
    for pointer, value in zip(outputs, results if isinstance(results, tuple) else (results,), strict=True):
        pointer[i] = value
    return k.build()


def operands(op):
    """One array per source operand."""
    return [
        shift_counts(i)
        if op.name in ("shl", "shr", "bfe", "shf_l", "shf_r") and t.name == "u32" and i
        else specimens(t, i)
        for i, t in enumerate(op.src)
    ]


def grouped(kernels, key):
    """Lists of kernels with equal keys."""
    kernels = sorted(kernels, key=key)
    return {k: list(group) for k, group in itertools.groupby(kernels, key)}
