"""Asynchronous parts of the language: copies, mbarriers, tensor copies, wgmma, mma."""

import itertools
import re

import numpy as np
import pytest

from oxinp._ptx import Builder, emulate, tma, wgmma
from oxinp._ptx.async_copy import AsyncCopies, bulk_load
from oxinp._ptx.emulator.faults import AccessError, DivergenceError, RaceError
from oxinp._ptx.mbarrier import Consumer, Pipeline, Producer, UnrolledConsumer
from oxinp._ptx.mma import load_matrices, multiply
from oxinp._ptx.tile import OperandTile, ResultTile, operand_box
from oxinp._ptx.tma import MapSpec, TensorMap
from oxinp._ptx.types import bf16, c128, f16, f32, f64, i8, i32, u8, u16, u32
from oxinp._ptx.wgmma import Queue
from tests.ptx.launch import launch

BLOCK = 64

# -- cp.async on the emulator


def staged_copy(use, nbytes=16, block=BLOCK):
    """Each thread copies its bytes in; ``use(k, copies, tile)`` waits; each thread writes its neighbour's out."""
    k = Builder("staged", block=block)
    out, x = k.pointer("out", u8, "w"), k.pointer("x", u8, "r")
    tile = k.shared(u8, block * nbytes)
    copies = AsyncCopies(k)
    copies.start(tile.at(k.tid * nbytes), x.at(k.tid * nbytes), nbytes)
    copies.commit()
    use(k, copies)
    neighbour = k.tid ^ 1
    for i in range(nbytes):
        out[neighbour * nbytes + i] = tile[neighbour * nbytes + i]
    return k.build()


def wait_and_barrier(k, copies):
    copies.wait()
    k.barrier()


def run_staged(kernel, nbytes=16):
    x = np.random.default_rng(0).integers(0, 256, BLOCK * nbytes, np.uint8)
    out = np.zeros_like(x)
    launch(kernel, out, x)
    return out, x


@pytest.mark.parametrize("nbytes", [4, 8, 16])
def test_copies_arrive(nbytes):
    out, x = run_staged(staged_copy(wait_and_barrier, nbytes), nbytes)
    np.testing.assert_array_equal(out, x)


def test_copies_have_not_landed_before_the_wait():
    with pytest.raises(AccessError, match="uninitialised"):
        run_staged(staged_copy(lambda k, _: k.barrier()))


def test_a_wait_is_for_the_own_copies_only():
    with pytest.raises(RaceError):
        run_staged(staged_copy(lambda _, copies: copies.wait()))


def test_a_wait_leaves_the_latest_groups_under_way():
    with pytest.raises(AccessError, match="uninitialised"):
        run_staged(staged_copy(lambda k, copies: (copies.wait(1), k.barrier())))

    def wait_behind_another(k, copies):
        copies.commit()
        copies.wait(1)
        k.barrier()

    out, x = run_staged(staged_copy(wait_behind_another))
    np.testing.assert_array_equal(out, x)


def test_copies_of_part_of_the_block_land_whole():
    k = Builder("parts", block=96)
    out, x = k.pointer("out", u32, "w"), k.pointer("x", u32, "r")
    first, second = k.shared(u32, 96), k.shared(u32, 96)
    copies = AsyncCopies(k)
    with k.when(k.tid < 40):
        copies.start(first.at(k.tid), x.at(k.tid), 4)
    copies.start(second.at(k.tid), x.at(k.tid), 4)
    copies.commit()
    copies.wait()
    with k.when(k.tid < 40):
        out[k.tid] = first[k.tid]
    with k.otherwise():
        out[k.tid] = second[k.tid]
    x_host = np.arange(96, dtype=np.uint32) * 3
    out_host = np.zeros_like(x_host)
    launch(k.build(), out_host, x_host)
    np.testing.assert_array_equal(out_host, x_host)


def test_only_the_valid_bytes_are_read():
    k = Builder("valid", block=32)
    out, x = k.pointer("out", u8, "w"), k.pointer("x", u8, "r")
    tile = k.shared(u8, 32 * 16)
    copies = AsyncCopies(k)
    # Thread t brings min(t, 16) bytes of x, which ends behind 16 bytes: one more would be out of bounds.
    copies.start(tile.at(k.tid * 16), x, 16, k.min(k.tid, 16))
    copies.commit()
    copies.wait()
    for i in range(16):
        out[k.tid * 16 + i] = tile[k.tid * 16 + i]
    x_host = np.arange(1, 17, dtype=np.uint8)
    out_host = np.zeros((32, 16), np.uint8)
    launch(k.build(), out_host, x_host)
    np.testing.assert_array_equal(out_host, np.where(np.arange(16) < np.arange(32)[:, None], x_host, 0))


def test_a_misaligned_copy_is_a_fault():
    k = Builder("misaligned", block=32)
    x = k.pointer("x", u8, "r")
    tile = k.shared(u8, 1024)
    AsyncCopies(k).start(tile.at(8), x.at(4), 16)
    with pytest.raises(AccessError, match="misaligned"):
        launch(k.build(), np.zeros(64, np.uint8))


@pytest.mark.parametrize("nbytes", [1, 2, 32])
def test_copies_have_three_sizes(nbytes):
    k = Builder("sizes")
    with pytest.raises(ValueError, match="4, 8, 16"):
        AsyncCopies(k).start(k.shared(u8, 64), k.pointer("x", u8), nbytes)


def test_copies_go_from_global_to_shared():
    k = Builder("direction")
    with pytest.raises(TypeError, match="from global to shared"):
        AsyncCopies(k).start(k.pointer("x", u8), k.shared(u8, 64))


# -- mma and ldmatrix on the emulator


def lanes():
    lane = np.arange(32)
    return lane // 4, lane % 4


def mma_kernel(type):
    k = Builder("product", block=64)
    out, a, b = k.pointer("out", f32, "w"), k.pointer("a", u32, "r"), k.pointer("b", u32, "r")
    sums = [k.cast(k.tid, f32)] * 4
    left = [a[k.tid * 4 + i] for i in range(4)]
    for i, value in enumerate(multiply(k, type, left, [b[k.tid * 2 + i] for i in range(2)], sums)):
        out[k.tid * 4 + i] = value
    return k.build()


@pytest.mark.parametrize("type", [f16, bf16])
def test_mma_multiplies(type):
    rng = np.random.default_rng(3)
    exact = rng.integers(-8, 8, (2, 16, 16)), rng.integers(-8, 8, (2, 16, 8))
    words = [to_words(values, type) for values in exact]  # small integers are exact in both types
    r, q = lanes()
    a = np.stack([words[0][:, r + 8 * (i & 1), q + 4 * (i >> 1)] for i in range(4)], axis=-1)
    columns = to_words(exact[1].transpose(0, 2, 1), type)  # pairs along K
    b = np.stack([columns[:, r, q + 4 * i] for i in range(2)], axis=-1)
    out = np.zeros((2, 32, 4), np.float32)
    launch(mma_kernel(type), out, np.ascontiguousarray(a), np.ascontiguousarray(b))
    product = exact[0] @ exact[1]
    thread = np.arange(64).reshape(2, 32)
    for i in range(4):
        np.testing.assert_array_equal(out[..., i], product[:, r + 8 * (i >> 1), 2 * q + (i & 1)] + thread)


def to_words(values, type):
    values = np.ascontiguousarray(values, np.float32)
    halves = (values.view(np.uint32) >> 16).astype(np.uint16) if type is bf16 else values.astype(np.float16)
    return halves.view(np.uint32)


@pytest.mark.parametrize("is_transposed", [False, True])
def test_ldmatrix_loads(is_transposed):
    k = Builder("load", block=32)
    out, x = k.pointer("out", u32, "w"), k.pointer("x", u16, "r")
    tile = k.shared(u16, (32, 8))
    for i in range(8):
        tile[k.tid, i] = x[k.tid * 8 + i]
    k.barrier()
    for i, word in enumerate(load_matrices(k, tile.address() + k.tid * 16, is_transposed=is_transposed)):
        out[k.tid * 4 + i] = word
    x_host = np.arange(256, dtype=np.uint16).reshape(4, 8, 8)
    out_host = np.zeros((32, 4), np.uint32)
    launch(k.build(), out_host, x_host)
    wanted = x_host.transpose(0, 2, 1) if is_transposed else x_host
    r, q = lanes()
    for matrix in range(4):
        pairs = np.stack([wanted[matrix][r, 2 * q], wanted[matrix][r, 2 * q + 1]], axis=-1)
        np.testing.assert_array_equal(out_host[:, matrix], np.ascontiguousarray(pairs).view(np.uint32)[:, 0])


def test_mma_needs_the_whole_warp():
    k = Builder("half", block=32)
    with k.when(k.tid < 16):
        multiply(k, f16, [k.const(0, u32)] * 4, [k.const(0, u32)] * 2, [k.const(0, f32)] * 4)
    with pytest.raises(DivergenceError, match="all 32 lanes"):
        launch(k.build())


def test_mma_and_copies_assemble(assembled):
    kernels = [mma_kernel(f16), staged_copy(wait_and_barrier, 16)]
    k = Builder("matrices", block=32)
    out, tile = k.pointer("out", u32, "w"), k.shared(u16, 256)
    for transposed in (False, True):
        for i, word in enumerate(load_matrices(k, tile.address() + k.tid * 16, is_transposed=transposed)):
            out[i] = word
    assembled([*kernels, k.build()])


# -- wgmma: the accumulator knows where it is


def consumer(type=bf16, extent=64):
    """A kernel with tiles, a queue and an accumulator, ready for what a test does with them."""
    k = Builder("consumer", block=128, target="sm_90a", min_blocks=1)
    depth = 128 // type.nbytes
    a = OperandTile(k, type, 64, depth, "k", 2)
    b = OperandTile(k, type, extent, depth, "k", 2)
    queue = Queue(k)
    return (
        k,
        queue,
        queue.accumulator(extent),
        lambda sums: sums.multiply(a.rows(k.const(0, u32)), b.rows(k.const(1, u32)), 4, type),
    )


def test_reading_in_flight_raises():
    _, queue, sums, multiply_into = consumer()
    with queue.group():
        multiply_into(sums)
    with pytest.raises(TypeError, match="in flight"):
        sums.pairs()
    queue.wait()
    assert len(sums.pairs()) == 16


def test_a_wait_that_leaves_the_group_pending_is_not_enough():
    _, queue, sums, multiply_into = consumer()
    other = queue.accumulator(64)
    with queue.group():
        multiply_into(sums)
    with queue.group():
        multiply_into(other)
    queue.wait(1)
    sums.pairs()
    with pytest.raises(TypeError, match="in flight"):
        other.pairs()


def test_a_wait_in_a_branch_counts_there_only():
    k, queue, sums, multiply_into = consumer()
    with queue.group():
        multiply_into(sums)
    with k.when(k.tid == 0):
        queue.wait()
        sums.pairs()
    with pytest.raises(TypeError, match="in flight"):
        sums.pairs()


def test_a_loop_may_leave_a_group_in_flight_until_behind_it():
    k, queue, sums, multiply_into = consumer()
    with k.range(0, 4):
        with queue.group():
            multiply_into(sums)
        queue.wait(1)
    with pytest.raises(TypeError, match="in flight"):
        sums.pairs()
    queue.wait()
    sums.pairs()


def test_a_loop_that_multiplies_and_waits_leaves_it_at_rest():
    k, queue, sums, multiply_into = consumer()
    with k.range(0, 4):
        with queue.group():
            multiply_into(sums)
        queue.wait()
    sums.pairs()


def test_reading_at_the_top_of_a_loop_that_leaves_it_in_flight_raises():
    k, queue, sums, multiply_into = consumer()
    with k.range(0, 4):
        sums.pairs()
        with queue.group():
            multiply_into(sums)
    with pytest.raises(TypeError, match="top of a loop"):
        queue.wait()


def test_waiting_at_the_top_of_the_loop_is_fine():
    k, queue, sums, multiply_into = consumer()
    with k.range(0, 4):
        queue.wait()
        sums.pairs()
        with queue.group():
            multiply_into(sums)
    queue.wait()


def test_multiplications_belong_into_a_group():
    _, queue, sums, multiply_into = consumer()
    with pytest.raises(TypeError, match="inside"):
        multiply_into(sums)
    with queue.group():
        with pytest.raises(TypeError, match="open already"), queue.group():
            pass
        with pytest.raises(TypeError, match="closed"):
            queue.wait()


def test_every_multiplication_assembles(assembled):
    """All types and widths, in instructions as `multiply_op` writes them."""
    kernels = []
    for number, (type, form) in enumerate(wgmma.FORMS.items()):
        for sum_type in form.sums:
            k = Builder(f"all_{number}_{type}", block=128, target="sm_90a")
            transposes = itertools.product((False, True), repeat=2) if type.bits == 16 else [(False, False)]
            for a, b in transposes:
                for extent in (32, 96, 256):
                    operands = [k.var(0, sum_type) for _ in range(extent // 2)]
                    op = wgmma.multiply_op(type, sum_type, extent, a, b)
                    k.emit_op(op, *operands, k.cast(k.tid, op.src[-3]), k.cast(k.tid, op.src[-2]), k.tid == 0)
            kernels.append(k.build())
    for kernel in kernels:
        assembled([kernel])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((f64, f64, 64, False, False), TypeError, "does not multiply"),
        ((bf16, f16, 64, False, False), TypeError, "does not multiply"),
        ((bf16, f32, 12, False, False), ValueError, "no N = 12"),
        ((bf16, f32, 264, False, False), ValueError, "no N = 264"),
        ((i8, i32, 24, False, False), ValueError, "no N = 24"),
        ((f32, f32, 64, False, True), ValueError, "K-major only"),
    ],
)
def test_what_wgmma_has_not(arguments, error, message):
    with pytest.raises(error, match=message):
        wgmma.multiply_op(*arguments)


def test_wgmma_needs_its_target():
    k = Builder("plain", block=128, target="sm_90")
    queue = Queue(k)
    with pytest.raises(ValueError, match="sm_90a"), queue.group():
        pass


@pytest.mark.parametrize("count", [20, 100, 264])
def test_register_counts(count):
    with pytest.raises(ValueError, match="multiple of 8"):
        wgmma.limit_registers(Builder("k", target="sm_90a"), count, is_increase=True)


# -- tensor copies and pipelines


def loads_of_every_rank(multicast):
    k = Builder(f"loads_{multicast}", block=128, target="sm_90a", cluster=2)
    memory = k.dynamic_shared(bf16, 4096, align=1024)
    maps = [TensorMap(k, f"map_{rank}", rank) for rank in range(1, 6)]
    pipeline = Pipeline(k, 2, 1, 1024)
    with k.when(k.tid == 0):
        producer = Producer(pipeline)
        slot = producer.acquire()
        for rank, tensor_map in enumerate(maps, 1):
            tensor_map.prefetch()
            tensor_map.load(memory.address(), tuple(range(rank)), slot, multicast)
            tensor_map.store(tuple(range(rank)), memory.address())
        tma.commit_stores(k)
        tma.wait_stores(k, 1)
        tma.wait_stores(k, 0, is_read=False)
        bulk_load(k, memory, k.pointer("x", bf16, "r"), 64, slot)
    pipeline.close()
    return k.build()


@pytest.mark.parametrize("multicast", [0, 3])
def test_copies_of_every_rank_assemble(multicast, assembled):
    kernel = loads_of_every_rank(multicast)
    assembled([kernel])
    assert (".multicast::cluster" in kernel.ptx) == bool(multicast)
    # PTX has the innermost coordinate first.
    assert re.search(r"tensor\.3d\.shared.*\{2, 1, 0\}", kernel.ptx)


def ring(name, num_stages, num_tiles, cluster=None):
    """A kernel with a warp that fills a ring: its builder, the buffers, where the others write to, and the pipeline."""
    k = Builder(name, block=64, target="sm_90a", cluster=cluster)
    tile = k.dynamic_shared(f32, (num_stages, 256), align=128)
    x, out = k.pointer("x", f32, "r"), k.pointer("out", f32, "w")
    pipeline = Pipeline(k, num_stages, 1, 1024)
    with k.when(k.warp == 0), k.when(k.tid == 0):
        producer = Producer(pipeline)
        with k.range(0, num_tiles) as i:
            slot = producer.acquire()
            bulk_load(k, tile.at(slot.stage * 256), x.at(i * 256), 1024, slot)
    return k, tile, out, pipeline


@pytest.mark.parametrize("cluster", [None, 2])
def test_a_pipeline_assembles(cluster, assembled):
    k, tile, out, pipeline = ring(f"pipeline_{cluster}", 3, 10, cluster)
    with k.otherwise():
        using = Consumer(pipeline, k.lane)
        with k.range(0, 10) as i:
            stage = using.acquire()
            out[k.cast(i, u32) * 32 + k.lane] = tile[stage * 256 + k.lane]
            using.release()
    pipeline.close()
    kernel = k.build()
    assembled([kernel])
    # Each block of the cluster has to let go.
    num = 1 if cluster is None else cluster
    assert len(re.findall(rf"mbarrier\.init.*, {num};", kernel.ptx)) >= 3
    assert ("mapa" in kernel.ptx) == (cluster is not None)


@pytest.mark.parametrize("length", [1, 2, 4])
def test_unrolled_consumers_assemble(length, assembled):
    k, tile, out, pipeline = ring(f"unrolled_{length}", 4, 12)
    with k.otherwise():
        consumer = UnrolledConsumer(pipeline, k.lane, length)
        consumer.wait(0)
        with k.range(0, 12, length) as first:
            for i in range(length):
                out[k.cast(first + i, u32) * 32 + k.lane] = tile[consumer.buffer(i).at(256) + k.lane]
                consumer.wait_behind(i, None if i < length - 1 else first + length < 12)
                with k.when(first + i > 0):
                    consumer.release_before(i)
            consumer.advance()
        consumer.release_before(0)
    assembled([k.build()])


def test_aligned_dynamic_memory_stands_alone():
    k = Builder("k")
    k.dynamic_shared(f32, 256, align=128)
    k.shared(f32, 4)
    with pytest.raises(ValueError, match="use one kind"):
        k.build()


def test_a_ring_has_a_buffer():
    with pytest.raises(ValueError, match="needs stages"):
        Pipeline(Builder("k", target="sm_90a"), 0, 1, 16)


def test_the_emulator_says_what_it_cannot():
    with pytest.raises(NotImplementedError, match="GPU only"):
        emulate.run(loads_of_every_rank(0), emulate.Memory(), 2, bytes(128 * 5 + 8))


def test_a_map_counts_its_coordinates():
    k = Builder("k", target="sm_90a")
    with pytest.raises(IndexError, match="2 dimensions"):
        TensorMap(k, "map", 2).store((1,), k.const(0, u32))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((bf16, (8, 8), (), (8, 8)), "belong together"),
        ((bf16, (8, 8), (24,), (8, 8)), "multiples of 16"),
        ((bf16, (8, 8), (16,), (8, 257)), "outside 1 to 256"),
        ((bf16, (8, 8), (16,), (8, 4)), "multiple of 16"),
        ((bf16, (8, 256), (512,), (8, 128)), "swizzle"),
    ],
)
def test_maps_that_cannot_be(arguments, message):
    with pytest.raises(ValueError, match=message):
        MapSpec(*arguments)


def test_complex_numbers_are_copied_as_their_parts():
    boxes = [operand_box(c128, 32, 8, major, 2) for major in ("k", "mn")]
    assert boxes == [(16, 8), (8, 8)]
    whole = MapSpec(c128, (3, 40, 21), (13440, 336), (1, *boxes[0]))
    parts = whole.in_parts()
    assert parts == MapSpec(f64, (3, 40, 42), (13440, 336), (1, 16, 16))
    assert parts.in_parts() is parts
    assert parts.box_nbytes == whole.box_nbytes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((c128, 32, 12, "mn", 1), "multiple of 8 deep"),
        ((bf16, 128, 32, "k", 1), "64 deep"),
        ((i8, 128, 32, "mn", 1), "K-major only"),
        ((bf16, 128, 60, "mn", 1), "multiple of 16 deep"),
        ((bf16, 96, 64, "mn", 1), "does not divide"),
        ((bf16, 128, 64, "m", 1), "major"),
    ],
)
def test_tiles_that_cannot_be(arguments, message):
    with pytest.raises(ValueError, match=message):
        operand_box(*arguments)


def test_boxes_fill_tiles():
    for type, extent, major, parts in ((bf16, 256, "k", 2), (bf16, 256, "mn", 2), (f32, 128, "k", 1)):
        k = Builder("k", target="sm_90a")
        tile = OperandTile(k, type, extent, 128 // type.nbytes, major, 2, parts)
        assert len(tile._boxes) * tile.box[0] * tile.box[1] * type.nbytes == tile.nbytes
        assert tile.box == operand_box(type, extent, 128 // type.nbytes, major, parts)


@pytest.mark.parametrize("type", [bf16, f32])
def test_a_result_tile_holds_every_element_once(type):
    """Addresses of a warpgroup's pairs, by their own formula, against the swizzle's."""
    rows, columns = ResultTile.box(type)
    k = Builder("places", block=128, target="sm_90a")
    out = k.pointer("out", u32, "w")
    result = ResultTile(k, type, 1, k.const(0, u32), k.tid)
    num = columns // 8
    for j, place in enumerate(result._places):
        for i in range(2):
            out[(k.tid * num + j) * 2 + i] = place.address() - result._start + i * 1024
    addresses = np.zeros((128, num, 2), np.uint32)
    launch(k.build(), addresses)
    thread, j, i = np.meshgrid(np.arange(128), np.arange(num), np.arange(2), indexing="ij")
    row, column = 16 * (thread // 32) + thread % 32 // 4 + 8 * i, 8 * j + 2 * (thread % 4)
    plain = row * 128 + column * type.nbytes
    np.testing.assert_array_equal(addresses, plain ^ ((row & 7) << 4))
    assert len(np.unique(addresses)) == rows * columns // 2
