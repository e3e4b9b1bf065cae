"""Writes by index: ``array[index] = values``, where of equal indices the last one counts, and atomic updates.

Data layout: an array of any strides, seen as loops outside the index, the index and loops inside; values of any
strides along the same loops, or one number for all. Who owns what: a thread of `check` has `UNROLL` indices, one of
`write` as many units of `vector` innermost elements. Algorithm: `check` looks whether every index is in bounds, and
claims the element that it names, see `claims`; `write` stores the values of the last indices of their elements. Where
an index is out of bounds nothing is written, and it is reported. Where values do not depend on the index, or indices
are known to differ, there are no claims; few writes with claims to a vector take one launch, see `resident_scatter`.
Bytes per element: index, value, and two claims; the element. Random accesses to memory cost a sector each: many writes
to a vector that no cache holds are sorted, see `latest`.

`update` computes with what is there by atomics, of integers alone: their order does not matter. Sums are not preceded
by `check`: what is in bounds is added, and where an index is not it is subtracted again, so that the indices are read
once. Many sums into a vector are added up in shared memory instead, see `sums`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from oxinp._kernels.index import resident_scatter, sums
from oxinp._kernels.index.claims import Claims, ClaimSpec, room_for
from oxinp._kernels.index.latest import latest
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
from oxinp._kernels.index.regions import has_regions
from oxinp._kernels.plan import Argument, Fill, Launch, Plan, Scratch, Step, Work
from oxinp._kernels.problem import MAX_KERNELS, SKIPPED
from oxinp._kernels.sort.keys import carrier
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i32, i64, u32, u64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.choice import Device
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

ATOMIC_TYPES = {"add": (i32, u32, i64, u64), "min": (i32, u32, i64, u64), "max": (i32, u32, i64, u64)}
ATOMIC_TYPES |= dict.fromkeys(("and", "or", "xor"), (i32, u32, i64, u64))
"""Operators of `update` and the types they have."""

TRIES, TAKES_BACK = "tries", "takes back"
INVERTIBLE = ("add", "xor")

MIN_SORTED, MIN_SORTED_NBYTES, ELEMENTS_PER_SORTED = (
    1 << 21,
    1 << 26,
    32,
)  # writes, bytes of what they go to, its extent


class CheckSpec(Frozen):
    """A kernel of `check`.

    Attributes
    ----------
    index_type : Type
    claim : ClaimSpec or None
    reports : bool
        It reports an index that is out of bounds.
    bits : int
        Of distances.
    skips : bool
        Indices that are `SKIPPED` are in bounds.
    """

    index_type: Type
    claim: ClaimSpec | None
    reports: bool
    bits: int
    skips: bool = False

    @property
    def unroll(self) -> int:
        """Indices of a thread; searches for one after the other would wait for each other."""
        return 1 if self.claim is not None and self.claim.is_hashed else UNROLL


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
    claim : ClaimSpec or None
    is_checked : bool
        Indices may be negative, or one may have been found out of bounds.
    operator : str
        Of an update, a key of `ATOMIC_TYPES`; "" for none.
    part : str
        Of an update that can be taken back: `TRIES` leaves out and reports what is out of bounds, `TAKES_BACK` what
        was done if anything was.
    skips : bool
        Nothing is written for indices that are `SKIPPED`.
    """

    type: Type
    index_type: Type
    loops: LoopsSpec
    is_scalar: bool
    claim: ClaimSpec | None
    is_checked: bool
    operator: str
    part: str = ""
    skips: bool = False


def scatter(
    outer: Sequence[Loop],
    index: Loop,
    inner: Sequence[Loop],
    extent: int,
    type_: Type,
    index_type: Type,
    alignments: Sequence[int],
    device: Device,
    *,
    is_scalar: bool = False,
    is_checked: bool = True,
    may_repeat: bool = True,
    operator: str = "",
    skips: bool = False,
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
    device : Device
    is_scalar : bool
        The second input is a number, given as the bits of an element.
    is_checked : bool
        Indices may be negative or out of bounds.
    may_repeat : bool
        Indices may name an element more than once.
    operator : str
        Of an update: a key of `ATOMIC_TYPES`.
    skips : bool
        Some indices are `SKIPPED`.
    """
    count, stride, step = index
    is_vector = is_checked and not skips and all(loop[0] == 1 for loop in (*outer, *inner)) and (is_scalar or step == 1)
    if is_vector and not operator and _is_sorted(count, extent, type_.nbytes):
        return latest(count, extent, stride, type_, index_type, device, is_scalar=is_scalar)
    shift = sums.shift_of(count, extent, type_, device) if is_vector and operator == "add" else None
    if shift is not None:
        return sums.add(count, extent, stride, shift, type_, index_type, is_scalar=is_scalar)
    has_claims = may_repeat and not operator and not is_scalar and step != 0 and count > 1
    room = room_for(count, extent) if has_claims else None
    if room is not None and not skips and all(loop[0] == 1 for loop in (*outer, *inner)):
        items = resident_scatter.items_of(count, type_.nbytes, device)
        if items is not None:
            return resident_scatter.scatter(
                count, extent, stride, step, type_, index_type, items, room, is_checked=is_checked
            )
    loops = loops_of(outer, index, inner, extent, type_.nbytes, alignments if not operator else (1, 1))
    bits, scratch = loops.spec.bits, Scratch()
    claim, own = (None, ()) if room is None else (room.spec, room.constants)
    flag = scratch.take(u32.nbytes) if is_checked else None
    claims = None if room is None else scratch.take(room.nbytes)
    out, indices, values, status = Argument("out0"), Argument("in0"), Argument("in1"), Argument("in2")
    given = [x for x in (flag, claims) if x is not None]
    steps: list[Step] = [Fill(given[0], scratch.nbytes, 0)] if given else []
    is_tried = is_checked and operator in INVERTIBLE
    if claim is not None or (is_checked and not is_tried):
        check = CheckSpec(index_type, claim, is_checked, bits, skips)
        grid = (-(-count // (BLOCK * check.unroll)), 1, 1)
        found = [*([flag, status] if flag is not None else []), *([] if claims is None else [claims])]
        steps.append(Launch(make(check), grid, (*found, indices), (*own, count, extent)))
    element = type_ if operator else carrier(type_)
    spec = WriteSpec(
        element, index_type, loops.spec, is_scalar, claim, is_checked, operator, TRIES if is_tried else "", skips
    )
    work = Work(nbytes=(2 - is_scalar) * loops.num_units * loops.spec.vector * type_.nbytes + count * index_type.nbytes)
    constants = (*own, *loops.constants, extent)
    reported = (status,) if is_tried else ()
    steps.append(Launch(make(spec), loops.grid, (out, *given, *reported, indices, values), constants, work))
    if is_tried:
        back = make(spec.replace(part=TAKES_BACK))
        few = (min(loops.grid[0], device.num_sms), 1, 1)  # blocks, which as a rule have nothing to do
        steps.append(Launch(back, few, (out, *given, indices, values), constants))
    return scratch.plan(steps)


def _is_sorted(count: int, extent: int, nbytes: int) -> bool:
    """Whether writes to a vector are sorted: they are many, and it is larger than caches."""
    is_large = extent * nbytes >= MIN_SORTED_NBYTES and count * ELEMENTS_PER_SORTED >= extent
    return is_large and count >= MIN_SORTED and has_regions(count, extent)


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: CheckSpec | WriteSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return _check(spec) if isinstance(spec, CheckSpec) else _write(spec)


def _check(spec: CheckSpec) -> Kernel:
    k = Builder("check_indices" if spec.claim is None else "claim_indices", block=BLOCK)
    flag = k.pointer("flag", u32) if spec.reports else None
    status = k.scalar("status", u64) if spec.reports else None
    claims = Claims(k, spec.claim, "rw") if spec.claim is not None else None
    index = k.pointer("index", spec.index_type, "r")
    if claims is not None:
        claims.declare()
    count, extent = k.scalar("count", i64), k.scalar("extent", i64)
    first = k.cast(k.ctaid, i64) * (BLOCK * spec.unroll) + k.cast(k.tid, i64)
    numbers = [first + BLOCK * i if i else first for i in range(spec.unroll)]
    raw = [index[k.min(number, count - 1)] for number in numbers]
    for number, value in zip(numbers, raw, strict=True):
        at, is_beyond = resolve(k, value, extent, spec.bits)
        if status is not None:
            assert flag is not None
            with k.when(is_beyond & (value != SKIPPED) if spec.skips else is_beyond):
                flag.store(0, [k.const(1, u32)], order="relaxed.gpu")
                report(k, status, value)
        if claims is not None:
            with k.when((number < count) & ~is_beyond):
                claims.enter(at, number)
    return k.build()


def _write(spec: WriteSpec) -> Kernel:
    k = Builder("scatter" if not spec.operator else f"scatter_{spec.operator}", block=BLOCK)
    out = k.pointer("out", spec.type)
    flag = k.pointer("flag", u32) if spec.is_checked else None
    claims = Claims(k, spec.claim, "r") if spec.claim is not None else None
    status = k.scalar("status", u64) if spec.part == TRIES else None
    index = k.pointer("index", spec.index_type, "r")
    value = k.bitcast(k.scalar("value", carrier(spec.type)), spec.type) if spec.is_scalar else None
    values = k.pointer("values", spec.type, "r") if value is None else None
    if claims is not None:
        claims.declare()
    loops = BoundLoops(k, spec.loops, 2)
    extent = k.scalar("extent", i64)

    def write(is_wanted: Value | None, block: Value | None = None) -> None:
        """Write a thread's units; those out of bounds alone are left out without anything that is wanted."""
        _, valid, places = loops.units(block)
        raw = [index[loops.index_of(place)] for place in places]
        found = [resolve(k, each, extent, spec.loops.bits) for each in raw]
        vector = spec.loops.vector
        units: list[Sequence[Any]] = [
            [value] * vector if values is None else values.load(loops.offset(1, place), vector) for place in places
        ]
        for place, given, (at, is_beyond), unit, is_valid in zip(places, raw, found, units, valid, strict=True):
            if status is not None:
                assert flag is not None
                with k.when(is_beyond):
                    flag.store(0, [k.const(1, u32)], order="relaxed.gpu")
                    report(k, status, given)
            goes = is_valid & ~is_beyond if spec.part else is_valid if is_wanted is None else is_valid & is_wanted
            if spec.skips:
                goes = goes & (given != SKIPPED)
            with k.when(goes):
                if claims is None:
                    _put(spec, out, loops.offset(0, place, at), unit)
                else:
                    with k.when(claims.is_last(at, loops.index_of(place))):
                        _put(spec, out, loops.offset(0, place, at), unit)

    if spec.part == TAKES_BACK:
        assert flag is not None
        size = BLOCK * spec.loops.unroll
        num_blocks = (loops.num_units + (size - 1)) / size
        with (
            k.when(~is_clear(k, flag)),
            k.range(k.cast(k.ctaid, num_blocks.type), num_blocks, k.cast(k.nctaid, num_blocks.type)) as block,
        ):
            write(None, block)
    else:
        write(None if flag is None or spec.part else is_clear(k, flag))
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
    if spec.part == TAKES_BACK and spec.operator == "add":
        value = k.const(0, value.type) - value
    out.atomic(spec.operator, offset, value)


__all__ = ["ATOMIC_TYPES", "CheckSpec", "WriteSpec", "make", "scatter"]
