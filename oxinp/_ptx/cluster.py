"""Clusters of blocks (sm_90): their barrier, and reads of each other's shared memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp._ptx import isa
from oxinp._ptx.isa import EFFECT, WAIT, Op, Row, Wait
from oxinp._ptx.memory import CLUSTER, RANK_BIT, Pointer

if TYPE_CHECKING:
    from oxinp._ptx.builder import Builder
    from oxinp._ptx.value import Value


class _Arrivals:
    """How often each thread of a launch, and each cluster, has arrived at the cluster's barrier."""

    def __init__(self, frame: Any) -> None:
        machine = frame.machine
        self.size = frame.cluster_size
        self.num_threads = self.size * machine.block_threads
        self.by_lane = np.zeros(machine.num_blocks * machine.lanes_per_block, np.int64)
        self.by_cluster = np.zeros(-(-machine.num_blocks // self.size), np.int64)


def _arrivals(frame: Any) -> _Arrivals:
    state = frame.machine.state
    if "cluster" not in state:
        state["cluster"] = _Arrivals(frame)
    found: _Arrivals = state["cluster"]
    return found


def _arrive(frame: Any, _op: Op) -> None:
    arrivals, machine = _arrivals(frame), frame.machine
    lanes = frame.active
    arrivals.by_lane[lanes] += 1
    clusters = lanes // machine.lanes_per_block // arrivals.size
    arrivals.by_cluster += np.bincount(clusters, minlength=len(arrivals.by_cluster))
    machine.num_writes += 1
    frame.fence()


def _begin_waiting(frame: Any, _op: Op) -> Any:
    return _arrivals(frame).by_lane[frame.lanes]


def _is_complete(frame: Any, _op: Op, token: Any) -> Any:
    arrivals = _arrivals(frame)
    return arrivals.by_cluster[frame.blocks // arrivals.size] >= token * arrivals.num_threads


def _map(_frame: Any, _op: Op, address: Any, rank: Any) -> Any:
    return ((rank + np.uint32(1)) << np.uint32(RANK_BIT)) | address


isa.register(
    [
        Row(
            "mapa",
            "mapa.shared::cluster.u32",
            "u32 <- u32 u32",
            ((),),
            _map,
            sm=90,
            ptx=(8, 0),
            layout="{0}, {1}, {2}",
            kind=EFFECT,
        ),
        Row("cluster_arrive", "barrier.cluster.arrive.release", "<-", ((),), _arrive, sm=90, ptx=(7, 8), kind=EFFECT),
        Row(
            "cluster_arrive_relaxed",
            "barrier.cluster.arrive.relaxed",
            "<-",
            ((),),
            _arrive,
            sm=90,
            ptx=(8, 0),
            kind=EFFECT,
        ),
        Row(
            "cluster_wait",
            "barrier.cluster.wait.acquire",
            "<-",
            ((),),
            Wait(_begin_waiting, _is_complete),
            sm=90,
            ptx=(7, 8),
            kind=WAIT,
        ),
    ]
)


def cluster_barrier(k: Builder, *, is_ordering: bool = True) -> None:
    """Wait for all threads of the cluster; orders their memory accesses, for which writes have to be flushed."""
    k.emit("cluster_arrive" if is_ordering else "cluster_arrive_relaxed", types=())
    k.emit("cluster_wait", types=())


def in_block(k: Builder, array: Pointer, rank: Value | int) -> Pointer:
    """Return the place in the shared memory of another block of the cluster where this one's own array is, to read.

    The other block must have written it before a `cluster_barrier` that both have passed, and must not end before it
    has been read: see to that with another one.
    """
    address = k.emit("mapa", array.address(), rank, types=())
    return Pointer(k, address, array.type, CLUSTER, "r", array.shape)


__all__ = ["cluster_barrier", "in_block"]
