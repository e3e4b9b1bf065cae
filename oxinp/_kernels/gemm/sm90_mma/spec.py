"""The Spec of the mma.sync kernels on Hopper, and shapes of instructions and tiles that they share."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.elementwise.chain import TILE
from oxinp._ptx.tile import operand_box
from oxinp._ptx.tma import SWIZZLE_NBYTES
from oxinp._ptx.types import Type, bf16, c128, f32, f64

if TYPE_CHECKING:
    from oxinp._kernels.gemm.epilogue import EpilogueSpec

WARP = 32
VECTOR = 4  # f32 in 16 bytes
DEPTH_F64, DEPTH_F32 = SWIZZLE_NBYTES // f64.nbytes, SWIZZLE_NBYTES // f32.nbytes  # of K per tile, in reals
BOX_LINES = SWIZZLE_NBYTES // f32.nbytes  # of M or N in a row of a tile of f32 that runs along them
DMMA_M, DMMA_N, DMMA_K = 16, 8, 8  # what one instruction of the tensor cores computes of f64
MMA_M, MMA_N, MMA_K = 16, 8, 16  # of bf16
NUM_TERMS = 3  # bf16 that make an f32
PAD = 4  # words behind a row of sums in shared memory
# Of bf16x3 by wgmma: tiles of C per block and per warp, and buffers for the terms of B: one that is read, one that is
# written, and one that a warpgroup behind the other may still read.
WGMMA_TILE_M, WGMMA_TILE_N, WGMMA_WARP_M, WGMMA_WARP_N = 64, 128, 16, 64
NUM_BUFFERS = 3
# What rows and columns of tiles are multiples of: lines that a warp loads at a time.
LINES = {f64: 16, c128: 8, f32: DEPTH_F32}
WARPGROUPS = (WGMMA_TILE_M, WGMMA_TILE_N, WGMMA_WARP_M, WGMMA_WARP_N, 1, 1)
NAMES = {"k": "k", "mn": "m"}
MAX_MULTIPLIES = 128  # DMMAs of a warp in an unrolled loop; half as many if A and B have the same major axis
SM_REGISTERS, MAX_REGISTERS, OTHER_REGISTERS = 65536, 255, 32


class MmaSpec(NamedTuple):
    """One kernel of the family (sm_90a).

    Attributes
    ----------
    type : Type
        f64 or c128, by DMMA, or f32, by multiply-adds or in bf16x3.
    a_major, b_major : str
        The contiguous axis of each: ``"k"`` or ``"mn"``.
    tile_m, tile_n : int
        Of C, per block.
    warp_m, warp_n : int
        Of C, per warp.
    num_stages : int
        K-blocks in the ring.
    cluster : int
        1, or 2 blocks that share tiles of B by multicast.
    blocks_per_sm : int
        Blocks that registers and shared memory of a multiprocessor have to hold.
    num_k_groups : int
        Of f32: groups of warps that split every k-block among them (sliced-K), 1 or 2.
    is_bf16x3 : bool
        Of f32: multiplied by the tensor cores as three bf16 each, see `bf16x3`.
    is_wgmma : bool
        bf16x3 by wgmma, see `bf16x3_wgmma`.
    is_complex : bool
        bf16x3 of complex matrices, seen as matrices of f32: N and K count reals.
    promotion : int
        Of multiply-adds: elements of K after which accumulators are added to totals in shared memory; 0: never.
    is_batched : bool
        The kernel computes a batch: of matrices, of ranges of K (split-K), or both.
    is_paired : bool
        Rows of C begin at multiples of 16 bytes, as they do with an epilogue; without one, they also end there.
    unroll_k : int
        K-blocks per iteration of the mainloop; `num_stages` and the number of k-blocks are multiples of it.
    epilogue : EpilogueSpec, optional
        Of f64 and c128: what is computed of a sum and the element of a matrix, its one input; see `staged`.
    """

    type: Type = f64
    a_major: str = "k"
    b_major: str = "mn"
    tile_m: int = 64
    tile_n: int = 128
    warp_m: int = 32
    warp_n: int = 32
    num_stages: int = 8
    cluster: int = 2
    blocks_per_sm: int = 1
    num_k_groups: int = 1
    is_bf16x3: bool = False
    is_wgmma: bool = False
    is_complex: bool = False
    promotion: int = 0
    is_batched: bool = False
    is_paired: bool = True
    unroll_k: int = 1
    epilogue: EpilogueSpec | None = None

    @property
    def depth(self) -> int:
        """Elements of K per k-block."""
        return SWIZZLE_NBYTES // self.type.nbytes

    def fitted(self, depth: int) -> MmaSpec:
        """Return the Spec with the largest `unroll_k` that suits a K, and compiles fast enough."""
        longest = 1
        if self.type is not f32:  # whose iterations are long enough, and registers few
            per_buffer = self.warp_m * self.warp_n * len(self.type.parts) * DEPTH_F64 // (DMMA_M * DMMA_N * DMMA_K)
            longest = max(1, MAX_MULTIPLIES // per_buffer // (2 if self.a_major == self.b_major else 1))
        num_steps = math.gcd(-(-depth // self.depth), self.num_stages)
        return self._replace(unroll_k=next(x for x in range(longest, 0, -1) if num_steps % x == 0))

    @property
    def b_depth(self) -> int:
        """Rows of B per k-block."""
        return self.depth // 2 if self.is_complex else self.depth

    @property
    def num_warps(self) -> int:
        """Consumer warps."""
        return self.tile_m // self.warp_m * (self.tile_n // self.warp_n) * self.num_k_groups

    @property
    def block(self) -> int:
        """Threads."""
        return (self.num_warps + (not self.is_wgmma)) * WARP

    @property
    def words(self) -> int:
        """Registers of a thread, about: accumulators, fragments and others."""
        sums = self.warp_m * self.warp_n // WARP * (self.type.nbytes // 4)
        if self.is_bf16x3:
            return sums + (self.warp_m + self.warp_n) // 2 + OTHER_REGISTERS
        if self.type is f32:
            return sums + self.warp_m + self.warp_n // 2 + OTHER_REGISTERS
        left, right = (self.warp_n, self.warp_m) if self.is_transposed else (self.warp_m, self.warp_n)
        return sums + 2 * (left + DMMA_M + 2 * right) * DMMA_K // WARP + OTHER_REGISTERS

    @property
    def is_transposed(self) -> bool:
        """Whether the warps compute the transpose of their tiles of C."""
        return (self.a_major, self.b_major) != ("mn", "k")

    @property
    def max_words(self) -> int:
        """Registers that a thread may have, if the warps are spread evenly over the quarters of a multiprocessor."""
        warps = -(-self.blocks_per_sm * (self.num_warps + 1) // 4) * 4
        return min(MAX_REGISTERS, SM_REGISTERS // (warps * WARP))

    @property
    def shared_nbytes(self) -> int:
        """Shared memory of a block."""
        ring = self.num_stages * ((self.tile_m + self.tile_n) * SWIZZLE_NBYTES + 16)
        if self.is_complex:
            ring -= self.num_stages * self.tile_n * SWIZZLE_NBYTES // 2
        if self.is_wgmma:
            num_terms = NUM_TERMS if self.b_major == "mn" else 4  # one of them is not used, see `SplitB`
            ring += NUM_BUFFERS * num_terms * self.tile_n * self.depth * bf16.nbytes
        if self.is_bf16x3:
            return ring + (self.num_k_groups * self.tile_m * (self.tile_n + PAD) + 2 * self.num_warps) * f32.nbytes
        if self.epilogue is not None:
            ring += self.tile_m * self.tile_n * self.type.nbytes + 16
        return ring + (self.tile_m * self.tile_n * self.num_k_groups * f32.nbytes if self.type is f32 else 0)

    @property
    def name(self) -> str:
        """Entry name."""
        majors = NAMES[self.a_major] + NAMES[self.b_major]
        ways = f"_g{self.num_k_groups}_p{self.promotion}" * (self.type is f32) + "_parts" * self.is_bf16x3
        ways += "_warpgroups" * self.is_wgmma + "_complex" * self.is_complex
        ways += "_sliced" * self.is_batched + "_unpaired" * (not self.is_paired)
        ways += f"_r{self.unroll_k}" * (self.unroll_k > 1) + "_epilogue" * (self.epilogue is not None)
        return (
            f"gemm_native_{self.type}_{majors}_{self.tile_m}x{self.tile_n}_w{self.warp_m}x{self.warp_n}"
            f"_s{self.num_stages}_c{self.cluster}_b{self.blocks_per_sm}{ways}"
        )

    @property
    def num_odd(self) -> int:
        """Elements of a tile that are left over when all threads take four at a time."""
        return self.tile_m * self.tile_n % (VECTOR * self.num_warps * WARP)

    def check(self) -> None:
        """Raise ValueError if there is no such kernel."""
        if self.cluster not in (1, 2) or self.num_stages < 3 or self.blocks_per_sm < 1:
            raise ValueError(f"{self}: no such cluster or ring")
        if self.unroll_k < 1 or self.num_stages % self.unroll_k:
            raise ValueError(f"{self}: the ring is no multiple of the unrolled k-blocks")
        if self.num_k_groups not in ((1, 2) if self.type is f32 else (1,)) or self.promotion % self.depth:
            raise ValueError(f"{self}: no such groups along K, or promotion")
        if ((self.is_bf16x3 or self.promotion) and self.type is not f32) or (self.is_wgmma and not self.is_bf16x3):
            raise ValueError(f"{self}: bf16x3 and totals are of f32, and wgmma multiplies in bf16x3")
        if self.is_complex and (not self.is_bf16x3 or (self.a_major, self.b_major) != ("k", "mn")):
            raise ValueError(f"{self}: complex numbers are multiplied in bf16x3, with rows of A and of B")
        if self.epilogue is not None and (self.type is f32 or [x.kind for x in self.epilogue.chain.inputs] != [TILE]):
            raise ValueError(f"{self}: no such epilogue")
        if self.is_wgmma:
            if (*self[3:7], self.num_k_groups, self.cluster) != WARPGROUPS:
                raise ValueError(f"{self}: warpgroups do not multiply such tiles")
        elif any(size < unit or size % unit for size, unit in zip(self[3:7], self.units * 2, strict=True)):
            raise ValueError(f"{self}: tiles are multiples of {self.units}")
        if self.tile_m % self.warp_m or self.tile_n % self.warp_n or (self.is_bf16x3 and self.num_odd):
            raise ValueError(f"{self}: warps do not make up a tile")
        self.boxes()
        if self.words > self.max_words:
            raise ValueError(f"{self}: accumulators and fragments take {self.words} registers")

    @property
    def units(self) -> tuple[int, int]:
        """What rows and columns of tiles, and of warp tiles, are multiples of."""
        if not self.is_bf16x3:
            return LINES[self.type], LINES[self.type]
        rows = MMA_M if self.a_major == "k" else BOX_LINES
        return rows, MMA_N if self.b_major == "k" else BOX_LINES

    @property
    def multicast(self) -> tuple[int, int]:
        """Blocks that load parts of a tile of A, and of one of B, and multicast them."""
        return 1, self.cluster

    def boxes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return the boxes of TMA loads of A and of B."""
        beside, above = self.multicast
        return (
            operand_box(self.type, self.tile_m, self.depth, self.a_major, beside),
            operand_box(self.type, self.tile_n, self.b_depth, self.b_major, above),
        )


__all__ = [
    "BOX_LINES",
    "DEPTH_F32",
    "DEPTH_F64",
    "DMMA_K",
    "DMMA_M",
    "DMMA_N",
    "MMA_K",
    "MMA_M",
    "MMA_N",
    "NUM_BUFFERS",
    "NUM_TERMS",
    "PAD",
    "VECTOR",
    "WARP",
    "WGMMA_TILE_M",
    "WGMMA_TILE_N",
    "WGMMA_WARP_M",
    "WGMMA_WARP_N",
    "MmaSpec",
]
