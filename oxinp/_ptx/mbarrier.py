"""mbarriers in shared memory, and the pipeline of stages built on them (producer and consumers, full and empty).

An mbarrier completes a phase when all its arrivals, and all the bytes they announced, have come; then the next phase
begins. A waiter names the parity of the phase it waits for, so nobody can fall behind by more than one. `Pipeline`
owns the barriers of a ring of buffers, and `Producer` and `Consumer` own where in the ring, and in which phase, one
side stands: a kernel never sees a parity.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp._ptx import isa
from oxinp._ptx.cluster import cluster_barrier
from oxinp._ptx.gpu_only import refuse, refuse_to_wait
from oxinp._ptx.isa import EFFECT, WAIT, Op, Row
from oxinp._ptx.memory import Pointer
from oxinp._ptx.types import u32, u64
from oxinp._ptx.value import Value, Var

if TYPE_CHECKING:
    from oxinp._ptx.builder import Builder


def spinning(scope: str) -> str:
    """Text of an mbarrier wait for a phase, with acquire semantics at that scope."""
    # The label and the predicate are local to the braces. The hardware suspends the thread inside try_wait.
    return (
        "{{\n\t.reg .pred done;\n\tWAIT:\n\t"
        f"mbarrier.try_wait.parity.acquire.{scope}.shared::cta.b64 done, [{{0}}], {{1}};"
        "\n\t@!done bra WAIT;\n\t}}"
    )


# The scope is the block also in a cluster: what other blocks did with the buffer, they did through the asynchronous
# units.
_WAIT = Op("mbarrier_wait", spinning("cta"), (), (u32, u32), refuse_to_wait, WAIT, 90, (8, 0))


def _row(name: str, opcode: str, signature: str, layout: str) -> Row:
    return Row(name, opcode, signature, ((),), refuse, sm=90, ptx=(8, 0), layout=layout, kind=EFFECT)


isa.register(
    [
        _row("mbarrier_init", "mbarrier.init.shared::cta.b64", "<- u32 u32", "[{0}], {1}"),
        _row("mbarrier_arrive", "mbarrier.arrive.release.cta.shared::cta.b64", "<- u32", "_, [{0}]"),
        _row(
            "mbarrier_arrive_expect",
            "mbarrier.arrive.expect_tx.release.cta.shared::cta.b64",
            "<- u32 u32",
            "_, [{0}], {1}",
        ),
        # No .release.cluster: that would flush the block's writes to global memory (seen as MEMBAR.ALL.GPU), for
        # readers that have written nothing.
        _row("mbarrier_arrive_remote", "mbarrier.arrive.shared::cluster.b64", "<- u32", "_, [{0}]"),
        Row(
            "fence_mbarrier_init",
            "fence.mbarrier_init.release.cluster",
            "<-",
            ((),),
            refuse,
            sm=90,
            ptx=(8, 0),
            kind=EFFECT,
        ),
    ]
)


class Pipeline:
    """The full and empty barriers of a multistage pipeline between one producer thread and groups of consumer threads.

    A stage is *full* once its bytes have arrived, and *empty* once every consumer has released it. In a cluster every
    block has the same stages, multicast copies write into all of them, and a consumer releases all of them.

    Made in all threads of the block; the constructor ends with a barrier (of the cluster, if there is one).

    Parameters
    ----------
    k : Builder
    num_stages : int
        Stages of the pipeline.
    num_consumers : int
        Groups of consumer threads in this block.
    nbytes : int
        Bytes that fill one stage; those of a box that lie outside its array count.
    is_shared : bool
        Whether the blocks of a cluster copy into each other's buffers.
    """

    def __init__(self, k: Builder, num_stages: int, num_consumers: int, nbytes: int, *, is_shared: bool = True) -> None:
        if num_stages < 1:
            raise ValueError(f"a pipeline needs stages, not {num_stages}")
        self.builder = k
        self.num_stages = num_stages
        self.nbytes = nbytes
        self.cluster_size = 1 if k.cluster is None else k.cluster[0] * k.cluster[1] * k.cluster[2]
        self.num_sharing = self.cluster_size if is_shared else 1
        # Not static: behind static arrays the driver's linker does not align the dynamic memory as the tiles need it.
        self.full = k.dynamic_shared(u64, num_stages, align=8)
        self.empty = k.dynamic_shared(u64, num_stages, align=8)
        with k.when(k.thread_index() == 0):
            for i in range(num_stages):
                k.emit("mbarrier_init", self.full.address(i), 1, types=())
                k.emit("mbarrier_init", self.empty.address(i), num_consumers * self.num_sharing, types=())
            k.emit("fence_mbarrier_init", types=())
        if self.cluster_size > 1:
            cluster_barrier(k, is_ordering=False)  # the fence has ordered what is needed
        else:
            k.barrier()

    def close(self) -> None:
        """Wait for the cluster at the end of the kernel, in all threads: other blocks may still write to this one."""
        if self.cluster_size > 1:
            cluster_barrier(self.builder)


class _Cursor:
    """The stage and phase parity that one side of the pipeline is at; advances by `step` stages from `first` on."""

    def __init__(self, pipeline: Pipeline, parity: int, first: Any = 0, step: int = 1) -> None:
        k = pipeline.builder
        self.pipeline = pipeline
        self.builder = k
        self._first, self._step = first, step
        self._stage: Var = k.var(first, u32)
        self._parity: Var = k.var(parity, u32)

    def _following(self, stage: Value) -> tuple[Value, Value]:
        """The stage after another one, and whether the stages wrap around there."""
        following = stage + self._step
        wraps = following == self.pipeline.num_stages if self._step == 1 else following >= self.pipeline.num_stages
        return self.builder.where(wraps, self._first, following), wraps

    def _advance(self) -> Value:
        """Advance to the next stage; return the current one."""
        k, stage = self.builder, self._stage.get()
        following, wraps = self._following(stage)
        self._stage.set(following)
        self._parity.set(k.where(wraps, self._parity ^ 1, self._parity))
        return stage

    def _wait(self, barriers: Pointer) -> None:
        self.builder.emit_op(_WAIT, barriers.address(self._stage), self._parity)


class Buffer(NamedTuple):
    """A stage to be read: `number` stages behind the first of an unrolled iteration."""

    first: Value
    number: int = 0

    def offsets(self, nbytes: int) -> tuple[Value, int]:
        """Byte offset of the stage if stages have `nbytes` bytes, as a run-time and a constant summand."""
        return self.first * nbytes, self.number * nbytes

    def at(self, nbytes: int) -> Value:
        """Byte offset of the stage if stages have `nbytes` bytes."""
        start, offset = self.offsets(nbytes)
        return start + offset if offset else start


class Slot:
    """A stage to be filled: its number, and the address of the full barrier that its copies signal."""

    def __init__(self, stage: Value, barrier: Value) -> None:
        self.stage = stage
        self.barrier = barrier


class Producer(_Cursor):
    """The producer side of a pipeline, in one thread."""

    def __init__(self, pipeline: Pipeline) -> None:
        # A fresh barrier is in phase 0, so waiting for the phase before it does not wait.
        super().__init__(pipeline, parity=1)

    def acquire(self) -> Slot:
        """Wait until the next stage is empty, and expect its bytes; the copies that fill it may start."""
        k, pipeline = self.builder, self.pipeline
        self._wait(pipeline.empty)
        barrier = pipeline.full.address(self._stage)
        k.emit("mbarrier_arrive_expect", barrier, pipeline.nbytes, types=())
        return Slot(self._advance(), barrier)

    def drain(self) -> None:
        """Wait until all stages are empty: no other block touches this one's barriers or stages after that.

        The producer thread ends with it instead of `Pipeline.close`, which flushes writes to global memory.
        """
        for _ in range(self.pipeline.num_stages):
            self._wait(self.pipeline.empty)
            self._advance()


class Consumer(_Cursor):
    """The consumer side of a pipeline, in every thread of one consumer group.

    Parameters
    ----------
    pipeline : Pipeline
    thread : Value
        This thread's number in the group, u32.
    first, step : int or Value
        For groups that consume stages in turn: the first stage of this one, below `step`, and the number of groups,
        which divides the number of stages.
    """

    def __init__(self, pipeline: Pipeline, thread: Value, first: Any = 0, step: int = 1) -> None:
        super().__init__(pipeline, 0, first, step)
        self._thread = thread
        self._oldest: Var = self.builder.var(first, u32)

    def acquire(self) -> Value:
        """Wait until the next stage is full; return its number."""
        self._wait(self.pipeline.full)
        return self._advance()

    def release(self) -> None:
        """Release the oldest stage still held; every read of it has to be complete."""
        k, pipeline = self.builder, self.pipeline
        stage = self._oldest.get()
        barrier = pipeline.empty.address(stage)
        with k.when(self._thread < pipeline.num_sharing):
            if pipeline.num_sharing > 1:
                k.emit("mbarrier_arrive_remote", k.emit("mapa", barrier, self._thread, types=()), types=())
            else:
                k.emit("mbarrier_arrive", barrier, types=())
        self._oldest.set(self._following(stage)[0])


class UnrolledConsumer(_Cursor):
    """The consumer side of a pipeline with the mainloop unrolled over several stages, in every thread of one group.

    The stages of an iteration follow each other, so that their offsets from its first stage are constants; the first
    stage is one as well if an iteration takes all stages.

    Parameters
    ----------
    pipeline : Pipeline
    thread : Value
        This thread's number in the group, u32.
    length : int
        Stages of an iteration, a divisor of the number of stages.
    """

    def __init__(self, pipeline: Pipeline, thread: Value, length: int) -> None:
        super().__init__(pipeline, 0, step=length)
        k = self.builder
        self.length, self._thread = length, thread
        self._is_whole = length == pipeline.num_stages
        self._before: Var = k.var(0, u32)
        self._empty = pipeline.empty.address(k.const(0, u32))
        if pipeline.num_sharing > 1:
            self._empty = k.emit("mapa", self._empty, thread, types=())

    def buffer(self, number: int) -> Buffer:
        """Return a stage of the iteration."""
        return Buffer(self.builder.const(0, u32) if self._is_whole else self._stage.get(), number)

    def wait(self, number: int) -> Buffer:
        """Wait until a stage of the iteration is full."""
        buffer = self.buffer(number)
        self._wait_for(buffer, self._parity.get())
        return buffer

    def wait_behind(self, number: int, is_more: Value | None = None) -> Buffer:
        """Return the stage behind one of the iteration; wait until it is full, where `is_more` holds."""
        buffer, parity = self.buffer(number + 1), self._parity.get()
        if buffer.number == self.length:
            first, parity = self._next()
            buffer = Buffer(first)
        with nullcontext() if is_more is None else self.builder.when(is_more):
            self._wait_for(buffer, parity)
        return buffer

    def advance(self) -> None:
        """Begin the next iteration."""
        first, parity = self._next()
        self._before.set(self._stage.get())
        self._stage.set(first)
        self._parity.set(parity)

    def release_before(self, number: int) -> None:
        """Release the stage before one of the iteration; every read of it has to be complete."""
        k, pipeline = self.builder, self.pipeline
        buffer = self.buffer(number - 1)
        if number == 0:
            buffer = Buffer(buffer.first if self._is_whole else self._before.get(), self.length - 1)
        with k.when(self._thread < pipeline.num_sharing):
            name = "mbarrier_arrive_remote" if pipeline.num_sharing > 1 else "mbarrier_arrive"
            k.emit(name, self._empty + buffer.at(u64.nbytes), types=())

    def _next(self) -> tuple[Value, Value]:
        """First stage and parity of the next iteration."""
        k, parity = self.builder, self._parity ^ 1
        if self._is_whole:
            return k.const(0, u32), parity
        first, wraps = self._following(self._stage.get())
        return first, k.where(wraps, parity, self._parity)

    def _wait_for(self, buffer: Buffer, parity: Value) -> None:
        barrier = self.pipeline.full.address(self.builder.const(0, u32)) + buffer.at(u64.nbytes)
        self.builder.emit_op(_WAIT, barrier, parity)


__all__ = ["Buffer", "Consumer", "Pipeline", "Producer", "Slot", "UnrolledConsumer", "cluster_barrier", "spinning"]
