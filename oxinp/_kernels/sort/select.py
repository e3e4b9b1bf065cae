"""Order statistics of long rows: the elements of some ranks, by their digits from the most significant one on.

Data layout: rows of elements, one after the other; per row and rank the digits found so far, as a prefix of a key, and
how many keys with that prefix go before the one that is looked for. Who owns what: a block of `count` a share of a row,
a block of `pick` a row. Algorithm (radix selection): for each digit `count` counts the digits of the elements whose
higher ones are those found, in as many copies as fit into shared memory, which lanes take in turns; ranks that have
found the same digits share a count. `pick` finds the digit by which the counts pass the rank. `zeros` looks, only where
a rank has found zero, for a zero of positive sign: both are one key. Bytes per element: the element, once per digit.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp._kernels.plan import Argument, Fill, Launch, Plan, Scratch, Step, Work
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.sort.keys import DIGIT_BITS, HALF_SIGN, NUM_BINS, SIGN, carrier, num_digits, words
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i64, pred, u32, u64
from oxinp._ptx.warp import WARP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.choice import Device
    from oxinp._ptx.value import Value

BLOCK = 256
ITEMS = 8
SHARED_NBYTES = 32 * 1024
MAX_COPIES = 8
MAX_RANKS = 8
MAX_ROWS = 1024
BLOCKS_PER_SM = 6

BEGIN, COUNT, PICK, ZEROS, FINISH = "begin", "count", "pick", "zeros", "finish"


class SelectRanksSpec(Frozen):
    """One kernel of the family.

    Attributes
    ----------
    part : str
        One of the constants above.
    type : Type
        Of elements, real.
    num_ranks : int
        Up to `MAX_RANKS`.
    """

    part: str
    type: Type
    num_ranks: int


def select(num_rows: int, length: int, ranks: Sequence[int], type_: Type, device: Device) -> Plan:
    """Return the plan that finds the elements of some ranks of every row; the input is the array.

    The output is (ranks, rows).

    Parameters
    ----------
    num_rows, length : int
        At least 1 each, and at most `MAX_ROWS` rows.
    ranks : sequence of int
        From 0 to ``length - 1``, at most `MAX_RANKS`.
    type_ : Type
        Real.
    device : Device
    """
    count = len(ranks)
    scratch = Scratch()
    found = search(num_rows, length, ranks, type_, device, scratch)
    steps, rows = found.steps, (num_rows, 1, 1)
    pluses = scratch.take(num_rows * u32.nbytes)
    if type_.is_float:
        steps.append(Fill(pluses, num_rows * u32.nbytes, 0))
        zeros = make(SelectRanksSpec(ZEROS, type_, count))
        grid = (num_rows * found.blocks, 1, 1)
        steps.append(Launch(zeros, grid, (Argument("in0"), found.state, pluses), (length, found.blocks)))
    finish = make(SelectRanksSpec(FINISH, type_, count))
    steps.append(Launch(finish, rows, (Argument("out0"), found.state, pluses), (num_rows,)))
    return scratch.plan(steps)


class Search(NamedTuple):
    """Steps that find elements by their ranks.

    Attributes
    ----------
    steps : list of Step
        Their input is the array.
    state : Argument
        Per row and rank: the key that was found, and how many equal ones go before the one that is looked for, u64.
    blocks : int
        That go through a row.
    """

    steps: list[Step]
    state: Argument
    blocks: int


def search(num_rows: int, length: int, ranks: Sequence[int], type_: Type, device: Device, scratch: Scratch) -> Search:
    """Return the steps that find the keys of some ranks of every row; see `select`."""
    count = len(ranks)
    state = scratch.take(num_rows * count * 2 * u64.nbytes)
    counts = scratch.take(num_rows * count * NUM_BINS * u64.nbytes)
    blocks = max(1, min(-(-length // (BLOCK * ITEMS)), -(-BLOCKS_PER_SM * device.num_sms // num_rows)))
    grid, rows = (num_rows * blocks, 1, 1), (num_rows, 1, 1)
    made = {part: make(SelectRanksSpec(part, type_, count)) for part in (BEGIN, COUNT, PICK)}
    work = Work(nbytes=num_rows * length * type_.nbytes)
    steps: list[Step] = [
        Fill(counts, num_rows * count * NUM_BINS * u64.nbytes, 0),
        Launch(made[BEGIN], rows, (state,), tuple(ranks)),
    ]
    for digit in reversed(range(num_digits(type_))):
        shift = digit * DIGIT_BITS
        steps.append(Launch(made[COUNT], grid, (Argument("in0"), state, counts), (length, blocks, shift), work))
        steps.append(Launch(made[PICK], rows, (state, counts), (shift,)))
    return Search(steps, state, blocks)


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: SelectRanksSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return {BEGIN: _begin, COUNT: _count, PICK: _pick, ZEROS: _zeros, FINISH: _finish}[spec.part](spec)


def _begin(spec: SelectRanksSpec) -> Kernel:
    k = Builder("select_begin", block=WARP)
    state = k.pointer("state", u64, "w")
    ranks = [k.scalar(f"rank{i}", u64) for i in range(spec.num_ranks)]
    for i, rank in enumerate(ranks):
        with k.when(k.tid == i):
            at = (k.ctaid * spec.num_ranks + i) * 2
            state[at] = k.const(0, u64)
            state[at + 1] = rank
    return k.build()


def key_of(k: Builder, bits: Value, type_: Type) -> Value:
    """Return an element's key as one word, u32 or u64."""
    found = words(k, bits, type_)
    return found[0] if len(found) == 1 else k.pack(*found)


def _prefixes(k: Builder, state: Any, row: Value, spec: SelectRanksSpec, word: Type) -> list[Value]:
    """What the ranks of a row have found."""
    first = row * spec.num_ranks
    return [k.cast(state[(first + i) * 2], word) for i in range(spec.num_ranks)]


class _Shares:
    """A block's share of a row, in a kernel."""

    def __init__(self, k: Builder, spec: SelectRanksSpec) -> None:
        self.k = k
        self.length, self.blocks = k.scalar("length", i64), k.scalar("blocks_per_row", u32)
        self.row = k.ctaid / self.blocks
        self._block = k.ctaid - self.row * self.blocks
        self._spec = spec

    def go_through(self, elements: Any, use: Any) -> None:
        """Call `use` with the bits of elements, `ITEMS` of a thread loaded before the first is used."""
        k, step = self.k, BLOCK * ITEMS
        own = elements.at(k.cast(self.row, i64) * self.length)
        at = k.var(k.cast(self._block, i64) * step + k.cast(k.tid, i64))
        with k.loop():
            k.break_if(at + (step - BLOCK) >= self.length)
            for bits in [own[at + i * BLOCK] for i in range(ITEMS)]:
                use(bits)
            at.set(at + k.cast(self.blocks, i64) * step)
        with k.range(at.get(), self.length, BLOCK) as last:
            use(own[last])


def _count(spec: SelectRanksSpec) -> Kernel:
    k = Builder("select_count", block=BLOCK)
    elements = k.pointer("elements", carrier(spec.type), "r")
    state, counts = k.pointer("state", u64, "r"), k.pointer("counts", u64)
    shares = _Shares(k, spec)
    shift = k.scalar("shift", u32)
    word, num = (u64 if spec.type.nbytes == u64.nbytes else u32), spec.num_ranks
    copies = MAX_COPIES
    while copies > 1 and copies * num * NUM_BINS * u32.nbytes > SHARED_NBYTES:
        copies //= 2
    bins = k.dynamic_shared(u32, num * NUM_BINS * copies)
    with k.range(k.tid, num * NUM_BINS * copies, BLOCK) as place:
        bins[place] = 0
    prefixes = [k.shr(k.shr(p, shift), DIGIT_BITS) for p in _prefixes(k, state, shares.row, spec, word)]
    is_own = [_is_new(prefixes, i) for i in range(num)]
    k.barrier()
    own = bins.at(k.lane & (copies - 1))

    def use(bits: Value) -> None:
        moved = k.shr(key_of(k, bits, spec.type), shift)
        digit, rest = k.cast(moved & (NUM_BINS - 1), u32), k.shr(moved, DIGIT_BITS)
        for i, prefix in enumerate(prefixes):
            matches = rest == prefix
            with k.when(matches if is_own[i] is None else matches & is_own[i]):
                own.atomic("add", (digit + i * NUM_BINS) * copies, 1, order="relaxed.cta")

    shares.go_through(elements, use)
    k.barrier()
    target = counts.at(k.cast(shares.row, i64) * (num * NUM_BINS))
    for i in range(num):
        found = bins[(k.tid + i * NUM_BINS) * copies]
        for copy in range(1, copies):
            found = found + bins[(k.tid + i * NUM_BINS) * copies + copy]
        with k.when(found != 0):
            target.atomic("add", k.tid + i * NUM_BINS, k.cast(found, u64))
    return k.build()


def _is_new(prefixes: list[Value], number: int) -> Any:
    """Whether a rank has found other digits than all before it; None for the first one."""
    result = None
    for other in prefixes[:number]:
        differs = prefixes[number] != other
        result = differs if result is None else result & differs
    return result


def _pick(spec: SelectRanksSpec) -> Kernel:
    k = Builder("select_pick", block=NUM_BINS)
    state, counts = k.pointer("state", u64), k.pointer("counts", u64)
    shift = k.scalar("shift", u32)
    num, num_warps = spec.num_ranks, NUM_BINS // WARP
    totals = k.shared(u64, (num, num_warps))
    prefixes = _prefixes(k, state, k.ctaid, spec, u64)
    found = counts.at(k.ctaid * (num * NUM_BINS))
    loaded = [found[k.tid + i * NUM_BINS] for i in range(num)]
    own: list[Value] = []  # of every rank, by the first one that has found the same
    for i in range(num):
        value = loaded[i]
        for j in reversed(range(i)):
            value = k.where(prefixes[i] == prefixes[j], loaded[j], value)
        own.append(value)
    left = [state[(k.ctaid * num + i) * 2 + 1] for i in range(num)]
    through = []
    for i, count in enumerate(own):
        value, distance = count, 1
        while distance < WARP:
            value = value + k.where(k.lane >= distance, k.shfl_up(value, distance), k.const(0, u64))
            distance *= 2
        through.append(value)
        with k.when(k.lane == WARP - 1):
            totals[i, k.warp] = value
        found[k.tid + i * NUM_BINS] = k.const(0, u64)
    k.barrier()
    digit = k.cast(k.tid, u64)
    for i, (count, value) in enumerate(zip(own, through, strict=True)):
        before = value - count
        for w in range(num_warps - 1):
            before = before + k.where(k.warp > w, totals[i, w], k.const(0, u64))
        with k.when((before <= left[i]) & (left[i] < before + count)):
            at = (k.ctaid * num + i) * 2
            state[at] = prefixes[i] | k.shl(digit, shift)
            state[at + 1] = left[i] - before
    return k.build()


def _zero_key(type_: Type) -> int:
    return {2: HALF_SIGN, 4: SIGN, 8: 1 << 63}[type_.nbytes]


def _zeros(spec: SelectRanksSpec) -> Kernel:
    k = Builder("select_zeros", block=BLOCK)
    elements = k.pointer("elements", carrier(spec.type), "r")
    state, pluses = k.pointer("state", u64, "r"), k.pointer("pluses", u32)
    shares = _Shares(k, spec)
    zero = k.const(_zero_key(spec.type), u64)
    wanted = None
    for prefix in _prefixes(k, state, shares.row, spec, u64):
        is_zero = prefix == zero
        wanted = is_zero if wanted is None else wanted | is_zero
    assert wanted is not None

    def use(bits: Value) -> None:
        with k.when(bits == k.const(0, bits.type)):
            pluses.store(shares.row, [k.const(1, u32)], order="relaxed.gpu")

    with k.when(wanted):
        shares.go_through(elements, use)
    return k.build()


def _finish(spec: SelectRanksSpec) -> Kernel:
    k = Builder("select_finish", block=WARP)
    bits = carrier(spec.type)
    out = k.pointer("out", bits, "w")
    state, pluses = k.pointer("state", u64, "r"), k.pointer("pluses", u32, "r")
    num_rows = k.scalar("num_rows", u32)
    with k.when(k.tid < spec.num_ranks):
        key = state[(k.ctaid * spec.num_ranks + k.tid) * 2]
        found = _element(k, key, spec.type)
        if spec.type.is_float:
            is_minus = (key == _zero_key(spec.type)) & (pluses[k.ctaid] == 0)
            found = k.where(is_minus, k.const(_zero_key(spec.type), u64), found)
        out[k.tid * num_rows + k.ctaid] = k.cast(found, bits)
    return k.build()


def _element(k: Builder, key: Value, type_: Type) -> Value:
    """The bits of the element of a key, u64; of zeros the positive one."""
    width = 8 * type_.nbytes
    sign, ones = 1 << (width - 1), (1 << width) - 1
    if type_.kind == "i":
        return key ^ k.const(sign, u64)
    if not type_.is_float:
        assert type_ is pred or type_.kind == "u"
        return key
    is_positive = (key & k.const(sign, u64)) != k.const(0, u64)
    return key ^ k.where(is_positive, k.const(sign, u64), k.const(ones, u64))


__all__ = ["MAX_RANKS", "MAX_ROWS", "Search", "SelectRanksSpec", "key_of", "make", "search", "select"]
