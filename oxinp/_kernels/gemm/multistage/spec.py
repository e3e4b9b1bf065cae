"""The Spec of the multistage kernels: types, layouts, structure of C, warp MMA and tile config."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.gemm.operand import GENERAL, WHOLE, Form
from oxinp._ptx.frozen import Frozen

if TYPE_CHECKING:
    from oxinp._kernels.gemm.epilogue import EpilogueSpec
    from oxinp._ptx.types import Type

WARP = 32
SECTOR_NBYTES = 32  # granularity of reads from global memory


class TileConfig(NamedTuple):
    """Tile sizes of block and warp, stages of the ring, and the split-K factor; fields as in `MultistageSpec`."""

    tile_m: int
    tile_n: int
    warp_m: int
    warp_n: int
    depth: int
    num_stages: int
    split_k: int = 1


class MmaShape(NamedTuple):
    """Shape of one MMA instruction of a warp (for "fma", of a step of its 4 x 8 lanes).

    Attributes
    ----------
    target : str
        PTX target that the instruction needs.
    height, width, step : int
        M, N and K of the instruction.
    pad_k_elements, pad_mn_nbytes : int
        Padding of rows of tiles in shared memory, against bank conflicts: of rows along K, in elements (0: as the
        others), and of rows along M or N, in bytes.
    """

    target: str
    height: int
    width: int
    step: int
    pad_k_elements: int = 0
    pad_mn_nbytes: int = 16

    def pad_nbytes(self, type: Type, major: str) -> int:
        """Return the padding of rows of a tile."""
        return self.pad_k_elements * type.nbytes if major == "k" and self.pad_k_elements else self.pad_mn_nbytes


MMA_SHAPES = {
    "fma": MmaShape("sm_80", 4, 8, 1),
    # With this padding, loads of a half or (16 bytes) a quarter of a warp hit all banks.
    "dmma": MmaShape("sm_90", 16, 8, 8, 4, 32),
    "dmma_k4": MmaShape("sm_90", 16, 8, 4, 4, 32),
    "dmma_sm80": MmaShape("sm_80", 8, 8, 4, 4, 32),
    # With this one, the 16-byte rows of an ldmatrix lie on different banks.
    "hmma": MmaShape("sm_80", 16, 16, 16),
}


class MultistageSpec(Frozen):
    """One kernel of the family.

    Attributes
    ----------
    type, acc, out : Type
        Of the operands, of the accumulators, of C; casts are NumPy's.
    a_major, b_major : str
        The contiguous axis of each: ``"k"`` or ``"mn"``.
    a_copy, b_copy : int
        Bytes of a cp.async, 4, 8 or 16, as base, stride and contiguous axis allow; 0: elements go through registers.
    mma : str
        The warp MMA, a key of `MMA_SHAPES`.
    tile_m, tile_n : int
        Of C, per block.
    warp_m, warp_n : int
        Of C, per warp.
    depth : int
        Of K per k-block.
    num_stages : int
        K-blocks in the ring.
    num_batch : int
        Batch loops.
    is_split_k : bool
        Parallel split-K: blocks of a range of K store partial products, which a reduction sums up.
    is_guarded : bool
        The kernel takes a pointer to a u32, the guard, after those of the matrices, and does nothing where it is 0.
    epilogue : EpilogueSpec, optional
        Its inputs are the last parameters before the constants. Not together with split-K.
    is_a_conjugated, is_b_conjugated : bool
        The factor is the conjugate of a complex matrix.
    c_form : Form
        Which triangle of C is computed, if not all of it.
    is_mirrored_out : bool
        The other triangle of C is stored as well, as the mirror image.
    is_smem_transposed : bool
        Tiles of K-major operands of `FmaWarpMma`, of 4 or 8 bytes and not conjugated, are transposed on their way to
        shared memory, element by element.
    promotion : int
        Elements of K, a power of two, after which accumulators are added to totals in shared memory; 0: never.
    """

    type: Type
    acc: Type
    out: Type
    a_major: str
    b_major: str
    a_copy: int
    b_copy: int
    mma: str
    tile_m: int
    tile_n: int
    warp_m: int
    warp_n: int
    depth: int
    num_stages: int
    num_batch: int = 0
    is_split_k: bool = False
    is_guarded: bool = False
    epilogue: EpilogueSpec | None = None
    is_a_conjugated: bool = False
    is_b_conjugated: bool = False
    c_form: Form = WHOLE
    is_mirrored_out: bool = False
    is_smem_transposed: bool = False
    promotion: int = 0

    def with_config(self, config: TileConfig) -> MultistageSpec:
        """Return the Spec with the sizes of a tile config."""
        sizes = {name: size for name, size in config._asdict().items() if name != "split_k"}
        return self.replace(**sizes)

    @property
    def is_plain(self) -> bool:
        """Whether partial products can simply be added up: all of C is computed, without an epilogue."""
        return self.epilogue is None and self.c_form == WHOLE

    @property
    def is_triangle_only(self) -> bool:
        """Whether only about half of the multiply-adds are needed: those of one triangle of C."""
        return self.c_form.kind != GENERAL

    @property
    def num_threads(self) -> int:
        """Threads per block."""
        return self.tile_m // self.warp_m * (self.tile_n // self.warp_n) * WARP

    @property
    def shared_nbytes(self) -> int:
        """Shared memory of a block."""
        panels = sum(
            self.pitch_of(major, extent, is_conjugated)[1] * self.type.nbytes * self.num_stages
            for major, extent, is_conjugated in (
                (self.a_major, self.tile_m, self.is_a_conjugated),
                (self.b_major, self.tile_n, self.is_b_conjugated),
            )
        )
        return panels + (self.tile_m * self.tile_n * self.acc.nbytes if self.promotion else 0)

    def transposes(self, major: str, is_conjugated: bool) -> bool:
        """Return whether tiles of an operand are transposed on their way to shared memory."""
        return self.is_smem_transposed and major == "k" and not is_conjugated

    def pitch_of(self, major: str, extent: int, is_conjugated: bool) -> tuple[int, int]:
        """Return the pitch of a tile in shared memory, and its size, in elements."""
        is_transposed = self.transposes(major, is_conjugated)
        along = "mn" if is_transposed else major
        rows, run = (extent, self.depth) if along == "k" else (self.depth, extent)
        nbytes = MMA_SHAPES[self.mma].pad_nbytes(self.type, along)
        if is_transposed:
            nbytes = max(nbytes, 4 * self.type.nbytes)  # lanes write 32 bytes along K of 4 rows at a time
        pitch = run + nbytes // self.type.nbytes
        return pitch, rows * pitch


__all__ = ["MMA_SHAPES", "SECTOR_NBYTES", "WARP", "MmaShape", "MultistageSpec", "TileConfig"]
