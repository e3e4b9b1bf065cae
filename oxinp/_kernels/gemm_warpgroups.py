"""What the warpgroups of the kernels for Hopper do: one fills a ring of buffers, the others multiply what is in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._kernels.gemm_tiles import ROWS, STEPS
from oxinp._ptx.fragments import Fragments
from oxinp._ptx.mbarrier import Producer
from oxinp._ptx.wgmma import FORMS, WARPGROUP, Queue, Totals

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._kernels.gemm import GemmSpec
    from oxinp._kernels.gemm_tiles import Tiles
    from oxinp._ptx import Builder
    from oxinp._ptx.mbarrier import Consumer, Pipeline
    from oxinp._ptx.tile import OperandTile
    from oxinp._ptx.tma import TensorMap
    from oxinp._ptx.value import Value


def produce(
    k: Builder,
    spec: GemmSpec,
    tiles: Tiles,
    pipeline: Pipeline,
    a: tuple[TensorMap, OperandTile],
    b: tuple[TensorMap, OperandTile],
) -> None:
    """Copy the tiles of A and B into the ring; one thread calls it."""
    (a_map, a_tile), (b_map, b_tile) = a, b
    a_map.prefetch()
    b_map.prefetch()
    producer = Producer(pipeline)
    everyone = (1 << spec.cluster) - 1 if spec.cluster > 1 else 0
    with tiles.each_sliced() as (number, row, column):
        of_a, of_b = tiles.matrices(number)
        with k.range(*tiles.depth_range(number)) as step:
            slot = producer.acquire()
            start = step * spec.depth
            of_all = [everyone if num_parts > 1 else 0 for num_parts in spec.parts]
            a_tile.load(a_map, slot, row, start, tiles.rank, of_all[0], outer=of_a)
            b_tile.load(b_map, slot, column, start, tiles.rank, of_all[1], outer=of_b)


def consume(
    k: Builder,
    spec: GemmSpec,
    tiles: Tiles,
    consumer: Consumer,
    a: OperandTile,
    b: OperandTile,
    store: Callable[..., None],
    number: Value,
) -> None:
    """Multiply what comes, and hand 64 rows of sums to `store`; the threads of warpgroup `number` call it."""
    queue = Queue(k)
    sums = queue.accumulator(spec.tile_n, FORMS[spec.type].sums[0])
    totals = Totals(sums) if spec.is_promoted else None
    first_row = number * ROWS
    fragments = []
    if spec.is_through_registers:
        fragments = [Fragments(k, a, first_row, k.tid & (WARPGROUP - 1)) for _ in range(2)]

    def multiply() -> None:
        stage = consumer.acquire()
        with queue.group():
            sums.multiply(a.rows(stage, first_row), b.rows(stage), STEPS, spec.type)

    def multiply_fragments(begin: Value, end: Value) -> None:
        stage, left = k.var(consumer.acquire()), k.var(end - begin)
        fragments[0].load(stage.get())
        with k.loop():
            # In turn, for what is multiplied must not be written.
            for own, other in (fragments, fragments[::-1]):
                with queue.group():
                    sums.multiply_fragments(own.steps(), b.rows(stage.get()), spec.type)
                left.set(left - 1)
                k.break_if(left == 0)
                stage.set(consumer.acquire())
                other.load(stage.get())
                queue.wait()
                consumer.release()
        queue.wait()
        consumer.release()

    with tiles.each_sliced() as (slice_number, row, column):
        begin, end = tiles.depth_range(slice_number)
        if totals is not None:
            totals.reset()
            with k.range(begin, end):
                sums.reset()
                multiply()
                queue.wait()
                consumer.release()
                totals.add()
        elif fragments:
            sums.reset()
            multiply_fragments(begin, end)
        else:
            sums.reset()
            with k.range(begin, end) as step:
                multiply()
                queue.wait(1)
                with k.when(step > begin):
                    consumer.release()
            queue.wait()
            consumer.release()
        store(totals or sums, row + first_row, column, () if slice_number is None else (slice_number,))


__all__ = ["consume", "produce"]
