"""Loads, stores, atomics, and what the emulator says about bad ones."""
# ruff: noqa: ARG001  (the bodies of trials share one signature)

import struct

import numpy as np
import pytest

from oxinp._ptx import Builder, emulate
from oxinp._ptx.emulate import AccessError, Memory, RaceError
from oxinp._ptx.types import ALL, bf16, f16, f32, f64, i8, i32, i64, pred, u8, u16, u32, u64
from tests.comparator import assert_same
from tests.ptx.launch import launch
from tests.ptx.specimens import specimens

# -- what works


@pytest.mark.parametrize("type", ALL, ids=repr)
@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
def test_vectors_of_every_type(type, width):
    k = Builder("copy", block=16)
    out, x = k.pointer("out", type, "w"), k.pointer("x", type, "r")
    values = x.load(k.tid * width, width)
    out.store(k.tid * width, reversed(values))
    source = specimens(type)[: 16 * width]
    result = np.zeros_like(source)
    launch(k.build(), result, source)
    assert_same(result, source.reshape(16, width)[:, ::-1].reshape(-1))


@pytest.mark.parametrize("block", [1, 32])
def test_what_has_been_loaded_stays_what_it_was(block):
    k = Builder("swap", block=block)
    pairs = k.shared(f64, 2 * block)
    out, x = k.pointer("out", f64, "w"), k.pointer("x", f64, "r")
    pairs.store(k.tid * 2, x.load(k.tid * 2, 2))
    first, second = pairs.load(k.tid * 2, 2)
    pairs[k.tid * 2] = second
    pairs[k.tid * 2 + 1] = first
    out.store(k.tid * 2, pairs.load(k.tid * 2, 2))
    source = np.arange(2.0 * block)
    result = np.zeros_like(source)
    launch(k.build(), result, source)
    assert_same(result, source.reshape(-1, 2)[:, ::-1].reshape(-1))


@pytest.mark.parametrize("index_type", [u8, u16, i32, u32, i64, u64], ids=repr)
def test_index_types(index_type):
    k = Builder("gather", block=32)
    out, x, index = k.pointer("out", f64, "w"), k.pointer("x", f64, "r"), k.pointer("index", index_type, "r")
    out[k.tid] = x[index[k.tid]]
    rng = np.random.default_rng(0)
    indices = rng.integers(0, 100, 32).astype(index_type.dtype)
    x = rng.random(100)
    result = np.zeros(32)
    launch(k.build(), result, x, indices)
    assert_same(result, x[indices])


def test_negative_indices_and_moved_pointers():
    k = Builder("moves", block=8)
    out, x = k.pointer("out", i32, "w"), k.pointer("x", i32, "r")
    i = k.cast(k.tid, i32)
    middle = x.at(10)
    value = middle[-i] + middle[-1] * 100 + x.at(i)[2] * 10000 + x.offset_bytes(12)[0] * 1000000
    out[i] = value + k.cast(x.view(u8).at(4)[0], i32) * 100000000
    result = np.zeros(8, np.int32)
    launch(k.build(), result, np.arange(20, dtype=np.int32))
    assert result.tolist() == [10 - i + 900 + (i + 2) * 10000 + 3000000 + 100000000 for i in range(8)]


def test_address_is_a_number():
    k = Builder("address", block=1)
    out, x = k.pointer("out", u64, "w"), k.pointer("x", f64, "r")
    out[0] = x.address(3) - x.address()
    result = np.zeros(1, np.uint64)
    launch(k.build(), result, np.zeros(4))
    assert result[0] == 24


def test_masked_accesses_touch_only_their_lanes():
    k = Builder("masked", block=64)
    out, x = k.pointer("out", f32), k.pointer("x", f32, "r")
    with k.when(k.tid % 3 == 0):
        out[k.tid] = x[k.tid] + 1
    result, x = np.full(64, -1, "f4"), np.arange(64, dtype="f4")
    launch(k.build(), result, x)
    assert_same(result, np.where(np.arange(64) % 3 == 0, x + 1, np.float32(-1)))


def test_shared_arrays_of_blocks_are_apart():
    k = Builder("reverse", block=32)
    out = k.pointer("out", u32, "w")
    tile, other = k.shared(u32, (4, 8)), k.dynamic_shared(u32, 32)
    tile[k.tid / 8, k.tid % 8] = k.tid + k.ctaid * 100
    other[k.tid] = k.tid
    k.barrier()
    out[k.ctaid * 32 + k.tid] = tile[31 - k.tid] * 100 + other[31 - k.tid]
    result = np.zeros(96, np.uint32)
    launch(k.build(), result, grid=3)
    assert result.reshape(3, 32).tolist() == [[(31 - i + b * 100) * 100 + 31 - i for i in range(32)] for b in range(3)]


@pytest.mark.parametrize("name", ["add", "min", "max", "and", "or", "xor"])
@pytest.mark.parametrize("type", [u32, u64], ids=repr)
def test_atomics_act_lane_after_lane(name, type):
    function = {
        "add": np.add,
        "min": np.minimum,
        "max": np.maximum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }[name]
    k = Builder("atomics", block=64)
    cells, x = k.pointer("cells", type), k.pointer("x", type, "r")
    old = k.pointer("old", type)
    with k.when(k.tid % 5 != 0):
        old[k.tid] = cells.atomic(name, k.tid % 3, x[k.tid])
    start, x = specimens(type)[100:103], specimens(type, 1)[:64]
    cells, olds = start.copy(), np.zeros(64, type.dtype)
    launch(k.build(), cells, x, olds)
    model, model_old = start.copy(), np.zeros(64, type.dtype)
    for i in range(64):
        if i % 5:
            model_old[i] = model[i % 3]
            model[i % 3] = function(model[i % 3], x[i])
    assert_same(cells, model)
    assert_same(olds, model_old)


def test_atomic_floats_exchange_and_swap():
    k = Builder("atomics", block=64)
    total, chain, lock = k.pointer("total", f32), k.pointer("chain", u32), k.pointer("lock", u32)
    old = k.pointer("old", u32, "w")
    total.atomic("add", 0, k.cast(k.tid, f32) * 0.1)
    old[k.tid] = chain.atomic("exch", 0, k.tid)
    lock.atomic("cas", 0, k.tid + 1, compare=k.tid)
    sums, chain, lock, old = np.zeros(1, "f4"), np.full(1, 99, "u4"), np.zeros(1, "u4"), np.zeros(64, "u4")
    launch(k.build(), sums, chain, lock, old)
    model = np.float32(0)
    for i in range(64):
        model += np.float32(i) * np.float32(0.1)
    assert sums[0] == model
    assert old.tolist() == [99, *range(63)]
    assert chain[0] == 63
    assert lock[0] == 64


# -- what does not


def faulty(body, *arrays, block=64, grid=1, memory=None):
    """Run ``body(k, pointers)`` and return the error it ends in."""
    k = Builder("faulty", block=block)
    pointers = [k.pointer(f"p{i}", f32 if a.dtype == np.float32 else u32) for i, a in enumerate(arrays)]
    body(k, *pointers)
    with pytest.raises(emulate.EmulationError) as caught:
        launch(k.build(), *arrays, grid=grid, memory=memory)
    return caught.value


def floats(num):
    return np.zeros(num, np.float32)


@pytest.mark.parametrize("is_store", [False, True])
@pytest.mark.parametrize("is_masked", [False, True])
def test_out_of_bounds(is_store, is_masked):
    def body(k, x):
        i = k.ctaid * k.ntid + k.tid
        with k.when(i < (61 if is_masked else 1000)):
            if is_store:
                x[i] = 1.0
            else:
                x.store(0, x.load(i)) if is_masked else x.load(i)

    error = faulty(body, floats(60), block=32, grid=2)
    assert isinstance(error, AccessError)
    assert "kernel faulty" in str(error)
    assert ("st.global.f32" if is_store else "ld.global.f32") in str(error)
    assert "thread (28, 0, 0) of block (1, 0, 0)" in str(error)
    assert f"{Memory.BASE + 240:#x}: out of bounds" in str(error)


@pytest.mark.parametrize("offset", [-1, -100000000, 100000000, 2**40])
def test_far_out_of_bounds(offset):
    error = faulty(lambda k, x: x.at(k.const(offset, i64))[k.tid], floats(64))
    assert "out of bounds" in str(error)


def test_strided_out_of_bounds():
    error = faulty(lambda k, x: x[k.tid * 2], floats(100))
    assert "thread (50, 0, 0)" in str(error)


def test_misaligned():
    error = faulty(lambda k, x: x.load(k.tid + 1, width=2), floats(100))
    assert isinstance(error, AccessError)
    assert "thread (0, 0, 0) of block (0, 0, 0), address" in str(error)
    assert "misaligned: not a multiple of 8" in str(error)
    assert "ld.global.v2.f32" in str(error)


def test_misaligned_bytes():
    error = faulty(lambda k, x: x.offset_bytes(k.tid)[0], floats(100))
    assert "thread (1, 0, 0)" in str(error)


def test_uninitialised_global():
    memory = Memory(1 << 16)
    k = Builder("reader", block=32)
    x = k.pointer("x", f32)
    x[k.tid + 32] = x[k.tid]
    address = memory.allocate(256)
    memory.write(address, np.zeros(31, np.float32))
    with pytest.raises(AccessError, match=r"thread \(31, 0, 0\) .*: uninitialised"):
        emulate.run(k.build(), memory, 1, struct.pack("<Q", address))


def test_one_uninitialised_byte_of_a_word():
    memory = Memory(1 << 16)
    address = memory.allocate(16)
    memory.write(address, np.zeros(15, np.uint8))
    k = Builder("reader", block=1)
    k.pointer("x", f32, "r").load(0, width=4)
    with pytest.raises(AccessError, match="uninitialised"):
        emulate.run(k.build(), memory, 1, struct.pack("<Q", address))


def test_uninitialised_may_be_allowed():
    memory = Memory(1 << 16, checks_initialised=False)
    k = Builder("reader", block=1)
    x = k.pointer("x", u8)
    x[1] = x[0]
    address = memory.allocate(16)
    emulate.run(k.build(), memory, 1, struct.pack("<Q", address))
    assert memory.read(address, 2).tolist() == [0xA5, 0xA5]


def test_uninitialised_shared():
    def body(k, x):
        tile = k.shared(f32, 64)
        with k.when(k.tid != 5):
            tile[k.tid] = 1.0
        k.barrier()
        x[k.tid] = tile[k.tid]

    error = faulty(body, floats(64))
    assert "ld.shared.f32" in str(error)
    assert "thread (5, 0, 0)" in str(error)
    assert "uninitialised" in str(error)


@pytest.mark.parametrize("index", [64, -1, 1 << 20])
def test_out_of_shared_memory(index):
    def body(k, x):
        k.shared(f32, 8)
        tile = k.shared(f32, 64)
        k.shared(f32, 8)
        tile.at(k.const(index, i32))[0] = k.cast(k.tid, f32)

    error = faulty(body, floats(64), block=1, grid=2)
    assert isinstance(error, AccessError)


# -- races


def test_race_in_shared_memory_needs_a_barrier():
    def body(k, x, has_barrier=False):
        tile = k.shared(f32, 64)
        tile[k.tid] = k.cast(k.tid, f32)
        if has_barrier:
            k.barrier()
        x[k.tid] = tile[63 - k.tid]

    error = faulty(body, floats(64))
    assert isinstance(error, RaceError)
    assert "read after write" in str(error)
    assert "ld.shared.f32" in str(error)
    assert "thread (0, 0, 0) of block (0, 0, 0)" in str(error)
    assert "by thread (63, 0, 0) of block (0, 0, 0)" in str(error)
    k = Builder("right", block=64)
    body(k, k.pointer("x", f32), has_barrier=True)
    result = floats(64)
    launch(k.build(), result)
    assert result.tolist() == list(range(63, -1, -1))


def test_write_after_read_in_shared_memory():
    def body(k, x):
        tile = k.shared(f32, 64)
        tile[k.tid] = 1.0
        k.barrier()
        value = tile[(k.tid + 1) % 64]
        tile[k.tid] = value + 1

    error = faulty(body, floats(64))
    assert "write after read" in str(error)


@pytest.mark.parametrize("stride", [0, 1])
def test_two_lanes_write_one_element(stride):
    error = faulty(lambda k, x: x.store(k.tid * stride >> 1, [k.cast(k.tid, f32)]), floats(64))
    assert isinstance(error, RaceError)
    assert "write after write" in str(error)


def test_race_between_blocks_is_not_healed_by_barriers():
    def body(k, x):
        i = k.ctaid * k.ntid + k.tid
        x[i] = 1.0
        k.barrier()
        x[(i + 32) % 64] = x[(i + 32) % 64] + 1

    error = faulty(body, floats(64), block=32, grid=2)
    assert isinstance(error, RaceError)


def test_barrier_orders_global_memory_within_a_block():
    k = Builder("right", block=64)
    x = k.pointer("x", f32)
    i = k.ctaid * k.ntid + k.tid
    x[i] = k.cast(k.tid, f32)
    k.barrier()
    other = x[k.ctaid * k.ntid + (63 - k.tid)]
    k.barrier()
    x[i] = other
    result = floats(128)
    launch(k.build(), result, grid=2)
    assert result.tolist() == list(range(63, -1, -1)) * 2


def test_in_place_with_a_shift_is_a_race():
    def body(k, x):
        with k.when(k.tid < 63):
            x[k.tid] = x[k.tid + 1]

    error = faulty(body, floats(64))
    assert "write after read" in str(error)


def test_in_place_in_wider_pieces_is_none():
    k = Builder("right", block=16)
    x = k.pointer("x", f32)
    values = x.load(k.tid * 4, width=4)
    for j in range(4):
        x[k.tid * 4 + j] = values[3 - j]
    result = np.arange(64, dtype="f4")
    launch(k.build(), result)
    assert_same(result, np.arange(64, dtype="f4").reshape(16, 4)[:, ::-1].reshape(-1))


@pytest.mark.parametrize("writer", [0, 1, 40, 63])
def test_many_readers_of_one_element(writer):
    """Whoever of the readers writes, it has read beside others."""

    def body(k, x):
        value = x[0]
        with k.when(k.tid == writer):
            x[0] = value + 1

    assert "write after read" in str(faulty(body, floats(64)))


@pytest.mark.parametrize("is_same_block", [True, False])
def test_readers_one_after_the_other(is_same_block):
    """The second reader writes: the first one's read is not forgotten."""

    def body(k, x):
        i = k.ctaid * k.ntid + k.tid
        with k.when(i == 0):
            x.load(0)
        with k.when(i == (1 if is_same_block else 32)):
            x[0] = x[0] + 1

    error = faulty(body, floats(1), block=32, grid=1 if is_same_block else 2)
    assert "write after read" in str(error)


def test_readers_of_one_block_and_a_barrier():
    k = Builder("right", block=64)
    x = k.pointer("x", f32)
    value = x[k.ctaid] + x[k.ctaid]
    k.barrier()
    with k.when(k.tid == 7):
        x[k.ctaid] = value
    result = np.ones(3, "f4")
    launch(k.build(), result, grid=3)
    assert result.tolist() == [2, 2, 2]


def test_permuted_reads_and_writes():
    """Ends where a contiguous access has them, and another order between."""
    k = Builder("permute", block=64)
    out, x, to = k.pointer("out", f32), k.pointer("x", f32), k.pointer("to", u32)
    out[to[k.tid]] = x[to[k.tid]] + k.cast(k.tid, f32)
    order = np.r_[0, np.random.default_rng(0).permutation(62) + 1, 63].astype("u4")
    result, x = floats(64), np.arange(64, dtype="f4") * 100
    launch(k.build(), result, x, order)
    wanted = floats(64)
    wanted[order] = x[order] + np.arange(64, dtype="f4")
    assert_same(result, wanted)


def test_warp_synchronisation_orders_a_warp_only():
    def body(k, x, distance=1):
        tile = k.shared(f32, 64)
        tile[k.tid] = k.cast(k.tid, f32)
        k.warp_sync()
        x[k.tid] = tile[k.tid ^ distance]

    k = Builder("right", block=64)
    body(k, k.pointer("x", f32))
    result = floats(64)
    launch(k.build(), result)
    assert result.tolist() == [i ^ 1 for i in range(64)]
    assert isinstance(faulty(lambda k, x: body(k, x, 32), floats(64)), RaceError)


def test_later_launches_see_earlier_writes():
    k = Builder("neighbour", block=64)
    out, x = k.pointer("out", f32), k.pointer("x", f32)
    out[k.tid] = x[(k.tid + 1) % 64]
    built = k.build()
    memory = Memory(1 << 16)
    a, b = memory.allocate(256), memory.allocate(256)
    memory.write(a, np.arange(64, dtype="f4"))
    for _ in range(3):
        emulate.run(built, memory, 1, struct.pack("<QQ", b, a))
        emulate.run(built, memory, 1, struct.pack("<QQ", a, b))
    assert memory.read(a, 256).view("f4").tolist() == [(i + 6) % 64 for i in range(64)]


def test_many_ranges_are_still_checked():
    """More accesses than are noted as ranges before bytes are tagged."""

    def body(k, x):
        with k.range(0, 100) as j:
            x[k.cast(j, u32) * 64 + k.tid] = 1.0
        x[k.tid ^ 1] = 2.0

    assert isinstance(faulty(body, floats(6400)), RaceError)


# -- the memory itself


def test_allocations_are_apart_and_come_back():
    memory = Memory(1 << 14)
    addresses = [memory.allocate(n) for n in (0, 1, 255, 256, 257, 5000)]
    assert all(address % 256 == 0 for address in addresses)
    assert memory.allocated_nbytes == 5769
    for address in addresses[::2] + addresses[1::2]:
        memory.free(address)
    assert memory.allocated_nbytes == 0
    assert memory.allocate((1 << 14) - Memory.GUARD) == addresses[0]


def test_memory_grows_and_keeps_what_it_holds():
    memory = Memory(1 << 12)
    first = memory.allocate(1000)
    memory.write(first, np.arange(250, dtype="i4"))
    big = memory.allocate(1 << 20)
    memory.write(big, np.ones(1 << 20, np.uint8))
    assert_same(memory.read(first, 1000).view("i4"), np.arange(250, dtype="i4"))


def test_memory_has_a_limit():
    memory = Memory(1 << 12, limit=1 << 16)
    memory.allocate(1 << 14)
    with pytest.raises(MemoryError, match=r"asked for .* bytes, 16384 of 65536 are in use"):
        memory.allocate(1 << 16)
    memory.allocate(1 << 14)


def test_freed_memory_is_out_of_bounds():
    memory = Memory(1 << 14)
    address = memory.allocate(128)
    memory.write(address, bytes(128))
    memory.free(address)
    with pytest.raises(ValueError, match="one allocation"):
        memory.read(address, 128)
    with pytest.raises(ValueError, match="not the start of an allocation"):
        memory.free(address)
    k = Builder("reader", block=1)
    k.pointer("x", f32, "r")[0]
    with pytest.raises(AccessError, match="out of bounds"):
        emulate.run(k.build(), memory, 1, struct.pack("<Q", address))


def test_fresh_memory_is_poisoned():
    memory = Memory(1 << 14)
    address = memory.allocate(16)
    memory.write(address, bytes(16))
    memory.free(address)
    assert set(memory.read(memory.allocate(16), 16).tolist()) == {0xA5}


def test_copies_keep_what_is_uninitialised():
    memory = Memory(1 << 14)
    a, b = memory.allocate(64), memory.allocate(64)
    memory.write(a, bytes(range(32)))
    memory.copy(b, a, 64)
    k = Builder("reader", block=1)
    x = k.pointer("x", u8, "r")
    x[31]
    x[32]
    with pytest.raises(AccessError, match=rf"{b + 32:#x}: uninitialised"):
        emulate.run(k.build(), memory, 1, struct.pack("<Q", b))


@pytest.mark.parametrize("action", ["read", "write", "copy"])
def test_host_accesses_are_checked(action):
    memory = Memory(1 << 14)
    a, b = memory.allocate(64), memory.allocate(32)
    with pytest.raises(ValueError, match="one allocation"):
        {
            "read": lambda: memory.read(a, 65),
            "write": lambda: memory.write(b, bytes(33)),
            "copy": lambda: memory.copy(b, a, 64),
        }[action]()


def test_bool_arrays_are_bytes():
    k = Builder("flip", block=32)
    out, x = k.pointer("out", pred, "w"), k.pointer("x", pred, "r")
    out[k.tid] = ~x[k.tid]
    x = np.arange(32) % 3 == 0
    result = np.zeros(32, bool)
    launch(k.build(), result, x)
    assert_same(result, ~x)


def test_grid_has_blocks():
    with pytest.raises(ValueError, match="no blocks"):
        emulate.run(Builder("empty").build(), Memory(1 << 12), (0, 1), b"")


def test_bf16_vectors_keep_their_bits():
    k = Builder("bits", block=4)
    out, x = k.pointer("out", bf16, "w"), k.pointer("x", bf16, "r")
    out.store(k.tid * 8, x.load(k.tid * 8, 8))
    bits = np.arange(32, dtype=np.uint16) * np.uint16(2047)
    result = np.zeros_like(bits)
    launch(k.build(), result, bits)
    assert_same(result, bits)


def test_words_are_joined_as_they_were_split():
    k = Builder("words", block=32)
    x, out = k.pointer("x", u32), k.pointer("out", u32)
    word = x[k.tid]
    for type in (u8, i8, u16, f16):
        values = k.split_word(word, type)
        assert k.join_word(values, type) is word
        assert k.join_word(values[::-1], type) is not word
    out[k.tid] = k.join_word(k.split_word(word, u8)[::-1], u8)
    given = np.arange(32, dtype=np.uint32) * 0x01234567
    result = np.zeros_like(given)
    launch(k.build(), given, result)
    assert_same(result, given.byteswap())
