"""Asynchronous copies from global to shared memory: cp.async of 4 to 16 bytes per thread, and bulk copies.

`AsyncCopies` issues cp.async (sm_80) and commits them in groups. A thread sees its own copies after `wait`, the other
threads see them after a barrier behind that. The emulator writes the copied bytes at the wait, not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp._ptx.gpu_only import refuse
from oxinp._ptx.isa import EFFECT, Op
from oxinp._ptx.memory import Access, Pointer
from oxinp._ptx.types import i32, u8, u32, u64
from oxinp._ptx.value import Value, immediate

if TYPE_CHECKING:
    from oxinp._ptx.builder import Builder
    from oxinp._ptx.emulator.frame import Array, Frame
    from oxinp._ptx.mbarrier import Slot

NUM_BYTES = (4, 8, 16)
BULK_ALIGN = 16
_PIECES = (16, 8, 4, 2, 1)
_HERE = np.zeros(1, np.int32)
# How the emulator reads so many bytes of one lane: all of them, or the first of those that are there.
_WORDS = {nbytes: Access("global", u32, nbytes // 4, "") for nbytes in NUM_BYTES}
_BYTES = {nbytes: Access("global", u8, nbytes, "") for nbytes in _PIECES}
_STORES = {nbytes: Access("shared", u32, nbytes // 4, "") for nbytes in NUM_BYTES}
_OPS: dict[tuple[Any, ...], Op] = {}


class _Landing:
    """Copies in flight on the emulator: per lane, in commit groups."""

    def __init__(self, num_lanes: int) -> None:
        self.num_groups = np.zeros(num_lanes, np.int64)  # closed by each lane
        # Destination addresses, lanes, their open group when they started, and words as (copied, lanes)
        self.copies: list[tuple[Array, Array, Array, Array]] = []

    @classmethod
    def of(cls, frame: Frame) -> _Landing:
        """Return the copies in flight of the launch."""
        machine = frame.machine
        landing = machine.state.get("async_copy")
        if landing is None:
            num_lanes = machine.lanes_per_block * machine.grid[0] * machine.grid[1] * machine.grid[2]
            landing = machine.state["async_copy"] = cls(num_lanes)
        assert isinstance(landing, cls)
        return landing


def _copy(frame: Frame, op: Op, to: Array, to_offset: Array, source: Array, offset: Array, valid: Array) -> None:
    nbytes, mask, active = op.detail, frame.mask, frame.active
    start = int(offset[0])
    if len(valid) == 1 and int(valid[0]) == nbytes:
        data = _over_lanes(frame, frame.load(_WORDS[nbytes], source, offset))
    else:
        data = _load_part(frame, nbytes, source, start, frame.over_lanes(valid))
    landing = _Landing.of(frame)
    addresses = frame.over_lanes(to + to_offset.astype(to.dtype))
    if mask is not None:
        addresses, data = addresses[mask], data[:, mask]
    landing.copies.append((addresses, active, landing.num_groups[active], data))


def _over_lanes(frame: Frame, rows: Array) -> Array:
    return rows if rows.shape[1] == frame.num_lanes else np.broadcast_to(rows, (len(rows), frame.num_lanes))


def _load_part(frame: Frame, nbytes: int, source: Array, start: int, sizes: Array) -> Array:
    """Load the first `sizes` bytes of each lane; the others are zero, and not read."""
    data = np.zeros((nbytes // 4, frame.num_lanes), np.uint32)
    in_bytes = data.view(np.uint8).reshape(*data.shape, 4)
    mask = frame.mask
    everyone = np.ones(frame.shape, np.bool_) if mask is None else mask
    for size in np.unique(sizes[everyone]):
        if not size:
            continue
        frame.mask, first = everyone & (sizes == size), 0
        if size == nbytes:
            read = frame.load(_WORDS[nbytes], source, np.asarray([start], np.int32))
            np.copyto(data, read, where=frame.mask)
            continue
        for piece in _PIECES:
            if size - first >= piece:
                read = frame.load(_BYTES[piece], source, np.asarray([start + first], np.int32))
                for i, byte in enumerate(_over_lanes(frame, read), first):
                    in_bytes[i // 4, :, i % 4][frame.mask] = byte[frame.mask]
                first += piece
    frame.mask = mask
    return data


def _commit(frame: Frame, _op: Op) -> None:
    _Landing.of(frame).num_groups[frame.active] += 1


def _wait(frame: Frame, op: Op) -> None:
    landing, following = _Landing.of(frame), []
    mask, active = frame.mask, frame.active
    for addresses, lanes, groups, data in landing.copies:
        lands = groups < landing.num_groups[lanes] - op.detail
        if lanes is not active:
            is_here = np.zeros(len(landing.num_groups), np.bool_)
            is_here[active] = True
            lands &= is_here[lanes]
        num_landing = np.count_nonzero(lands)
        if num_landing == len(lands) == frame.num_lanes:  # one of every lane, in order
            frame.mask = None
            frame.store(_STORES[4 * len(data)], addresses, _HERE, list(data))
        elif num_landing:
            places = np.searchsorted(frame.lanes, lanes[lands])
            frame.mask = np.zeros(frame.shape, np.bool_)
            frame.mask[places] = True
            spread_addresses = np.zeros(frame.shape, addresses.dtype)
            spread_addresses[places] = addresses[lands]
            spread_data = np.zeros((len(data), frame.num_lanes), data.dtype)
            spread_data[:, places] = data[:, lands]
            frame.store(_STORES[4 * len(data)], spread_addresses, _HERE, list(spread_data))
        if num_landing < len(lands):
            stay = ~lands
            following.append((addresses[stay], lanes[stay], groups[stay], data[:, stay]))
    frame.mask, landing.copies = mask, following


def copy_op(nbytes: int) -> Op:
    """Instruction form of one cp.async; the last operand is its src-size: bytes beyond are zero-filled."""
    op = _OPS.get(("copy", nbytes))
    if op is None:
        if nbytes not in NUM_BYTES:
            raise ValueError(f"cp.async copies {', '.join(map(str, NUM_BYTES))} bytes, not {nbytes}")
        # cg does not go through the first-level cache, and has 16 bytes only
        cache = "cg" if nbytes == 16 else "ca"
        text = f"cp.async.{cache}.shared.global [{{0}}+{{1}}], [{{2}}+{{3}}], {nbytes}, {{4}};"
        op = _OPS["copy", nbytes] = Op("cp_async", text, (), (u32, i32, u64, i32, u32), _copy, EFFECT, detail=nbytes)
    return op


def wait_op(num_pending: int) -> Op:
    """Instruction form of cp.async.wait_group."""
    op = _OPS.get(("wait", num_pending))
    if op is None:
        text = f"cp.async.wait_group {num_pending};"
        op = _OPS["wait", num_pending] = Op("cp_async_wait", text, (), (), _wait, EFFECT, detail=num_pending)
    return op


COMMIT = Op("cp_async_commit", "cp.async.commit_group;", (), (), _commit, EFFECT)
_BULK = Op(
    "bulk_load",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [{0}], [{1}], {2}, [{3}];",
    (),
    (u32, u64, u32, u32),
    refuse,
    EFFECT,
    90,
    (8, 0),
)

_PREFETCH = Op(
    "bulk_prefetch",
    "cp.async.bulk.prefetch.L2.global [{0}], {1};",
    (),
    (u64, u32),
    lambda frame, op, address, nbytes: None,  # noqa: ARG005 - a hint
    EFFECT,
    90,
    (8, 0),
)


class AsyncCopies:
    """The cp.async of each thread, in commit groups that complete in order.

    Parameters
    ----------
    k : Builder
    """

    def __init__(self, k: Builder) -> None:
        self.builder = k

    def start(self, to: Pointer, source: Pointer, nbytes: int = 16, valid_nbytes: Any = None) -> None:
        """Start copying `nbytes` bytes from global to shared memory, both aligned to them.

        Parameters
        ----------
        to, source : Pointer
        nbytes : int
            4, 8 or 16.
        valid_nbytes : int or Value, optional
            The src-size: bytes read from global memory; the others are zero-filled.
        """
        if to.space != "shared" or source.space != "global":
            raise TypeError("asynchronous copies go from global to shared memory")
        valid = nbytes if valid_nbytes is None else valid_nbytes
        places = (to.base, immediate(to.offset, i32), source.base, immediate(source.offset, i32))
        self.builder.emit_op(copy_op(nbytes), *places, valid)

    def commit(self) -> None:
        """Commit the copies started since the last commit as a group; it may be empty."""
        self.builder.emit_op(COMMIT)

    def wait(self, num_pending: int = 0) -> None:
        """Wait until at most the latest `num_pending` groups of this thread are pending."""
        self.builder.emit_op(wait_op(num_pending))


def bulk_load(k: Builder, to: Pointer, source: Pointer, nbytes: Any, slot: Slot) -> None:
    """Start copying consecutive bytes from global to shared memory (sm_90); one thread calls it.

    Parameters
    ----------
    to, source : Pointer
        16-byte aligned.
    nbytes : int or Value
        A multiple of 16.
    slot : Slot
        The buffer filled, whose barrier counts the bytes.
    """
    if not isinstance(nbytes, Value) and nbytes % BULK_ALIGN:
        raise ValueError(f"a bulk copy moves a multiple of {BULK_ALIGN} bytes, not {nbytes}")
    k.emit_op(_BULK, to.address(), source.address(), nbytes, slot.barrier)


def bulk_prefetch(k: Builder, address: Value, nbytes: Any) -> None:
    """Have the second-level cache fetch consecutive bytes of global memory (sm_90), for each thread that calls.

    Parameters
    ----------
    address : Value
        u64, a multiple of 16.
    nbytes : int or Value
        A multiple of 16.
    """
    k.emit_op(_PREFETCH, address, nbytes)


__all__ = ["AsyncCopies", "bulk_load", "bulk_prefetch", "copy_op", "wait_op"]
