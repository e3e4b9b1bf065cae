"""TMA (sm_90): bulk tensor copies of boxes of arrays between global and shared memory, issued by one thread.

A tensor map describes an array in global memory and the box that one instruction copies; it travels as a 128-byte
by-value parameter. `MapSpec` is what the host has to encode into it. Boxes may stick out of the array: elements
outside read as zero and are not written, but count as bytes copied.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from oxinp._ptx import isa
from oxinp._ptx.gpu_only import refuse, refuse_to_wait
from oxinp._ptx.isa import EFFECT, WAIT, Op, Row
from oxinp._ptx.types import Type, i32, u16, u32, u64
from oxinp._ptx.value import Value

if TYPE_CHECKING:
    from oxinp._ptx.builder import Builder
    from oxinp._ptx.mbarrier import Slot

SWIZZLE_NBYTES = 128
MAX_BOX_EXTENT = 256
MAX_KEPT = 256  # maps
ALIGN = 16  # of base address and pitches

isa.register(
    [
        Row(
            "prefetch_map",
            "prefetch.tensormap",
            "<- u64",
            ((),),
            refuse,
            sm=90,
            ptx=(8, 0),
            layout="[{0}]",
            kind=EFFECT,
        ),
        Row("fence_proxy_async", "fence.proxy.async.shared::cta", "<-", ((),), refuse, sm=90, ptx=(8, 0), kind=EFFECT),
        Row("bulk_commit", "cp.async.bulk.commit_group", "<-", ((),), refuse, sm=90, ptx=(8, 0), kind=EFFECT),
    ]
)


@dataclass(frozen=True, slots=True)
class MapSpec:
    """What a tensor map describes.

    Attributes
    ----------
    type : Type
        Element type, complex ones included.
    rounds_to_tf32 : bool
        Whether copies round f32 to tf32.
    shape : tuple of int
        Extents of the array, innermost last; rows take a multiple of 16 bytes (shorter ones were seen to be written
        to the end of the 16 bytes, H200).
    strides_nbytes : tuple of int
        Byte distances along all axes but the last, multiples of 16.
    box : tuple of int
        Extents of one copy, innermost last, each at most 256.
    swizzle_nbytes : int
        0 or 128: within 8 rows of 128 bytes, 16-byte chunk c of row r is stored at c ^ (r & 7).
    """

    type: Type
    shape: tuple[int, ...]
    strides_nbytes: tuple[int, ...]
    box: tuple[int, ...]
    swizzle_nbytes: int = SWIZZLE_NBYTES
    rounds_to_tf32: bool = False

    def __post_init__(self) -> None:
        if not len(self.box) == len(self.shape) == len(self.strides_nbytes) + 1:
            raise ValueError(f"{self}: shape, box and strides do not belong together")
        row_nbytes = self.shape[-1] * self.type.nbytes
        bits = row_nbytes
        for nbytes in self.strides_nbytes:
            bits |= nbytes
        if bits % ALIGN:  # of which the lowest bits count
            raise ValueError(f"rows of {row_nbytes} bytes, strides {self.strides_nbytes}: multiples of {ALIGN} needed")
        if not 1 <= min(self.box) <= max(self.box) <= MAX_BOX_EXTENT:
            raise ValueError(f"box {self.box} has an extent outside 1 to {MAX_BOX_EXTENT}")
        inner = self.box[-1] * self.type.nbytes
        if inner % ALIGN or (self.swizzle_nbytes and inner > self.swizzle_nbytes):
            raise ValueError(f"box rows of {inner} bytes: a multiple of {ALIGN} up to the swizzle is needed")

    def in_parts(self) -> MapSpec:
        """The same map over elements that TMA knows: complex numbers as pairs of floats."""
        part, *others = self.type.parts
        if not others:
            return self
        shape, box = ((*extents[:-1], extents[-1] * len(self.type.parts)) for extents in (self.shape, self.box))
        return replace(self, type=part, shape=shape, box=box)

    @property
    def box_nbytes(self) -> int:
        """Bytes of one box."""
        nbytes = self.type.nbytes
        for extent in self.box:
            nbytes *= extent
        return nbytes


@lru_cache(MAX_KEPT)
def matrix_map(type: Type, shape: tuple[int, int], pitch_nbytes: int, box: tuple[int, int]) -> MapSpec:
    """Return the map of a matrix: where only one operand of a product has another size, that of the other is kept."""
    return MapSpec(type, shape, (pitch_nbytes,), box)


class MatrixMaps:
    """The maps of matrices that are alike but for their extents; one object for each kind, which is its own key.

    Attributes
    ----------
    type, box
        As in `MapSpec`.
    pitch_nbytes : int
        Byte distance of lines.
    """

    __slots__ = ("box", "pitch_nbytes", "type")

    def __init__(self, type: Type, pitch_nbytes: int, box: tuple[int, int]) -> None:
        self.type, self.pitch_nbytes, self.box = type, pitch_nbytes, box

    def spec(self, shape: tuple[int, int]) -> MapSpec:
        """Return the map of a matrix of these extents."""
        return matrix_map(self.type, shape, self.pitch_nbytes, self.box)


matrix_maps = lru_cache(MAX_KEPT)(MatrixMaps)


_OPS: dict[tuple[Any, ...], Op] = {}


def _coordinates(rank: int, first: int) -> str:
    # PTX counts the innermost axis first
    return "{{" + ", ".join(f"{{{first + axis}}}" for axis in reversed(range(rank))) + "}}"


def _load_op(rank: int, *, is_multicast: bool) -> Op:
    op = _OPS.get(("load", rank, is_multicast))
    if op is None:
        end = rank + 2
        text = (
            f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
            f"{'.multicast::cluster' if is_multicast else ''} [{{0}}], [{{1}}, {_coordinates(rank, 2)}], [{{{end}}}]"
            f"{f', {{{end + 1}}}' if is_multicast else ''};"
        )
        src = (u32, u64, *(i32,) * rank, u32, *(u16,) * is_multicast)
        op = _OPS["load", rank, is_multicast] = Op("tma_load", text, (), src, refuse, EFFECT, 90, (8, 0))
    return op


def _store_op(rank: int) -> Op:
    op = _OPS.get(("store", rank))
    if op is None:
        text = (
            f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group "
            f"[{{0}}, {_coordinates(rank, 1)}], [{{{rank + 1}}}];"
        )
        op = _OPS["store", rank] = Op("tma_store", text, (), (u64, *(i32,) * rank, u32), refuse, EFFECT, 90, (8, 0))
    return op


def _wait_op(num_pending: int, *, is_read: bool) -> Op:
    op = _OPS.get(("wait", num_pending, is_read))
    if op is None:
        text = f"cp.async.bulk.wait_group{'.read' if is_read else ''} {num_pending};"
        op = _OPS["wait", num_pending, is_read] = Op("bulk_wait", text, (), (), refuse_to_wait, WAIT, 90, (8, 0))
    return op


class TensorMap:
    """A tensor map parameter of the kernel.

    Parameters
    ----------
    k : Builder
    name : str
        Name of the parameter.
    rank : int
        Axes of the array.
    """

    def __init__(self, k: Builder, name: str, rank: int) -> None:
        self.builder = k
        self.rank = rank
        self.address = k.parameter_block(name)

    def prefetch(self) -> None:
        """Prefetch the tensor map into the descriptor cache."""
        self.builder.emit("prefetch_map", self.address, types=())

    def load(self, to: Value, position: tuple[Any, ...], slot: Slot, multicast: int = 0) -> None:
        """Issue the load of a box into shared memory; one thread calls it.

        Parameters
        ----------
        to : Value
            Shared address, u32; 128-byte aligned, 1024 if swizzled.
        position : tuple of int or Value
            Element where the box begins, innermost axis last; along that, parts of complex ones are counted.
        slot : Slot
            The buffer filled, whose barrier counts the bytes.
        multicast : int
            Bit mask of the blocks of the cluster that receive the box at this same place; 0: this block only.
        """
        op = _load_op(self.rank, is_multicast=bool(multicast))
        k = self.builder
        last = (k.const(multicast, u16),) if multicast else ()
        k.emit_op(op, to, self.address, *self._position(position), slot.barrier, *last)

    def store(self, position: tuple[Any, ...], source: Value) -> None:
        """Issue the store of a box from shared memory; one thread calls it, then `commit_stores`."""
        self.builder.emit_op(_store_op(self.rank), self.address, *self._position(position), source)

    def _position(self, position: tuple[Any, ...]) -> list[Any]:
        if len(position) != self.rank:
            raise IndexError(f"{len(position)} coordinates for an array of {self.rank} dimensions")
        k = self.builder
        return [k.bitcast(i, i32) if isinstance(i, Value) and i.type is u32 else i for i in position]


def commit_stores(k: Builder) -> None:
    """Commit the stores this thread has started as a bulk group."""
    k.emit("bulk_commit", types=())


def wait_stores(k: Builder, num_pending: int = 0, *, is_read: bool = True) -> None:
    """Wait until at most the latest `num_pending` bulk groups of this thread are pending.

    With `is_read` until their shared memory may be written again (and, before the kernel ends, freed); else until
    their bytes have arrived.
    """
    k.emit_op(_wait_op(num_pending, is_read=is_read))


def publish_shared(k: Builder) -> None:
    """Fence this thread's writes to shared memory for the async proxy (TMA, wgmma); a barrier has to follow."""
    k.emit("fence_proxy_async", types=())


__all__ = ["MapSpec", "MatrixMaps", "TensorMap", "commit_stores", "publish_shared", "wait_stores"]
