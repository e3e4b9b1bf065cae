"""Every row of the instruction table: the emulator runs it as `ref` says, and ptxas takes its text."""

import numpy as np
import pytest

from oxinp._ptx import Builder, isa, memory
from oxinp._ptx.synchronize import CLUSTER_REGISTERS, SPECIAL_REGISTERS
from oxinp._ptx.types import ALL, bf16, f16, i32, pred, u32, u64
from oxinp._ptx.value import Immediate
from tests.comparator import assert_same
from tests.ptx.assembler import version_of
from tests.ptx.launch import launch
from tests.ptx.specimens import NUM_LANES, form_name, grouped, one_instruction, operands, pure_forms

FORMS = pure_forms()


@pytest.mark.parametrize(("row", "binding"), FORMS, ids=[form_name(*form) for form in FORMS])
def test_emulates_ref(row, binding):
    op = isa.bind(row, binding)
    sources = operands(op)
    outputs = [np.zeros(NUM_LANES, t.dtype) for t in op.dst]
    launch(one_instruction(row, binding), *outputs, *sources)
    with np.errstate(all="ignore"):
        wanted = op.ref(*sources)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for output, want, type in zip(outputs, wanted, op.dst, strict=True):
        assert want.dtype == type.dtype, "the meaning gives another type than the instruction"
        assert_same(output, want)


def test_pure_rows_assemble_at_the_version_they_claim(assembled):
    kernels = [one_instruction(row, binding) for row, binding in FORMS]
    claimed = {form_name(row, binding): (row.ptx, row.sm) for row, binding in FORMS}
    for kernel in kernels:
        ptx, sm = claimed[kernel.name]
        assert version_of(kernel) == max(ptx, (7, 8) if sm >= 90 else (7, 0))
    for group in grouped(kernels, lambda k: (k.target, version_of(k))).values():
        assembled(group)


def memory_kernels():
    """One kernel per legal combination of type, width, cache operator and order."""
    for space in ("global", "shared"):
        for type in ALL:
            if type is pred:
                continue
            for width in (1, 2, 4):
                if width * type.nbytes <= 16:
                    yield from _accesses(space, type, width)
        for name, types in memory.ATOMICS.items():
            for type in types:
                for order in memory.ATOMIC_ORDERS:
                    yield _atomic(space, name, type, order)


def _accesses(space, type, width):
    for cache in memory.LOAD_CACHES if space == "global" else ("",):
        yield _access(memory.load_op(space, type, width, cache, ""), space, type)
    for cache in memory.STORE_CACHES if space == "global" else ("",):
        yield _access(memory.store_op(space, type, width, cache, ""), space, type)
    if width == 1:
        for order in memory.LOAD_ORDERS:
            yield _access(memory.load_op(space, type, 1, "", order), space, type)
        for order in memory.STORE_ORDERS:
            yield _access(memory.store_op(space, type, 1, "", order), space, type)


def _access(op, space, type):
    key = "".join(c if c.isalnum() else "_" for c in op.text)
    k = Builder(f"k_{key}", target=f"sm_{op.sm}")
    pointer = k.pointer("p", type) if space == "global" else k.shared(type, 16)
    values = [k.const(0, t) for t in op.src[2:]]
    k.emit_op(op, pointer.base, Immediate(16, i32), *values)
    return k.build()


def _atomic(space, name, type, order):
    sm = 90 if order.endswith("cluster") else 80
    k = Builder(f"atom_{space}_{name}_{type.name}_{order.replace('.', '_')}", target=f"sm_{sm}")
    pointer = k.pointer("p", type) if space == "global" else k.shared(type, 16)
    pointer.atomic(name, 1, k.const(1, type), compare=k.const(0, type) if name == "cas" else None, order=order)
    return k.build()


def test_memory_instructions_assemble(assembled):
    unique = {kernel.name: kernel for kernel in memory_kernels()}
    for group in grouped(list(unique.values()), lambda k: (k.target, version_of(k))).values():
        assembled(group)


def test_warp_and_synchronising_instructions_assemble(assembled):
    kernels = []
    for sm in (80, 90):
        k = Builder(f"everything_{sm}", target=f"sm_{sm}")
        out = k.pointer("out", u32)
        for register in SPECIAL_REGISTERS + (CLUSTER_REGISTERS if sm == 90 else ()):
            out[0] = k.special(register)
        for type in ALL:
            value = k.const(type is pred or 1, type)
            for mode in ("up", "down", "bfly", "idx"):
                getattr(k, f"shfl_{mode}")(value, 1)
        p = k.lane == 3
        out[1] = k.ballot(p)
        out[2] = k.where(k.any(p) & k.all(p), k.activemask(types=()), k.const(0, u32))
        for name in ("add", "min", "max", "and", "or", "xor"):
            out[3] = k.redux(name, k.lane)
        out[4] = k.match_any(k.lane, 0xFFFFFFFF) + k.match_any(k.cast(k.lane, u64), 0xFFFFFFFF)
        k.warp_sync()
        k.barrier()
        k.barrier(1, 64)
        k.barrier_arrive(2, 64, types=())
        for order in ("acq_rel", "sc"):
            for scope in ("cta", "gpu", "sys", *(("cluster",) if sm == 90 else ())):
                k.fence(scope, order)
        kernels.append(k.build())
    for kernel in kernels:
        assembled([kernel])


def test_casts_assemble(assembled):
    kernels = []
    for source in ALL:
        k = Builder(f"cast_from_{source.name}")
        x = k.pointer("x", source, "r")
        for to in ALL:
            out = k.pointer(f"out_{to.name}", to, "w")
            out[k.tid] = k.cast(x[k.tid], to)
        kernels.append(k.build())
    assembled(kernels)


def test_vectors_of_narrow_elements_assemble(assembled):
    kernels = []
    for type in ALL:
        k = Builder(f"vectors_{type.name}")
        x, out = k.pointer("x", type, "r"), k.pointer("out", type, "w")
        for width in (1, 2, 4, 8, 16):
            out.store(k.tid * width, x.load(k.tid * width, width))
        kernels.append(k.build())
    assembled(kernels)


def test_immediates_assemble(assembled):
    k = Builder("immediates")
    for type in ALL:
        out = k.pointer(f"out_{type.name}", type, "w")
        out[0] = type is pred or 1
        if type.is_float:
            for value in (float("inf"), float("nan"), -0.0, 1e-40):
                out[1] = value
        elif type is not pred:
            info = np.iinfo(type.dtype)
            out[1], out[2] = int(info.min), int(info.max)
            x = k.const(1, type)
            out[3] = x + int(info.max)
            out[4] = k.where(x == 1, info.max, x)
    assembled([k.build()])


def test_half_types_take_constants():
    k = Builder("halves", block=32)
    a, b = k.pointer("a", f16), k.pointer("b", bf16)
    a[k.tid] = a[k.tid] + 1.5
    b[k.tid] = k.cast(k.cast(b[k.tid], f16) + 0.25, bf16)
    x = np.arange(32, dtype=np.float16)
    y = (np.arange(32, dtype=np.float32).view(np.uint32) >> 16).astype(np.uint16)
    launch(k.build(), x, y)
    assert_same(x, np.arange(32, dtype=np.float16) + np.float16(1.5))
    assert_same((y.astype(np.uint32) << 16).view(np.float32), np.arange(32, dtype=np.float32) + np.float32(0.25))
