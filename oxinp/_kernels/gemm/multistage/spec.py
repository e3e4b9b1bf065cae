"""The Spec of the multistage kernels: types, layouts, what is stored of the matrices, and the tile config."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.gemm.operand import GENERAL, TRIANGULAR, WHOLE

if TYPE_CHECKING:
    from oxinp._kernels.gemm.epilogue import EpilogueSpec
    from oxinp._kernels.gemm.operand import Form
    from oxinp._ptx.types import Type

WARP = 32
SECTOR_NBYTES = 32  # what global memory is read in


class TileConfig(NamedTuple):
    """How a product is cut; the first six as in `MultistageSpec`, and into how many chunks of K."""

    tile_m: int
    tile_n: int
    warp_m: int
    warp_n: int
    depth: int
    num_stages: int
    split_k: int = 1


class MmaShape(NamedTuple):
    """What one instruction of a warp computes.

    Attributes
    ----------
    target : str
        PTX target that it needs.
    height, width, step : int
        Rows and columns of C, and how far along K.
    pad_k_elements, pad_mn_nbytes : int
        What rows of tiles in shared memory are padded by, so that lanes read different banks: of tiles along K, in
        elements or, if 0, as those along M or N; of these, in bytes.
    """

    target: str
    height: int
    width: int
    step: int
    pad_k_elements: int = 0
    pad_mn_nbytes: int = 16

    def pad_nbytes(self, type: Type, major: str) -> int:
        """Return what rows of a tile are padded by."""
        return self.pad_k_elements * type.nbytes if major == "k" and self.pad_k_elements else self.pad_mn_nbytes


MMA_SHAPES = {
    "fma": MmaShape("sm_80", 4, 8, 1),
    # Loads of a half or (16 bytes) a quarter of a warp fill all banks.
    "dmma": MmaShape("sm_90", 16, 8, 8, 4, 32),
    "dmma_k4": MmaShape("sm_90", 16, 8, 4, 4, 32),
    "dmma_sm80": MmaShape("sm_80", 8, 8, 4, 4, 32),
    # The 16-byte rows of a matrix that ldmatrix reads lie on different banks.
    "hmma": MmaShape("sm_80", 16, 16, 16),
}


@dataclass(frozen=True, slots=True)
class MultistageSpec:
    """One kernel of the family.

    Attributes
    ----------
    type, acc, out : Type
        Of the operands, of the sums, of what is written; casts are NumPy's.
    a_major, b_major : str
        The contiguous axis of each: ``"k"`` or ``"mn"``.
    a_copy, b_copy : int
        Bytes that one asynchronous copy takes, 4, 8 or 16: what base, stride and contiguous axis allow. 0: single
        elements, through registers.
    unit : str
        A key of `MMA_SHAPES`: what multiplies.
    tile_m, tile_n : int
        Of C, per block.
    warp_m, warp_n : int
        Of C, per warp.
    depth : int
        Of K per tile.
    num_stages : int
    num_batch : int
        Loops over matrices.
    is_split_k : bool
        Blocks take chunks of K.
    is_guarded : bool
        One more pointer, after those of the matrices, to a u32: where that is 0, nothing is done.
    epilogue : Epilogue, optional
        What becomes of the sums; its inputs are the last parameters before the constants. Not of a Spec that is split.
    a_form, b_form : Form
        What is stored of each.
    c_form : Form
        What is written: all; or what lies in a triangle, and if it is mirrored (``is_mirrored_out``) its image.
    is_mirrored_out : bool
    is_smem_transposed : bool
        Tiles of operands that are contiguous along K, and stored as a whole, are turned on the way, element by element:
        those of `FmaWarpMma`, of 4 or 8 bytes.
    promotion : int
        Of K, a power of two, after which the sums are added to others in shared memory and begin anew; 0: never.
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
    a_form: Form = WHOLE
    b_form: Form = WHOLE
    c_form: Form = WHOLE
    is_mirrored_out: bool = False
    is_smem_transposed: bool = False
    promotion: int = 0

    def with_config(self, config: TileConfig) -> MultistageSpec:
        """The Spec with the tiles of a cut."""
        sizes = {name: size for name, size in config._asdict().items() if name != "split_k"}
        return replace(self, **sizes)

    @property
    def is_plain(self) -> bool:
        """Whether partial results of chunks of K can simply be added."""
        return self.epilogue is None and self.a_form == self.b_form == self.c_form == WHOLE

    @property
    def is_triangle_only(self) -> bool:
        """Whether half of the products are of zeros, or not wanted."""
        return self.c_form.kind != GENERAL or TRIANGULAR in (self.a_form.kind, self.b_form.kind)

    @property
    def num_threads(self) -> int:
        """Threads per block."""
        return self.tile_m // self.warp_m * (self.tile_n // self.warp_n) * WARP

    @property
    def shared_nbytes(self) -> int:
        """Shared memory of a block."""
        panels = sum(
            self.pitch_of(major, extent, form)[1] * self.type.nbytes * self.num_stages
            for major, extent, form in (
                (self.a_major, self.tile_m, self.a_form),
                (self.b_major, self.tile_n, self.b_form),
            )
        )
        return panels + (self.tile_m * self.tile_n * self.acc.nbytes if self.promotion else 0)

    def transposes(self, major: str, form: Form) -> bool:
        """Return whether tiles of an operand run along M or N though it is contiguous along K."""
        return self.is_smem_transposed and major == "k" and form == WHOLE

    def pitch_of(self, major: str, extent: int, form: Form) -> tuple[int, int]:
        """Return elements from one row of a tile to the next, and of a tile."""
        is_smem_transposed = self.transposes(major, form)
        along = "mn" if is_smem_transposed else major
        rows, run = (extent, self.depth) if along == "k" else (self.depth, extent)
        nbytes = MMA_SHAPES[self.mma].pad_nbytes(self.type, along)
        if is_smem_transposed:
            nbytes = max(nbytes, 4 * self.type.nbytes)  # lanes write 32 bytes along K of 4 rows at a time
        pitch = run + nbytes // self.type.nbytes
        return pitch, rows * pitch


__all__ = ["MMA_SHAPES", "SECTOR_NBYTES", "WARP", "MmaShape", "MultistageSpec", "TileConfig"]
