"""Writes by index: ``array[index] = values``, where of equal indices the last one counts, and atomic updates.

Data layout: an array of any strides, seen as loops outside the index, the index and loops inside; values of any
strides along the same loops, or one number for all. Who owns what: a thread of `check` and `claim` has `UNROLL`
indices, one of `write` as many units of `vector` innermost elements. Algorithm: `check` looks whether every index is in
bounds, and clears the claims of the elements that will be written; `claim` enters at each of these the number of the
last index that names it, by an atomic maximum; `write` stores the values of the indices that have their claim. Where
an index is out of bounds nothing is written, and it is reported. Where values do not depend on the index, or indices
are known to differ, there are no claims. Bytes per element: index, value, and two claims; the element.

`update` computes with what is there by atomics, of integers alone: their order does not matter.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from oxinp._kernels.index.loops import (
    BLOCK,
    UNROLL,
    BoundLoops,
    Loop,
    LoopsSpec,
    is_clear,
    loops_of,
    report,
    resolve,
)
from oxinp._kernels.plan import Argument, Fill, Launch, Plan, Scratch, Step, Work
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.sort.keys import carrier
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i32, i64, u32, u64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

ATOMIC_TYPES = {"add": (i32, u32, i64, u64), "min": (i32, u32, i64, u64), "max": (i32, u32, i64, u64)}
ATOMIC_TYPES |= dict.fromkeys(("and", "or", "xor"), (i32, u32, i64, u64))
"""Operators of `update` and the types they have."""

MAX_COUNT_32 = (1 << 32) - 2


class CheckSpec(Frozen):
    """A kernel of `check` or of `claim`.

    Attributes
    ----------
    index_type : Type
    claim : Type or None
        Of claims.
    enters : bool
        It is that of `claim`.
    is_checked : bool
        One may be out of bounds.
    bits : int
        Of distances.
    """

    index_type: Type
    claim: Type | None
    enters: bool
    is_checked: bool
    bits: int


class WriteSpec(Frozen):
    """A kernel of `write`.

    Attributes
    ----------
    type : Type
        Of elements: of updates their own, else any of their size.
    index_type : Type
    loops : LoopsSpec
    is_scalar : bool
        There is one value for all, by value.
    claim : Type or None
        Of claims.
    is_checked : bool
        Indices may be negative, or one may have been found out of bounds.
    operator : str
        Of an update, a key of `ATOMIC_TYPES`; "" for none.
    """

    type: Type
    index_type: Type
    loops: LoopsSpec
    is_scalar: bool
    claim: Type | None
    is_checked: bool
    operator: str


def scatter(
    outer: Sequence[Loop],
    index: Loop,
    inner: Sequence[Loop],
    extent: int,
    type_: Type,
    index_type: Type,
    alignments: Sequence[int],
    *,
    is_scalar: bool = False,
    is_checked: bool = True,
    may_repeat: bool = True,
    operator: str = "",
) -> Plan:
    """Return the plan of ``array[o, index[j], i] = values[o, j, i]``.

    The output is the array; the inputs are index, values, and where indices are checked the address for a report.

    Parameters
    ----------
    outer, inner : sequence of Loop
        Strides of the array, then of the values.
    index : Loop
        How many indices, the stride of what is indexed, and that of the values.
    extent : int
        Of what is indexed.
    type_, index_type : Type
    alignments : sequence of int
        Of array and values, in bytes.
    is_scalar : bool
        The second input is a number, given as the bits of an element.
    is_checked : bool
        Indices may be negative or out of bounds.
    may_repeat : bool
        Indices may name an element more than once.
    operator : str
        Of an update: a key of `ATOMIC_TYPES`.
    """
    loops = loops_of(outer, index, inner, extent, type_.nbytes, alignments if not operator else (1, 1))
    count, bits, scratch = index[0], loops.spec.bits, Scratch()
    has_claims = may_repeat and not operator and not is_scalar and index[2] != 0 and count > 1
    claim = None if not has_claims else u32 if count <= MAX_COUNT_32 else u64
    flag = scratch.take(u32.nbytes) if is_checked else None
    claims = None if claim is None else scratch.take(extent * claim.nbytes)
    out, indices, values, status = Argument("out0"), Argument("in0"), Argument("in1"), Argument("in2")
    steps: list[Step] = [] if flag is None else [Fill(flag, u32.nbytes, 0)]
    grid, given = (-(-count // (BLOCK * UNROLL)), 1, 1), [x for x in (flag, claims) if x is not None]
    if is_checked or claim is not None:
        check = CheckSpec(index_type, claim, enters=False, is_checked=is_checked, bits=bits)
        found = (*given, indices, status) if is_checked else (*given, indices)
        steps.append(Launch(make(check), grid, found, (count, extent)))
    if claim is not None:
        enter = CheckSpec(index_type, claim, enters=True, is_checked=is_checked, bits=bits)
        steps.append(Launch(make(enter), grid, (*given, indices), (count, extent)))
    element = type_ if operator else carrier(type_)
    spec = WriteSpec(element, index_type, loops.spec, is_scalar, claim, is_checked, operator)
    work = Work(nbytes=(2 - is_scalar) * loops.num_units * loops.spec.vector * type_.nbytes + count * index_type.nbytes)
    constants = (*loops.constants, extent)
    steps.append(Launch(make(spec), loops.grid, (out, *given, indices, values), constants, work))
    return scratch.plan(steps)


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: CheckSpec | WriteSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return _check(spec) if isinstance(spec, CheckSpec) else _write(spec)


def _check(spec: CheckSpec) -> Kernel:
    k = Builder("claim_indices" if spec.enters else "check_indices", block=BLOCK)
    flag = k.pointer("flag", u32) if spec.is_checked else None
    claims = k.pointer("claims", spec.claim) if spec.claim is not None else None
    index = k.pointer("index", spec.index_type, "r")
    status = k.scalar("status", u64) if spec.is_checked and not spec.enters else None
    count, extent = k.scalar("count", i64), k.scalar("extent", i64)
    first = k.cast(k.ctaid, i64) * (BLOCK * UNROLL) + k.cast(k.tid, i64)
    numbers = [first + BLOCK * i if i else first for i in range(UNROLL)]
    raw = [index[k.min(number, count - 1)] for number in numbers]
    resolved = [resolve(k, value, extent, spec.bits) for value in raw]
    if spec.enters:
        assert claims is not None
        is_wanted = None if flag is None else is_clear(k, flag)
        for number, (at, _) in zip(numbers, resolved, strict=True):
            exists = number < count
            with k.when(exists if is_wanted is None else exists & is_wanted):
                claims.atomic("max", at, k.cast(number + 1, claims.type))
        return k.build()
    for number, value, (at, is_beyond) in zip(numbers, raw, resolved, strict=True):
        if status is not None:
            assert flag is not None
            with k.when(is_beyond):
                flag.store(0, [k.const(1, u32)], order="relaxed.gpu")
                report(k, status, value)
        if claims is not None:
            with k.when((number < count) & ~is_beyond):
                claims.store(at, [k.const(0, claims.type)], order="relaxed.gpu")
    return k.build()


def _write(spec: WriteSpec) -> Kernel:
    k = Builder("scatter" if not spec.operator else f"scatter_{spec.operator}", block=BLOCK)
    out = k.pointer("out", spec.type)
    flag = k.pointer("flag", u32, "r") if spec.is_checked else None
    claims = k.pointer("claims", spec.claim, "r") if spec.claim is not None else None
    index = k.pointer("index", spec.index_type, "r")
    value = k.bitcast(k.scalar("value", carrier(spec.type)), spec.type) if spec.is_scalar else None
    values = k.pointer("values", spec.type, "r") if value is None else None
    loops = BoundLoops(k, spec.loops, 2)
    extent = k.scalar("extent", i64)
    _, valid, places = loops.units()
    found = [resolve(k, index[loops.index_of(place)], extent, spec.loops.bits)[0] for place in places]
    is_wanted = None if flag is None else is_clear(k, flag)
    vector = spec.loops.vector
    units: list[Sequence[Any]] = [
        [value] * vector if values is None else values.load(loops.offset(1, place), vector) for place in places
    ]
    for place, at, unit, is_valid in zip(places, found, units, valid, strict=True):
        goes = is_valid if is_wanted is None else is_valid & is_wanted
        with k.when(goes):
            if claims is None:
                _put(spec, out, loops.offset(0, place, at), unit)
            else:
                with k.when(claims[at] == k.cast(loops.index_of(place) + 1, claims.type)):
                    _put(spec, out, loops.offset(0, place, at), unit)
    return k.build()


def _put(spec: WriteSpec, out: Pointer, offset: Value, unit: Sequence[Any]) -> None:
    if not spec.operator:
        # Without claims equal indices store equal values: which is last does not matter.
        out.store(offset, unit, order="" if spec.claim is not None else "relaxed.gpu")
        return
    k = out.builder
    type_, (value,) = spec.type, unit
    if type_ in (i64, i32) and spec.operator not in ("min", "max"):
        unsigned = u64 if type_ is i64 else u32
        out, value = out.view(unsigned), k.bitcast(value, unsigned)
    out.atomic(spec.operator, offset, value)


__all__ = ["ATOMIC_TYPES", "CheckSpec", "WriteSpec", "make", "scatter"]
