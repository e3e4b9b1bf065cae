"""Sums at indices, whatever the order: ``array[index] += values`` of integers, and of f32 and f64 in fixed point.

Data layout: an array of any stride, an index and a value per update. Algorithm: updates are grouped by bucket, see
`buckets`, and those of a bucket added up in shared memory, see `bucket_sums`; sums of integers are added to the array,
those of floats are made of it, too, see `fixed_point`. Where an index is out of bounds nothing is written. Bytes per
update: those of `buckets`, then 2 and value once; per element twice itself.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from oxinp._kernels.index import buckets
from oxinp._kernels.index.bucket_sums import BLOCK, CUT, WHOLE, BucketSums, SumsSpec, words_of
from oxinp._kernels.index.exponents import MANTISSA
from oxinp._kernels.index.fixed_point import FixedPointSums
from oxinp._kernels.plan import Argument, Launch, Plan, Scratch, Work
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.sort.keys import carrier
from oxinp._ptx import Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, f32, f64, i32, i64, u16, u32, u64

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device
    from oxinp._ptx.value import Value

TYPES = (i32, u32, i64, u64, f32, f64)
WORD_BITS = 32
MIN_PIECE = 1 << 16
NUM_PARTS = 64  # that few buckets are cut into, at least
MAX_POINT, MAX_LIMIT = 50, 60
RESERVED_NBYTES = 8192  # of shared memory, for totals
MIN_COUNT = {"i": 1 << 21, "u": 1 << 21, "f": 1 << 17}  # updates from which grouping pays
MIN_EXTENT = {"i": 1, "u": 1, "f": 256}  # below which lanes wait for each other; for atomics in memory they wait longer
ELEMENTS_EACH = {"i": 2, "u": 2, "f": 4}  # per update, up to which it does


def shift_of(count: int, extent: int, type_: Type, device: Device) -> int | None:
    """Return the elements of a bucket, as a power of two; None where sums are found in another way."""
    if type_ not in TYPES or not 0 < count < buckets.MAX_COUNT or extent >= 1 << 31:
        return None
    kind = type_.kind
    if count < MIN_COUNT[kind] or not MIN_EXTENT[kind] <= extent <= ELEMENTS_EACH[kind] * count:
        return None
    room = (device.max_shared_nbytes - RESERVED_NBYTES) // (words_of(type_) * u32.nbytes)
    return buckets.shift_of(extent, room.bit_length() - 1)


def add(
    count: int, extent: int, stride: int, shift: int, type_: Type, index_type: Type, *, is_scalar: bool, piece: int = 0,
    items: int = 0, wraps: bool = True, status: Argument = buckets.STATUS,
) -> Plan:  # fmt: skip
    """Return the plan of ``array[index] += values``.

    The output is the array; the inputs are index, values in C order and as a rule the address for a report.

    Parameters
    ----------
    count : int
        Of updates.
    extent, stride : int
        Of what is indexed.
    shift : int
        Elements of a bucket, see `shift_of`.
    type_, index_type : Type
    is_scalar : bool
        The second input is a number, given as the bits of an element.
    piece : int, optional
        Updates from which a bucket is cut.
    items : int, optional
        Updates that a thread groups.
    wraps : bool, optional
        Negative indices count from the end; else they are out of bounds.
    status : Argument, optional
        The address for a report.
    """
    scratch, size = Scratch(), 1 << shift
    value = None if is_scalar else carrier(type_)
    piece = piece or max(MIN_PIECE, 2 * -(-count // max(-(-extent // size), NUM_PARTS)))
    most = count // piece  # parts beside the first ones of buckets, so many buckets are cut at most
    codes = scratch.take(most * (size + 1) * u32.nbytes) if type_.is_float else None
    has_extremes = type_.is_float and not is_scalar
    grouped = buckets.group(
        count, extent, shift, index_type, value, scratch, items, has_extremes=has_extremes, zeros=codes, wraps=wraps,
        status=status,
    )  # fmt: skip
    given = (Argument("in1"),) if is_scalar else (grouped.values,)
    shared = (Argument("out0"), grouped.flag, grouped.keys, grouped.starts, grouped.totals)
    fixed = (extent, stride, shift, grouped.number, grouped.num_tiles, piece)
    spec = SumsSpec(type_, size, is_scalar, WHOLE, grouped.tile)
    grid = (grouped.number + most, 1, 1)
    nbytes = u16.nbytes + (0 if is_scalar else type_.nbytes)
    work = Work(nbytes=count * nbytes + 2 * extent * type_.nbytes)
    if codes is None:
        return scratch.plan([*grouped.steps, Launch(make(spec), grid, (*shared, *given), fixed, work)])
    bits = (count + 1).bit_length()  # which sums need more than addends
    point = min(MAX_POINT, 61 - bits)
    limit = min(MAX_LIMIT, WORD_BITS * words_of(type_) - 1 - (MANTISSA[carrier(type_)] + 1) - bits)
    sums = scratch.take(max(1, most) * size * 2 * u64.nbytes)
    joined = Argument("scratch", codes.offset + most * size * u32.nbytes)
    arguments = (*shared, grouped.extremes, codes, sums, joined, *given)
    parts = (WHOLE, CUT) if most else (WHOLE,)
    launches = [Launch(make(spec.replace(part=part)), grid, arguments, (*fixed, point, limit), work) for part in parts]
    return scratch.plan([*grouped.steps, *launches])


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: SumsSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return (FixedPointSums if spec.is_float else _Integers)(spec).build()


class _Integers(BucketSums):
    """The kernel of integers."""

    def work(self, bucket: Value, part: Value, parts: Value, slot: Value) -> None:
        del slot
        k, type_ = self.k, self.spec.type
        own, size = self.elements(bucket)
        with k.range(k.tid, size, BLOCK) as element:
            for word in self.words:
                word[element] = 0
        k.barrier()
        unsigned = u32 if type_.nbytes == u32.nbytes else u64

        def words(value: Any) -> list[Value]:
            bits = k.bitcast(value, unsigned)
            return [bits] if unsigned is u32 else list(k.unpack(bits))

        self.add_up(bucket, part, parts, words)
        k.barrier()
        sums = own.view(unsigned)
        with k.range(k.tid, size, BLOCK) as element:
            parts_of = [word[element] for word in self.words]
            total = parts_of[0] if unsigned is u32 else k.pack(*parts_of)
            with k.when(total != 0):
                sums.atomic("add", k.cast(element, i64) * self.stride, total)


__all__ = ["CUT", "TYPES", "WHOLE", "SumsSpec", "add", "make", "shift_of"]
