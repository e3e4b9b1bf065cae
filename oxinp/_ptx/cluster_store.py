"""Stores into the shared memory of other blocks of a cluster that an mbarrier of the receiver counts (st.async, sm_90).

A receiver says how many bytes are to come and waits for these: no barrier of the cluster, and no fence, for which every
thread would wait until all that it has written anywhere is seen by the whole device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp._ptx import isa
from oxinp._ptx.isa import EFFECT, WAIT, Op, Row, Wait
from oxinp._ptx.mbarrier import spinning
from oxinp._ptx.memory import CLUSTER, Access, Pointer
from oxinp._ptx.types import f32, f64, u32, u64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._ptx.builder import Builder
    from oxinp._ptx.emulator.frame import Array, Frame
    from oxinp._ptx.value import Value

_HERE = np.zeros(1, np.int32)
WORDS = 4  # of 32 bits, that are stored together


class _Barriers:
    """The mbarriers of a launch on the emulator, by their position: of one arrival each."""

    def __init__(self) -> None:
        self.nbytes: dict[int, int] = {}  # that are to come, less those that came
        self.has_arrived: dict[int, bool] = {}
        self.phases: dict[int, int] = {}

    @classmethod
    def of(cls, frame: Frame) -> _Barriers:
        """Return those of the launch."""
        found = frame.machine.state.setdefault("cluster_store", cls())
        assert isinstance(found, cls)
        return found

    def initialise(self, place: int) -> None:
        """Begin with phase 0."""
        self.nbytes[place], self.has_arrived[place], self.phases[place] = 0, False, 0

    def count(self, place: int, nbytes: int, *, is_arrival: bool = False) -> None:
        """Count bytes that are to come, or fewer, and an arrival."""
        self.nbytes[place] += nbytes
        self.has_arrived[place] |= is_arrival
        if self.has_arrived[place] and not self.nbytes[place]:
            self.has_arrived[place] = False
            self.phases[place] += 1


def _places(frame: Frame, space: str, address: Array) -> Array:
    """Positions of the active lanes' barriers."""
    places = frame.over_lanes(frame.locate(space, address))
    return places if frame.mask is None else places[frame.mask]


def _initialise(frame: Frame, _op: Op, address: Array, _count: Array) -> None:
    barriers = _Barriers.of(frame)
    for place in _places(frame, "shared", address).tolist():
        barriers.initialise(place)


def _expect(frame: Frame, _op: Op, address: Array, nbytes: Array) -> None:
    barriers, sizes = _Barriers.of(frame), frame.over_lanes(nbytes)
    sizes = sizes if frame.mask is None else sizes[frame.mask]
    for place, size in zip(_places(frame, "shared", address).tolist(), sizes.tolist(), strict=True):
        barriers.count(place, size, is_arrival=True)
    frame.machine.num_writes += 1


def _store(frame: Frame, op: Op, address: Array, *operands: Array) -> None:
    *values, barrier = operands
    access = Access(CLUSTER, op.src[1], len(values), "")
    frame.store(access, address, _HERE, values)
    barriers = _Barriers.of(frame)
    for place in _places(frame, CLUSTER, barrier).tolist():
        barriers.count(place, -access.nbytes)


def _begin_waiting(_frame: Frame, _op: Op, _address: Array, _parity: Array) -> None:
    return None


def _is_complete(frame: Frame, _op: Op, _token: Any, address: Array, parity: Array) -> Array:
    phases = _Barriers.of(frame).phases
    places, inverse = np.unique(frame.over_lanes(frame.locate("shared", address)), return_inverse=True)
    numbers = np.array([phases[place] for place in places.tolist()])[inverse]
    complete: Array = numbers % 2 != frame.over_lanes(parity)
    return complete


def _fence(frame: Frame, _op: Op) -> None:
    frame.fence()


_INIT_FENCE = "fence.mbarrier_init.release.cluster"
# The scope is the block, as of what the asynchronous units bring: who waits at the cluster's scope invalidates all of
# the L1 cache, warp by warp (seen as CCTL.IVALL).
_WAIT = Op(
    "counted_wait",
    spinning("cta"),
    (),
    (u32, u32),
    Wait(_begin_waiting, _is_complete),
    WAIT,
    90,
    (8, 0),
)


def _row(name: str, opcode: str, signature: str, ref: Any, layout: str, types: Any = ((),)) -> Row:
    return Row(name, opcode, signature, types, ref, sm=90, ptx=(8, 1), layout=layout, kind=EFFECT)


isa.register(
    [
        _row("counted_init", "mbarrier.init.shared::cta.b64", "<- u32 u32", _initialise, "[{0}], {1}"),
        Row("counted_init_fence", _INIT_FENCE, "<-", ((),), _fence, sm=90, ptx=(8, 0), kind=EFFECT),
        _row(
            "counted_expect",
            "mbarrier.arrive.expect_tx.release.cta.shared::cta.b64",
            "<- u32 u32",
            _expect,
            "_, [{0}], {1}",
        ),
        _row(
            "counted_store",
            "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.{b}",
            "<- u32 t u32",
            _store,
            "[{0}], {1}, [{2}]",
            ((f32,), (f64,), (u32,)),
        ),
        _row(
            "counted_store_pair",
            "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.{b}",
            "<- u32 t t u32",
            _store,
            "[{0}], {{{1}, {2}}}, [{3}]",
            ((f32,), (f64,)),
        ),
        _row(
            "counted_store_words",
            "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32",
            "<- u32 u32 u32 u32 u32 u32",
            _store,
            "[{0}], {{{1}, {2}, {3}, {4}}}, [{5}]",
        ),
    ]
)


class ClusterStores:
    """What the blocks of a cluster store into each other's shared memory, round by round, in two slots by turns.

    Every block expects and awaits the bytes of each round. A block may store for a round once it has what all others
    stored for the one before, and once its threads have read what came for the one before that. Made in all threads;
    a `cluster_barrier` has to follow before the first store.

    Parameters
    ----------
    k : Builder
    """

    def __init__(self, k: Builder) -> None:
        self.k = k
        self.slots = k.dynamic_shared(u64, 2, align=8)
        with k.when(k.tid == 0):
            for slot in range(2):
                k.emit("counted_init", self.slots.address(slot), 1, types=())
            k.emit("counted_init_fence", types=())

    def expect(self, number: Value | int, nbytes: Value | int) -> None:
        """Expect so many bytes for a round; called by one thread, which has waited for the round two before."""
        self.k.emit("counted_expect", self.slots.address(number % 2), nbytes, types=())

    def store(self, number: Value | int, array: Pointer, index: Any, value: Value, rank: Value | int) -> None:
        """Store a value at a place of another block's array, for a round."""
        k, there, barrier = self.k, *self._there(number, array, index, rank)
        for i, part in enumerate(value.parts):
            place = there + i * part.type.nbytes if i else there
            k.emit("counted_store", place, part, barrier, types=(part.type,))

    def block(self, number: Value | int, array: Pointer, rank: Value | int) -> tuple[Pointer, Value]:
        """Return another block's array, to store pairs into, and where that counts those of a round."""
        there, barrier = self._there(number, array, 0, rank)
        return Pointer(self.k, there, array.type, CLUSTER, "w"), barrier

    def store_pair(self, block: tuple[Pointer, Value], index: Any, value: Value) -> None:
        """Store a value of two equal parts, aligned to both, at a place of what `block` gives."""
        array, barrier = block
        first, second = value.parts
        self.k.emit("counted_store_pair", array.address(index), first, second, barrier, types=(first.type,))

    def store_words(
        self, number: Value | int, array: Pointer, index: Any, words: Sequence[Any], rank: Value | int
    ) -> None:
        """Store 4 words, aligned to all of them, at a place of another block's array, for a round."""
        there, barrier = self._there(number, array, index, rank)
        self.k.emit("counted_store_words", there, *words, barrier, types=())

    def _there(self, number: Value | int, array: Pointer, index: Any, rank: Value | int) -> tuple[Value, Value]:
        here, barrier = array.address(index), self.slots.address(number % 2)
        there = self.k.emit("mapa", here, rank, types=())
        return there, there + (barrier - here)  # as far apart in every block

    def wait(self, number: Value | int) -> None:
        """Wait for all bytes of a round."""
        k = self.k
        parity = k.const(number // 2 % 2, u32) if isinstance(number, int) else number / 2 % 2
        k.emit_op(_WAIT, self.slots.address(number % 2), parity)


__all__ = ["WORDS", "ClusterStores"]
