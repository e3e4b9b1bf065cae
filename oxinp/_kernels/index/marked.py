"""Few writes by index into a vector of many elements; of equal indices the last one counts.

Data layout: a vector of any stride of elements of 4 or 8 bytes, an index and a value per write; marks, a bit per hash
of an element, and as many bits that say which marks are shared. Who owns what: a thread of `mark` and of `write` has
an index, one of `settle` 32. Algorithm: `mark` looks whether every index is in bounds and sets its element's mark; who
finds it set says that it is shared. An element whose mark is not shared is named once: `write` stores its value. Of
the others, few unless indices repeat, `write` sets the elements to zero and notes which indices they are. Those then
leave their greatest number in the elements themselves, which all of them overwrite (`CLAIM`), see whose it is
(`CHECK`), and these store their values (`STORE`): in three launches, or by a cluster of blocks in one. Where an index
is out of bounds nothing is written, and it is reported. Bytes per write: index and value, some words in the cache, and
a sector of the vector.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.index.claims import MULTIPLIER
from oxinp._kernels.index.loops import BLOCK, is_clear, report, resolve
from oxinp._kernels.plan import Argument, Fill, Launch, Plan, Scratch, Work
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.cluster import cluster_barrier
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i64, u32, u64
from oxinp._ptx.warp import WARP

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

MARK, WRITE, CLAIM, CHECK, STORE = "mark", "write", "claim", "check", "store"
TYPES = (u32, u64)
SETTLED = (CLAIM, CHECK, STORE)
CLUSTER, CLUSTER_BLOCK = 8, 512
MAX_BY_CLUSTER = 1 << 22  # indices
MAX_COUNT = 1 << 26  # of whose marks there are no more than hashes of 32 bits
WORD_BITS = u32.bits
MARKS_PER_INDEX = 32


class MarkedSpec(Frozen):
    """One kernel of the family.

    Attributes
    ----------
    type : Type
        Of elements, as bits.
    index_type : Type
    parts : tuple of str
        Of the constants above; the last three may be one kernel.
    """

    type: Type
    index_type: Type
    parts: tuple[str, ...]


def scatter(
    count: int, extent: int, stride: int, step: int, type_: Type, index_type: Type, device: Device
) -> Plan | None:
    """Return the plan of ``array[index] = values``; None where elements have no room for the numbers of indices.

    The output is the array; the inputs are index, values and the address for a report.

    Parameters
    ----------
    count, extent : int
        Of writes, of the array; its elements have numbers of 32 bits.
    stride, step : int
        Of the array and of values.
    type_, index_type : Type
        Elements as bits.
    device : Device
    """
    if type_ not in TYPES or count > MAX_COUNT:
        return None
    scratch = Scratch()
    num_marks = MARKS_PER_INDEX << max(10, (count - 1).bit_length())
    flag = scratch.take(u32.nbytes)
    marks, shared = (scratch.take(num_marks // 8) for _ in range(2))
    zeros = Fill(flag, scratch.nbytes, 0)
    num_words = -(-count // WARP)
    noted = scratch.take(num_words * u32.nbytes)
    out, index, values, status = Argument("out0"), Argument("in0"), Argument("in1"), Argument("in2")
    shift = WORD_BITS + 1 - num_marks.bit_length()
    blocks, few = (-(-count // BLOCK), 1, 1), (-(-num_words // BLOCK), 1, 1)

    def launch(
        parts: tuple[str, ...], grid: tuple[int, int, int], arguments: tuple[Argument, ...], *constants: int
    ) -> Launch:
        nbytes = count * (index_type.nbytes + 2 * type_.nbytes) if parts == (WRITE,) else 0
        return Launch(make(MarkedSpec(type_, index_type, parts)), grid, arguments, constants, Work(nbytes=nbytes))

    is_one = device.cc >= (9, 0) and count <= MAX_BY_CLUSTER
    settling = [(SETTLED, (CLUSTER, 1, 1))] if is_one else [((part,), few) for part in SETTLED]
    settled = (out, flag, noted, index, values)
    return scratch.plan(
        [
            zeros,
            launch((MARK,), blocks, (flag, status, marks, shared, index), shift, count, extent),
            launch((WRITE,), blocks, (out, flag, shared, noted, index, values), shift, count, extent, stride, step),
            *[launch(parts, grid, settled, num_words, extent, stride, step) for parts, grid in settling],
        ]
    )


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: MarkedSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return _mark(spec) if spec.parts == (MARK,) else _write(spec) if spec.parts == (WRITE,) else _settle(spec)


def _place(k: Builder, at: Value, shift: Value) -> tuple[Value, Value]:
    """The word of an element's mark, and its bit."""
    number = k.shr(k.cast(at, u32) * MULTIPLIER, shift)
    return number >> 5, k.const(1, u32) << (number & (WORD_BITS - 1))


def _number(k: Builder) -> Value:
    """The number of a thread's index."""
    return k.cast(k.ctaid, i64) * BLOCK + k.cast(k.tid, i64)


def _mark(spec: MarkedSpec) -> Kernel:
    k = Builder("mark_indices", block=BLOCK)
    flag, status = k.pointer("flag", u32), k.scalar("status", u64)
    marks, shared = k.pointer("marks", u32), k.pointer("shared", u32)
    index, shift = k.pointer("index", spec.index_type, "r"), k.scalar("shift", u32)
    count, extent = k.scalar("count", i64), k.scalar("extent", i64)
    number = _number(k)
    raw = index[k.min(number, count - 1)]
    at, is_beyond = resolve(k, raw, extent, i64.bits)
    with k.when(is_beyond):
        flag.store(0, [k.const(1, u32)], order="relaxed.gpu")
        report(k, status, raw)
    word, bit = _place(k, at, shift)
    with k.when((number < count) & ~is_beyond):
        before = marks.load(word, order="relaxed.gpu")[0]
        with k.when((before & bit) == 0):  # else one more atomic where others wait for theirs
            before = marks.atomic("or", word, bit)
            with k.when((before & bit) != 0):
                _say(k, shared, word, bit)
        with k.otherwise():
            _say(k, shared, word, bit)
    return k.build()


def _say(k: Builder, shared: Pointer, word: Value, bit: Value) -> None:
    """Say that a mark is shared, unless that has been said."""
    with k.when((shared.load(word, order="relaxed.gpu")[0] & bit) == 0):
        shared.atomic("or", word, bit)


def _write(spec: MarkedSpec) -> Kernel:
    k = Builder("scatter_marked", block=BLOCK)
    out, flag, shared = k.pointer("out", spec.type, "w"), k.pointer("flag", u32, "r"), k.pointer("shared", u32, "r")
    noted, index = k.pointer("noted", u32, "w"), k.pointer("index", spec.index_type, "r")
    values, shift = k.pointer("values", spec.type, "r"), k.scalar("shift", u32)
    count, extent, stride, step = (k.scalar(name, i64) for name in ("count", "extent", "stride", "step"))
    number = _number(k)
    here = k.min(number, count - 1)
    raw, value = index[here], values[here * step]
    at, is_beyond = resolve(k, raw, extent, i64.bits)
    word, bit = _place(k, k.where(is_beyond, k.const(0, i64), at), shift)
    goes = (number < count) & is_clear(k, flag)
    is_shared = (shared[word] & bit) != 0
    with k.when(goes):
        out.store(at * stride, [k.where(is_shared, k.const(0, spec.type), value)], order="relaxed.gpu")
    found = k.ballot(goes & is_shared)
    with k.when((k.lane == 0) & (number < count)):
        noted[number >> 5] = found
    return k.build()


def _settle(spec: MarkedSpec) -> Kernel:
    is_one = len(spec.parts) > 1
    block = CLUSTER_BLOCK if is_one else BLOCK
    k = Builder(
        f"settle_{'marks' if is_one else spec.parts[0]}",
        block=block,
        cluster=CLUSTER if is_one else None,
        target="sm_90" if is_one else "sm_80",
    )
    out, flag, noted = k.pointer("out", spec.type), k.pointer("flag", u32, "r"), k.pointer("noted", u32)
    index, values = k.pointer("index", spec.index_type, "r"), k.pointer("values", spec.type, "r")
    num_words, extent, stride, step = (k.scalar(name, i64) for name in ("num_words", "extent", "stride", "step"))
    first = k.cast(k.ctaid, i64) * block + k.cast(k.tid, i64)
    for part in spec.parts:
        with k.when(is_clear(k, flag)), k.range(first, num_words, k.cast(k.nctaid, i64) * block) as own:
            rest, kept = k.var(noted[own]), k.var(0, u32)
            with k.loop():
                k.break_if(rest.get() == 0)
                lane = k.clz(k.brev(rest.get()))
                number = (own << 5) + k.cast(lane, i64)
                at, _ = resolve(k, index[number], extent, i64.bits)
                place, claim = at * stride, k.cast(number + 1, spec.type)
                if part == STORE:
                    out.store(place, [values[number * step]])
                else:
                    found = out.load(place, order="relaxed.gpu")[0]
                    if part == CHECK:
                        kept.set(kept | (k.cast(found == claim, u32) << lane))
                    else:
                        with k.when(found < claim):
                            out.atomic("max", place, claim)
                rest.set(rest & (rest - 1))
            if part == CHECK:
                noted[own] = kept.get()
        if part != spec.parts[-1]:
            cluster_barrier(k)
    return k.build()


__all__ = ["MarkedSpec", "make", "scatter"]
