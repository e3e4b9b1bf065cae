"""Exchange of registers between two blocks of a cluster through distributed shared memory (st.async, sm_90).

The threads of an `Exchange` store values into the shared memory of the other block, for the threads of the same number.
The stores complete on an mbarrier of the receiver, so the sender does not wait for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._ptx import isa
from oxinp._ptx.gpu_only import refuse, refuse_to_wait
from oxinp._ptx.isa import EFFECT, WAIT, Op, Row
from oxinp._ptx.mbarrier import spinning
from oxinp._ptx.memory import Pointer
from oxinp._ptx.tile import WARPGROUP
from oxinp._ptx.types import f32, i32, u32, u64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._ptx.builder import Builder
    from oxinp._ptx.types import Type
    from oxinp._ptx.value import Value

UNIT = 4  # values that a thread sends at a time

# What another block stored is seen after this.
_WAIT = Op("cluster_mbarrier_wait", spinning("cluster"), (), (u32, u32), refuse_to_wait, WAIT, 90, (8, 0))

isa.register(
    [
        Row(
            "store_async",
            "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.{b}",
            "<- u32 t t t t u32",
            ((f32,), (i32,)),
            refuse,
            sm=90,
            ptx=(8, 1),
            layout="[{0}], {{{1}, {2}, {3}, {4}}}, [{5}]",
            kind=EFFECT,
        ),
    ]
)


class Exchange:
    """Values that a warpgroup of each block sends to the warpgroup of the same number of the other block.

    In either block one warpgroup sends and another one receives. Made in all threads of the block, before the
    `Pipeline`, whose barrier publishes these.

    Parameters
    ----------
    k : Builder
    type : Type
        f32 or i32.
    num_units : int
        Units of 4 values that each thread sends.
    """

    def __init__(self, k: Builder, type: Type, num_units: int) -> None:
        self.builder, self.type = k, type
        self._unit_nbytes = WARPGROUP * UNIT * type.nbytes
        self._nbytes = num_units * self._unit_nbytes
        self._memory = k.dynamic_shared(type, num_units * WARPGROUP * UNIT)
        # Of what came: it is all there. Of what went: the other one has read it.
        self._came, self._went = (k.dynamic_shared(u64, 1, align=8) for _ in range(2))
        with k.when(k.thread_index() == 0):
            for barrier in (self._came, self._went):
                k.emit("mbarrier_init", barrier.address(), 1, types=())

    def join(self, warpgroup: Value, thread: Value, other: Value) -> None:
        """Bind this thread: number of its warpgroup, its number in there, and the cluster rank of the other block."""
        k = self.builder
        self._thread, self._barrier = thread, warpgroup + 1
        self._start = self._memory.address() + thread * (UNIT * self.type.nbytes)
        self._start_there, self._came_there, self._went_there = (
            k.emit("mapa", address, other, types=())
            for address in (self._start, self._came.address(), self._went.address())
        )
        self._parity = k.var(0, u32)

    def send(self, units: Sequence[Sequence[Value]]) -> None:
        """Send all units of the thread to the other block."""
        k = self.builder
        # A fresh barrier is in phase 0, so waiting for the phase before it does not wait.
        self._parity.set(self._parity ^ 1)
        k.emit_op(_WAIT, self._went.address(), self._parity)
        for number, values in enumerate(units):
            to = self._start_there + number * self._unit_nbytes if number else self._start_there
            k.emit("store_async", to, *values, self._came_there, types=(self.type,))

    def receive(self) -> list[tuple[Value, ...]]:
        """Return the units that the thread of the same number of the other block sends."""
        k = self.builder
        with k.when(self._thread == 0):
            k.emit("mbarrier_arrive_expect", self._came.address(), self._nbytes, types=())
        k.emit_op(_WAIT, self._came.address(), self._parity)
        self._parity.set(self._parity ^ 1)
        own = Pointer(k, self._start, self.type, "shared", "r")
        return [own.offset_bytes(start).load(0, UNIT) for start in range(0, self._nbytes, self._unit_nbytes)]

    def release(self) -> None:
        """Allow the other block to send again; every read of what was received has to be complete."""
        k = self.builder
        k.barrier(self._barrier, WARPGROUP)
        with k.when(self._thread == 0):
            k.emit("mbarrier_arrive_remote", self._went_there, types=())


__all__ = ["UNIT", "Exchange"]
