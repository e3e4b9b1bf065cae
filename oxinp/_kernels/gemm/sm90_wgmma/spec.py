"""The Spec of the wgmma kernels: types, layouts, tile config, and the variants of sharing and storing."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.gemm.sm90_wgmma.scheduler import DEPTH_NBYTES, NUM_CONSUMERS, ROWS, TILE_M
from oxinp._kernels.gemm.sm90_wgmma.sharing import AnySharing, ClusterSplitK, MulticastB
from oxinp._kernels.gemm.sm90_wgmma.store import AnyStore, BulkColumns32, BulkRows
from oxinp._ptx.tile import operand_box
from oxinp._ptx.types import Type, bf16, e4m3, e5m2, f16, f32, i8, i32, pred, u8

if TYPE_CHECKING:
    from oxinp._kernels.gemm.epilogue import EpilogueSpec

TILES_N = (16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 256)
MAX_PROMOTED = 128  # columns of tiles that have registers for totals as well
NAMES = {"k": "k", "mn": "m"}
# Types of C by those of the operands. Sums of bytes wrap around, as NumPy's; as pred they say whether they are not 0.
OUTS: dict[Type, tuple[Type, ...]] = {
    bf16: (f32, bf16),
    f16: (f32, f16),
    f32: (f32,),
    e4m3: (f32, bf16, f16),
    e5m2: (f32, bf16, f16),
    i8: (i32, i8),
    u8: (i32, u8, pred),
}


class WgmmaSpec(NamedTuple):
    """One kernel of the family (sm_90a).

    Attributes
    ----------
    type : Type
        Of the operands: a key of `OUTS`; f32 is rounded to tf32.
    out : Type
        Of C: that of the sums, or `type`; see `OUTS`. With an epilogue any but complex ones.
    a_major, b_major : str
        The contiguous axis of each: ``"k"`` or ``"mn"``; types that are not of 16 bits have ``"k"`` only, but f32 may
        have an A along M, which then comes through registers.
    tile_n : int
        Columns of C per tile.
    num_stages : int
        K-blocks in the ring.
    sharing : subclass of Sharing
        What the blocks of a cluster share.
    store : subclass of Store
        How C is stored.
    epilogue : EpilogueSpec, optional
    is_batched : bool
        The kernel computes a batch: of matrices, of ranges of K (split-K), or both.
    is_promoted : bool
        After each k-block, accumulators are added to totals, rounded: wgmma truncates what it adds to an accumulator,
        of e4m3 and e5m2 below 2**-13 of the largest term. Takes twice the registers.
    is_serial_split_k : bool
        Blocks compute ranges of K of a tile, and add up their sums one after the other; see `split_k`.
    """

    type: Type
    out: Type
    a_major: str = "k"
    b_major: str = "mn"
    tile_n: int = 256
    num_stages: int = 4
    sharing: AnySharing = MulticastB
    store: AnyStore = BulkRows
    epilogue: EpilogueSpec | None = None
    is_batched: bool = False
    is_promoted: bool = False
    is_serial_split_k: bool = False

    def check(self) -> None:
        """Raise ValueError if there is no such kernel."""
        if self.type not in OUTS or (self.out not in OUTS[self.type] if self.epilogue is None else self.out.is_complex):
            raise ValueError(f"no kernel multiplies {self.type} into {self.out}")
        if self.tile_n not in TILES_N or (self.is_promoted and self.tile_n > MAX_PROMOTED):
            raise ValueError(f"tile_n is one of {TILES_N}, with totals at most {MAX_PROMOTED}, not {self.tile_n}")
        if self.b_major != "k" and self.type.nbytes != f16.nbytes:
            raise ValueError(f"wgmma reads {self.type} operands K-major only")
        if self.is_through_registers is not (self.store is BulkColumns32):
            raise ValueError("columns of f32 are stored in bulk if and only if operands come through registers")
        if self.num_stages < 2:
            raise ValueError(f"a ring needs at least 2 buffers, not {self.num_stages}")
        self.sharing.check(is_serial_split_k=self.is_serial_split_k)
        self.store.check(self.out, self.tile_n, has_epilogue=self.epilogue is not None)
        self.boxes()

    @property
    def cluster(self) -> int:
        """Blocks of a cluster."""
        return self.sharing.size

    @property
    def multicast(self) -> tuple[int, int]:
        """Blocks that load parts of a tile of A, and of one of B, and multicast them."""
        return self.sharing.multicast

    @property
    def depth(self) -> int:
        """Elements of K per k-block."""
        return DEPTH_NBYTES // self.type.nbytes

    @property
    def is_through_registers(self) -> bool:
        """Whether A comes through registers: from shared memory, wgmma reads f32 K-major only."""
        return self.a_major != "k" and self.type is f32

    @property
    def num_storing(self) -> int:
        """Consumer warpgroups that store sums."""
        return NUM_CONSUMERS // 2 if self.sharing is ClusterSplitK else NUM_CONSUMERS

    @property
    def shared_nbytes(self) -> int:
        """Shared memory of a block, without barriers."""
        boxes = self.num_storing * self.store.shared_nbytes(self.out, self.tile_n)
        sums = ROWS * self.tile_n * f32.nbytes if self.sharing is ClusterSplitK else 0
        return self.num_stages * (TILE_M + self.tile_n) * DEPTH_NBYTES + boxes + sums

    def boxes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return the boxes of TMA loads of A and of B; raises ValueError where tiles cannot be loaded."""
        beside, above = self.multicast
        return (
            operand_box(self.type, TILE_M, self.depth, self.a_major, beside),
            operand_box(self.type, self.tile_n, self.depth, self.b_major, above),
        )

    @property
    def name(self) -> str:
        """Entry name."""
        direct, columns, rolled = self.store.ways
        ways = (
            "_sliced" * self.is_batched
            + direct
            + "_promoted" * self.is_promoted
            + f"_{self.sharing.letter}" * (self.sharing.letter != "b")
            + columns
            + "_finished" * (self.epilogue is not None)
            + rolled
            + "_runs" * self.is_serial_split_k
        )
        majors = NAMES[self.a_major] + NAMES[self.b_major]
        return f"gemm_{self.type}_{self.out}_{majors}_{TILE_M}x{self.tile_n}_s{self.num_stages}_c{self.cluster}{ways}"


__all__ = ["NAMES", "OUTS", "TILES_N", "WgmmaSpec"]
