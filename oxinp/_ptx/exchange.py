"""What two blocks of a cluster hand each other, from registers to the other's shared memory (sm_90).

In an `Exchange` a warpgroup of one block and the same one of the other send each other values, thread by thread. The
stores report to a barrier of the receiver as copies do, so nobody has to wait for memory before saying that he wrote.
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
    """Values of the threads of warpgroups for the same threads of another block.

    Made in all threads of the block, before the `Pipeline`, whose barrier publishes these.

    Parameters
    ----------
    k : Builder
    type : Type
        f32 or i32.
    num_units : int
        Units of 4 values that each thread sends.
    num_warpgroups : int
        That exchange, each with that of its number.
    """

    def __init__(self, k: Builder, type: Type, num_units: int, num_warpgroups: int) -> None:
        self.builder, self.type = k, type
        self._unit_nbytes = WARPGROUP * UNIT * type.nbytes
        self._nbytes = num_units * self._unit_nbytes
        self._memory = k.dynamic_shared(type, num_warpgroups * num_units * WARPGROUP * UNIT)
        # Of what came: it is all there. Of what went: the other one has read it.
        self._came, self._went = (k.dynamic_shared(u64, num_warpgroups, align=8) for _ in range(2))
        with k.when(k.thread_index() == 0):
            for barriers in (self._came, self._went):
                for i in range(num_warpgroups):
                    k.emit("mbarrier_init", barriers.address(i), 1, types=())

    def join(self, warpgroup: Value, thread: Value, other: Value) -> None:
        """Say which warpgroup, counted from 0, and which thread of it this is, and the rank of the other block."""
        k = self.builder
        self._thread, self._barrier = thread, warpgroup + 1
        self._start = self._memory.address() + warpgroup * self._nbytes + thread * (UNIT * self.type.nbytes)
        self._came_here, self._went_here = (x.address() + warpgroup * 8 for x in (self._came, self._went))
        self._start_there, self._came_there, self._went_there = (
            k.emit("mapa", address, other, types=()) for address in (self._start, self._came_here, self._went_here)
        )
        self._parity = k.var(0, u32)

    def swap(self, units: Sequence[Sequence[Value]]) -> list[tuple[Value, ...]]:
        """Send all units of the thread; those that it is sent."""
        k = self.builder
        is_first = self._thread == 0
        # A fresh barrier is in phase 0, so waiting for the phase before it does not wait.
        k.emit_op(_WAIT, self._went_here, self._parity ^ 1)
        with k.when(is_first):
            k.emit("mbarrier_arrive_expect", self._came_here, self._nbytes, types=())
        for number, values in enumerate(units):
            to = self._start_there + number * self._unit_nbytes if number else self._start_there
            k.emit("store_async", to, *values, self._came_there, types=(self.type,))
        k.emit_op(_WAIT, self._came_here, self._parity)
        own = Pointer(k, self._start, self.type, "shared", "r")
        received = [own.offset_bytes(number * self._unit_nbytes).load(0, UNIT) for number in range(len(units))]
        k.barrier(self._barrier, WARPGROUP)
        with k.when(is_first):
            k.emit("mbarrier_arrive_remote", self._went_there, types=())
        self._parity.set(self._parity ^ 1)
        return received


__all__ = ["UNIT", "Exchange"]
