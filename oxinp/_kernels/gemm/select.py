"""Matrix products: which kernel family computes a product, with which tile config and split-K factor.

A problem is a batch of C = A @ B with C in C order. `plan_steps` returns the plan of a family for the tensor cores of
Hopper where one of them is faster; `plan` that of the multistage kernels, which take any type and alignment. The tile
config is the one that was measured to be best for a problem near this one (see `choice`), elsewhere the one that the
cost model prefers.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.choice import Choice, decide, nominal
from oxinp._kernels.gemm import int_limbs
from oxinp._kernels.gemm.epilogue import MAX_LENGTH, length, subtracted
from oxinp._kernels.gemm.fp16x2 import plan as fp16x2
from oxinp._kernels.gemm.multistage import kernel as multistage
from oxinp._kernels.gemm.multistage.choose import config_of, configured, guarded, multistage_spec
from oxinp._kernels.gemm.operand import Matrices, both_majors, contiguous, is_regular, sources, widest_copy
from oxinp._kernels.gemm.ozaki import cost as ozaki_cost
from oxinp._kernels.gemm.ozaki import plan as ozaki
from oxinp._kernels.gemm.sm90_mma import plan as sm90_mma
from oxinp._kernels.gemm.sm90_mma import staged
from oxinp._kernels.gemm.sm90_wgmma import plan as sm90_wgmma
from oxinp._kernels.gemm.variant import Variant, varied
from oxinp._kernels.nest import collapse
from oxinp._kernels.plan import Scratch
from oxinp._kernels.problem import Operand, ReduceOp, touched_nbytes
from oxinp._kernels.reduce import plan as reduce
from oxinp._ptx.types import Type, c64, c128, f32, f64

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device
    from oxinp._kernels.gemm.epilogue import Epilogue
    from oxinp._kernels.gemm.operand import Source
    from oxinp._kernels.plan import Plan
    from oxinp._ptx import Builder
    from oxinp._ptx.value import Value

MIN_FP16X2_PRODUCTS = (
    5 << 28
)  # multiply-adds from which fp16x2 is faster: its conversions take as long as small products
MIN_OZAKI_GAIN = 1.05  # speedup over f64 multiply-adds that the cost model has to expect of the Ozaki scheme

_PLAIN = Variant()


def plan(
    shape: tuple[int, ...],
    depth: int,
    a: Matrices,
    b: Matrices,
    acc: Type,
    out: Type,
    device: Device,
    variant: Variant | None = None,
) -> Plan | None:
    """Return the plan of a product by the multistage kernels: one launch or, with split-K, that and a reduction.

    Parameters
    ----------
    shape : tuple of int
        Of C: the batch, rows, columns; at least 1 each.
    depth : int
        Columns of A and rows of B, at least 1.
    a, b : Matrices
        Of each, one axis has stride 1 or a single element; their batch is broadcast to that of C (strides 0).
    acc, out : Type
        Of the sums and of C.
    device : Device
    variant : Variant, optional

    Returns
    -------
    Plan or None
        The inputs are A and B, then those of the variant's epilogue. None only if the variant has to have the sums of
        the plain product (``has_plain_sums``) and cannot.
    """
    *batch, m, n = shape
    variant = variant or _PLAIN
    c_strides = variant.c_strides or contiguous(shape)
    arrays = [x.strides for x in variant.epilogue.arrays] if variant.epilogue is not None else []
    loops: list[int] = []
    steps: tuple[tuple[int, ...], ...] = ((),) * (3 + len(arrays))
    if batch:
        nest = collapse(batch, [x[:-2] for x in (c_strides, a.strides, b.strides, *arrays)])
        if nest.shape != (1,):
            loops, steps = list(nest.shape), nest.strides
    (a_major, a_stride), (b_major, b_stride) = both_majors((m, n), depth, a, b)
    copies = [
        widest_copy(x, (stride, *moves)) for x, stride, moves in ((a, a_stride, steps[1]), (b, b_stride, steps[2]))
    ]
    problem = (math.prod(loops), m, n, depth)
    spec = multistage_spec(a.type, acc, out, (a_major, b_major), (copies[0], copies[1]), problem, device)
    moves = [(*outer, *own[-2:]) for outer, own in zip(steps[3:], arrays, strict=True)]
    constants: tuple[int, ...] = ()
    if variant != _PLAIN:
        spec, constants = varied(spec, variant, moves)
    may_split = variant.has_plain_sums or (spec.is_plain and variant.c_strides is None)
    config = config_of(spec, (problem[0], nominal(m), nominal(n), depth), device, may_split=may_split)
    is_split_k = config.split_k > 1
    if variant.has_plain_sums and variant.epilogue and (is_split_k or length(variant.epilogue, acc) > MAX_LENGTH):
        return None
    product = multistage.plan(
        configured(spec, config, out, len(loops)),
        (m, n, depth),
        (c_strides[-2], a_stride, b_stride),
        tuple(loops),
        steps[:3],
        config.split_k,
        constants,
    )
    if variant.epilogue is not None:
        work = product.launch.work
        nbytes = work.nbytes + touched_nbytes(shape, variant.epilogue.arrays)
        product = product.with_work(work._replace(nbytes=nbytes))
    if not is_split_k:
        if batch or variant != _PLAIN:
            return product
        made = configured(spec, config, out, 0)
        return product.resizing(multistage.resizing(made, depth, a_stride, b_stride))
    size = math.prod(shape)
    shape = (product.scratch_nbytes // (size * acc.nbytes), size)
    joined = _joining(acc, out).plan(shape, (0,), (Operand(acc, (size, 1)),), Operand(out, (1,)), device)
    scratch = Scratch()
    partial, more = scratch.take(product.scratch_nbytes), scratch.take(joined.scratch_nbytes)
    return scratch.plan((*product.on(scratch=partial), *joined.on(in0=partial, scratch=more)))


def plan_update(
    shape: tuple[int, ...],
    depth: int,
    a: Matrices,
    b: Matrices,
    c: Matrices,
    device: Device,
    variant: Variant = _PLAIN,
) -> Plan:
    """Return the launch of C -= A @ B, by the fastest kernels that there are.

    Parameters
    ----------
    shape, depth, a, b, device
        As for `plan`.
    c : Matrices
        Rows of C are contiguous. The inputs are A, B and C, and the output is C again, in place.
    variant : Variant, optional
        Forms of A, B and C.
    """
    epilogue = subtracted(c.type, c.strides, c.alignment)
    own = staged.staged(epilogue, shape[:-2]) if variant == _PLAIN and a.type in (f64, c128) else None
    if own is not None:
        fastest = sm90_mma.plan(*sources(shape, depth, a, b)[0], device, epilogue=own)
        if fastest is not None:
            return fastest
    found = plan(shape, depth, a, b, c.type, c.type, device, variant._replace(epilogue=epilogue, c_strides=c.strides))
    assert found is not None
    return found


def plan_product(
    shape: tuple[int, ...], depth: int, a: Matrices, b: Matrices, device: Device, variant: Variant = _PLAIN
) -> Plan:
    """Return the plan of a product by the fastest kernels that need no workspace larger than the operands.

    Parameters are those of `plan`; the variant has no epilogue, and C is in C order. f32 and c64 may be emulated on
    the tensor cores, see `plan_steps`.
    """
    if variant == _PLAIN:
        setting = "native" if a.type in (f64, c128) else "auto"
        fastest = plan_steps(shape, depth, a, b, a.type, device, setting, 0)
        if fastest is not None:
            return fastest
    found = plan(shape, depth, a, b, a.type, a.type, device, variant)
    assert found is not None
    return found


def plan_steps(
    shape: tuple[int, ...],
    depth: int,
    a: Matrices,
    b: Matrices,
    out: Type,
    device: Device,
    setting: str,
    workspace_nbytes: int,
    epilogue: Epilogue | None = None,
) -> Plan | None:
    """Return the plan of a kernel family that is faster than the multistage kernels; None if there is none.

    With an `epilogue` the plan is a single launch of `sm90_wgmma`, or None where that family needs several.

    Parameters
    ----------
    shape, depth, a, b, out, device
        As for `plan`.
    setting : str
        ``config.matmul``.
    workspace_nbytes : int
        ``config.matmul_workspace``.
    epilogue : Epilogue, optional
    """
    if epilogue is not None:
        is_multiplied = a.type is not f32 or setting == "tf32"
        return plan_wgmma(shape, depth, a, b, out, device, epilogue) if is_multiplied else None
    if a.type not in (f64, c128, f32, c64) or (a.type is f32 and setting == "tf32"):
        return plan_wgmma(shape, depth, a, b, out, device)
    is_here = device.cc == sm90_mma.ARCHITECTURE and a.type is b.type
    seen = sources(shape, depth, a, b)[0] if is_here else None
    faster = None
    if a.type in (f64, c128):
        if setting != "native":
            faster = plan_ozaki(shape, depth, a, b, device, workspace_nbytes, seen)
    elif setting == "auto":
        faster = sm90_mma.plan(*seen, device, in_bf16x3=True) if seen is not None else None
        faster = faster or plan_fp16x2(shape, depth, a, b, device, seen)
    if faster is not None or seen is None:
        return faster
    return sm90_mma.plan(*seen, device)


def plan_wgmma(
    shape: tuple[int, ...],
    depth: int,
    a: Matrices,
    b: Matrices,
    out: Type,
    device: Device,
    epilogue: Epilogue | None = None,
) -> Plan | None:
    """Return the plan of a product of 16-bit floats, integers, or f32 as tf32 by wgmma; None if there is none.

    With an `epilogue`, see `sm90_wgmma.plan`.
    """
    if a.type is not b.type:
        return None
    arrays = [x.strides for x in epilogue.arrays] if epilogue is not None else []
    (left, right), nest = sources(shape, depth, a, b, arrays)
    if epilogue is None:
        plan = int_limbs.plan if a.type in int_limbs.UNSIGNED else sm90_wgmma.plan
        return plan(left, right, out, device)
    moves = nest.strides[3:] if math.prod(nest.shape) > 1 else ((),) * len(arrays)
    if a.type in int_limbs.UNSIGNED or not all(is_regular(own, nest.shape) for own in moves):
        return None
    epilogue = epilogue.along([(*own[-1:], *strides[-2:]) for own, strides in zip(moves, arrays, strict=True)])
    return sm90_wgmma.plan(left, right, out, device, epilogue)


def plan_fp16x2(
    shape: tuple[int, ...],
    depth: int,
    a: Matrices,
    b: Matrices,
    device: Device,
    seen: tuple[Source, Source] | None = None,
) -> Plan | None:
    """Return the plan of an f32 or c64 product by fp16x2; None if it is not faster.

    Parameters
    ----------
    shape, depth, a, b, device
        As for `plan`.
    seen : tuple of Source, optional
        A and B as TMA sees them, where that is known.
    """
    *batch, m, n = shape
    if a.type not in (f32, c64) or a.type is not b.type or device.cc != (9, 0) or math.prod(batch) != 1:
        return None
    parts = len(a.type.parts)
    nominally = nominal(m), nominal(n), depth
    if min(nominally) * parts < fp16x2.MIN_EXTENT:
        return None
    left, right = seen or sources(shape, depth, a, b)[0]
    is_expected = math.prod(nominally) * parts**2 >= MIN_FP16X2_PRODUCTS
    if not _is_emulated(a.type, (left.major, right.major), nominally, device, is_expected=is_expected):
        return None
    return fp16x2.plan(left, right, plan_guarded((m, n), depth, a, b, device), device)


def plan_ozaki(
    shape: tuple[int, ...],
    depth: int,
    a: Matrices,
    b: Matrices,
    device: Device,
    workspace_nbytes: int = 4 << 30,
    seen: tuple[Source, Source] | None = None,
) -> Plan | None:
    """Return the plan of an f64 or c128 product by the Ozaki scheme; None if it is not faster.

    Parameters
    ----------
    shape, depth, a, b, device
        As for `plan`.
    workspace_nbytes : int
        Largest workspace.
    seen : tuple of Source, optional
        As for `plan_fp16x2`.
    """
    *batch, m, n = shape
    if device.cc != (9, 0) or math.prod(batch) != 1 or a.type is not b.type:
        return None
    nominally = nominal(m), nominal(n), depth
    if min(nominally) < ozaki.MIN_EXTENT:
        return None
    left, right = seen or sources(shape, depth, a, b)[0]
    is_expected = ozaki_cost.expected_gain(a.type, *nominally, workspace_nbytes) >= MIN_OZAKI_GAIN
    if not _is_emulated(a.type, (left.major, right.major), nominally, device, is_expected=is_expected):
        return None
    return ozaki.plan(left, right, plan_guarded((m, n), depth, a, b, device), device, workspace_nbytes)


class Emulation(NamedTuple):
    """Whether an emulation on faster tensor cores (fp16x2, Ozaki) stands in for multiply-adds of the operands' type."""

    is_emulated: bool


_EMULATED, _NATIVE = Emulation(is_emulated=True), Emulation(is_emulated=False)


def _is_emulated(
    type: Type, majors: tuple[str, str], shape: tuple[int, int, int], device: Device, *, is_expected: bool
) -> bool:
    """Whether emulation was measured to be faster near this problem; `is_expected` where nothing was measured."""
    ways, default = (_EMULATED, _NATIVE), _EMULATED if is_expected else _NATIVE
    choice = Choice(
        "matmul/emulation", (type.name,), majors, shape, Emulation, ways.__contains__, lambda: default, lambda: ways
    )
    way: Emulation = decide(choice, device)
    return way.is_emulated


def plan_guarded(shape: tuple[int, int], depth: int, a: Matrices, b: Matrices, device: Device) -> Plan:
    """Return the plan of the guarded multistage kernel, the fallback of an emulation; parameters as for `plan`."""
    (a_major, a_stride), (b_major, b_stride) = both_majors(shape, depth, a, b)
    copies = (widest_copy(a, (a_stride,)), widest_copy(b, (b_stride,)))
    problem = (1, *shape, depth)
    spec = multistage_spec(a.type, a.type, a.type, (a_major, b_major), copies, problem, device)
    spec = guarded(spec, problem, device)
    return multistage.plan(spec, (*shape, depth), (shape[1], a_stride, b_stride))


@cache
def _joining(acc: Type, out: Type) -> reduce.Reduction:
    """The sum of partial products."""
    return reduce.Reduction([(acc, True)], (), 0, ReduceOp("sum", acc, 0, _add), out)


def _add(k: Builder, x: Value, y: Value) -> Value:  # noqa: ARG001
    return x + y
