"""Places of many values in a sorted vector: a search tree, its upper levels in shared memory.

Data layout: the keys of the elements (see `keys`), followed by the greatest key up to whole subtrees; of these every
`fan`-th, of those every `fan`-th, and so on: the tables, whose nodes of `NODE_NBYTES` are a sector each. The last keys
of the subtrees, at most ``2**depth - 1``, are in shared memory in breadth-first order, the children of node ``i`` at
``2 * i`` and ``2 * i + 1``, so that lanes of a warp, at any nodes of a level, read neighbouring banks. Who owns what:
a block every grid's worth of values, a thread `UNROLL` of them, searched side by side. Algorithm: `tables` writes the
tables; `search` descends `depth` levels in shared memory, then reads one node per table. Bytes per value: the value, a
sector of each table, the place. Workspace: the keys, and a share of ``1 / (fan - 1)`` of them more.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.plan import Argument, Launch, Plan, Scratch, Step, Work
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.sort.keys import carrier, words
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i64, u32, u64

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device
    from oxinp._ptx.value import Value

BLOCK = 1024
TABLES_BLOCK = 256
UNROLL = 2
NODE_NBYTES = 32  # a sector: what a cache loads at least
SHARED_NBYTES = 128 * 1024
DEPTHS = (8, 10, 12, 14, 15)  # of the part in shared memory; few, since each is a kernel
MIN_COUNT = 1 << 19  # values for which a tree is built
MIN_SIZE = 128
ELEMENTS_PER_VALUE = 4  # beyond which building takes longer than it saves
MAX_SIZE = 1 << 31
BLOCKS_PER_SM = 8  # that write tables


class SearchTreeSpec(Frozen):
    """The kernel that searches.

    Attributes
    ----------
    type : Type
        Of elements and values, real.
    is_right : bool
        Behind elements that are equal to the value, not before them.
    depth : int
        Levels in shared memory.
    num_tables : int
        Levels below.
    """

    type: Type
    is_right: bool
    depth: int
    num_tables: int


class SearchTablesSpec(Frozen):
    """The kernel that writes tables.

    Attributes
    ----------
    type : Type
        Of elements.
    num_tables : int
        At least 1.
    """

    type: Type
    num_tables: int


def key_type(type_: Type) -> Type:
    """Return the type of keys."""
    return u64 if type_.nbytes == u64.nbytes else u32


def fan_bits(type_: Type) -> int:
    """Return how many keys a node has, as a power of two."""
    return (NODE_NBYTES // key_type(type_).nbytes).bit_length() - 1


def spec_of(size: int, count: int, type_: Type, device: Device, *, is_right: bool) -> SearchTreeSpec | None:
    """Return the Spec for a number of elements and of values, None where a tree does not pay."""
    if type_.is_complex or count < MIN_COUNT or not MIN_SIZE <= size < min(MAX_SIZE, ELEMENTS_PER_VALUE * count):
        return None
    room = min(SHARED_NBYTES, device.max_shared_nbytes) // key_type(type_).nbytes
    depths = [depth for depth in DEPTHS if 1 << depth <= room]
    depth = next((depth for depth in depths if size < 1 << depth), depths[-1])
    return SearchTreeSpec(type_, is_right, depth, num_tables(size, depth, type_))


def num_tables(size: int, depth: int, type_: Type) -> int:
    """Return how many tables the elements need below what is in shared memory."""
    result = 0
    while -(-size >> (result * fan_bits(type_))) > (1 << depth) - (not result):  # the last subtree needs no key above
        result += 1
    return result


def search(size: int, count: int, spec: SearchTreeSpec, device: Device) -> Plan:
    """Return the plan that finds the places, i64, of `count` values, input 1, among `size` sorted elements, input 0."""
    elements, scratch, steps = Argument("in0"), Scratch(), list[Step]()
    bits, nbytes = fan_bits(spec.type), key_type(spec.type).nbytes
    reach = 1 << (bits * spec.num_tables)
    padded = -(-size // reach) * reach
    tables = [scratch.take((padded >> (bits * level)) * nbytes) for level in range(spec.num_tables)]
    if tables:
        blocks = min(-(-padded // TABLES_BLOCK), BLOCKS_PER_SM * device.num_sms)
        work = Work(nbytes=size * spec.type.nbytes + padded * nbytes)
        made = make(SearchTablesSpec(spec.type, spec.num_tables))
        steps.append(Launch(made, (blocks, 1, 1), (elements, *tables), (size, padded), work))
    blocks = min(-(-count // (BLOCK * UNROLL)), device.num_sms)
    work = Work(nbytes=count * (spec.type.nbytes + i64.nbytes))
    arguments = (Argument("out0"), elements, *tables, Argument("in1"))
    steps.append(Launch(make(spec), (blocks, 1, 1), arguments, (size, padded // reach, count), work))
    return scratch.plan(steps)


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: SearchTreeSpec | SearchTablesSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return _search(spec) if isinstance(spec, SearchTreeSpec) else _tables(spec)


def _tables(spec: SearchTablesSpec) -> Kernel:
    k = Builder("search_tables", block=TABLES_BLOCK)
    key, bits = key_type(spec.type), fan_bits(spec.type)
    elements = k.pointer("elements", carrier(spec.type), "r")
    tables = [k.pointer(f"table_{level}", key, "w") for level in range(spec.num_tables)]
    size, padded = k.scalar("size", u32), k.scalar("padded", u32)
    with k.range(k.ctaid * TABLES_BLOCK + k.tid, padded, k.nctaid * TABLES_BLOCK) as number:
        found = _key(k, elements[k.min(number, size - 1)], spec.type)
        found = k.where(number < size, found, _greatest(k, key))
        tables[0][number] = found
        for level, table in enumerate(tables[1:], 1):
            with k.when(((number + 1) & ((1 << (level * bits)) - 1)) == 0):
                table[number >> (level * bits)] = found
    return k.build()


def _search(spec: SearchTreeSpec) -> Kernel:
    k = Builder("search_tree", block=BLOCK, min_blocks=1)
    element, key, bits, depth = carrier(spec.type), key_type(spec.type), fan_bits(spec.type), spec.depth
    out = k.pointer("out", i64, "w")
    elements = k.pointer("elements", element, "r")
    tables = [k.pointer(f"table_{level}", key, "r") for level in range(spec.num_tables)]
    values = k.pointer("values", element, "r")
    size, num_subtrees, count = k.scalar("size", u32), k.scalar("num_subtrees", u32), k.scalar("count", i64)
    nodes = k.dynamic_shared(key, 1 << depth)
    with k.range(k.tid + 1, 1 << depth, BLOCK) as node:
        level = 31 - k.clz(node)
        subtrees = k.shl(2 * node + 1 - k.shl(k.const(2, u32), level), depth - 1 - level)  # up to the node's
        last = k.shl(k.min(subtrees, num_subtrees), bits * spec.num_tables)
        loaded = _key(k, elements[k.min(last, size) - 1], spec.type)
        is_there = (subtrees <= num_subtrees) & (last <= size)
        nodes[node] = k.where(is_there, loaded, _greatest(k, key))
    k.barrier()

    def goes_before(found: Value, wanted: Value) -> Value:
        return k.cast(found <= wanted if spec.is_right else found < wanted, u32)

    share = BLOCK * UNROLL
    with k.range(k.cast(k.ctaid, i64) * share + k.cast(k.tid, i64), count, k.cast(k.nctaid, i64) * share) as first:
        numbers = [first + BLOCK * i if i else first for i in range(UNROLL)]
        wanted = [_key(k, values[k.min(number, count - 1)], spec.type) for number in numbers]
        places = [k.const(1, u32) for _ in numbers]
        for _ in range(depth):
            found = [nodes[place] for place in places]
            places = [
                2 * place + goes_before(each, want) for place, each, want in zip(places, found, wanted, strict=True)
            ]
        places = [place - (1 << depth) for place in places]
        if tables:
            places = [k.min(place, num_subtrees - 1) for place in places]
        for level in reversed(range(spec.num_tables)):
            loaded_nodes = [tables[level].load(k.shl(place, bits), 1 << bits) for place in places]
            behind = [
                [goes_before(each, want) for each in node[: None if level == 0 else -1]]
                for node, want in zip(loaded_nodes, wanted, strict=True)
            ]
            places = [k.shl(place, bits) + sum(each[1:], each[0]) for place, each in zip(places, behind, strict=True)]
        for number, place in zip(numbers, places, strict=True):
            with k.when(number < count):
                out[number] = k.cast(k.min(place, size), i64)
    return k.build()


def _key(k: Builder, bits: Value, type_: Type) -> Value:
    """The key of an element, u32 or u64."""
    parts = words(k, bits, type_)
    return k.pack(*parts) if len(parts) == 2 else parts[0]


def _greatest(k: Builder, key: Type) -> Value:
    return k.const((1 << key.bits) - 1, key)


__all__ = ["SearchTablesSpec", "SearchTreeSpec", "make", "search", "spec_of"]
