"""Matrix products modulo p by wgmma on Hopper, for all moduli: int8 residues in, u8 residues out.

Data layout: per modulus one plane of A and one of B, or `planes_per_modulus` of each, one below the other (see
`residues`): signed bytes, lines along K, their pitch a multiple of 128 bytes; the lines of B are spread. C is as many
planes of bytes, 0 to p - 1, rows `pitch` bytes apart. In shared memory there is a ring of `num_stages` k-blocks,
128 x 128 bytes of A and `tile_n` x 128 bytes of B, swizzled as wgmma reads them. Tiles that stick out of a plane read
on in the next one; those results are not stored, or lie in padding.

Who owns what: persistent blocks of three warpgroups. One thread of warpgroup 0, the producer, keeps the ring full by
TMA. Warpgroups 1 and 2, the consumers, own 64 rows of C each, in registers. In a cluster of two, the blocks work on
tiles one above the other, and each loads half of the common tile of B for both.

Algorithm: modulus by modulus, each in an order that keeps concurrent tiles in a near-square region. Sums of K products
are exact in 32 bits up to K = 2**16; they are reduced to 0 to p - 1 by multiplying with the reciprocal. Since the
columns are spread, a thread has 16 neighbours of a row and stores them at once. After the first range of K, results are
added to what C is.

Per element of C and modulus: 2 K integer operations, one byte written, and after the first range of K one read.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, ClassVar

from oxinp._kernels.gemm.ozaki.moduli import MODULI
from oxinp._kernels.gemm.ozaki.residues import GROUP, SPAN
from oxinp._kernels.gemm.sm90_wgmma.mainloop import builder_of, consume, divide, produce
from oxinp._kernels.gemm.sm90_wgmma.scheduler import NUM_CONSUMERS, TILE_M, TileScheduler
from oxinp._kernels.plan import Launch, Plan, inputs, outputs
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.mbarrier import Consumer, Pipeline
from oxinp._ptx.synchronize import follow
from oxinp._ptx.tile import OperandTile, operand_box
from oxinp._ptx.tma import MapSpec, TensorMap
from oxinp._ptx.types import Type, i8, i32, i64, u8, u32

if TYPE_CHECKING:
    from oxinp._ptx import Builder, Kernel
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value
    from oxinp._ptx.wgmma import Accumulator, Totals

MAX_DEPTH = 1 << 16
BIAS = 1 << 31  # added to sums, with the rest to a multiple of p, to make them unsigned


@dataclass(frozen=True, slots=True)
class OzakiSpec:
    """One kernel of the family (sm_90a).

    Attributes
    ----------
    tile_n : int
        Columns of C per tile: 64, 128, 192 or 256.
    num_stages : int
    cluster : int
        1 or 2.
    band : int
        Tiles along M that concurrent blocks work on.
    planes_per_modulus : int
        Planes per modulus.
    is_accumulated : bool
        Products are added to what C is.
    """

    tile_n: int = 256
    num_stages: int = 4
    cluster: int = 2
    band: int = 16
    planes_per_modulus: int = 1
    is_accumulated: bool = False

    type: ClassVar[Type] = i8
    depth: ClassVar[int] = SPAN
    is_promoted: ClassVar[bool] = False
    is_through_registers: ClassVar[bool] = False

    @property
    def multicast(self) -> tuple[int, int]:
        """Blocks that load parts of a tile of A, and of one of B, and multicast them."""
        return 1, self.cluster

    @property
    def name(self) -> str:
        """Entry name."""
        ways = f"s{self.num_stages}_c{self.cluster}_b{self.band}_p{self.planes_per_modulus}"
        return f"gemm_residues_{TILE_M}x{self.tile_n}_{ways}{'_added' * self.is_accumulated}"


def plan(
    spec: OzakiSpec, rows: tuple[int, int], columns: tuple[int, int], pitch: int, num_planes: int, num_sms: int
) -> Plan:
    """Return the plan of C = A @ B, the output and the last inputs being planes: one launch.

    The first input is the number of moduli (i32; 0: nothing is done).

    Parameters
    ----------
    rows, columns : tuple of int
        Of C, and lines from one plane of A or B to the next; for columns, the latter is a multiple of 64 and C's pitch.
    pitch : int
        Bytes from one line of A or B to the next: K, padded with zeros.
    num_planes : int
        Planes of A, B and C, of all moduli.
    num_sms : int
    """
    (m, a_lines), (n, b_lines) = rows, columns
    a_box = operand_box(i8, TILE_M, SPAN, "k", 1)
    b_box = operand_box(i8, spec.tile_n, SPAN, "k", spec.cluster)
    num_m = -(-m // (TILE_M * spec.cluster)) * spec.cluster
    num_n = -(-n // spec.tile_n)
    blocks = min(num_sms // spec.cluster * spec.cluster, num_m * num_n * num_planes)
    maps = (
        MapSpec(u8, (num_planes * a_lines, pitch), (pitch,), a_box),
        MapSpec(u8, (num_planes * b_lines, pitch), (pitch,), b_box),
    )
    planes = [x._replace(map=each) for x, each in zip(inputs(2, 1), maps, strict=True)]
    constants = (num_m, num_n, pitch // SPAN, m, a_lines, b_lines)
    return Plan((Launch(make(spec), (blocks, 1, 1), (*outputs(1), *inputs(1), *planes), constants),))


@cache
@retraceable
def make(spec: OzakiSpec) -> Kernel:
    """Return the kernel of a Spec; for its parameters see `plan`."""
    k = builder_of(spec)
    c, count = k.pointer("c", u32, "rw" if spec.is_accumulated else "w"), k.pointer("count", i32, "r")
    a_map, b_map = (TensorMap(k, name, 2) for name in ("a_map", "b_map"))
    a = OperandTile(k, i8, TILE_M, SPAN, "k", spec.num_stages)
    b = OperandTile(k, i8, spec.tile_n, SPAN, "k", spec.num_stages, spec.cluster)
    pipeline = Pipeline(k, spec.num_stages, NUM_CONSUMERS, a.nbytes + b.nbytes)
    follow(k)
    tiles = _Tiles(k, spec, count)

    def multiply(number: Value, thread: Value) -> None:
        def prepare(row: Value, column: Value, planes: tuple[Value, ...]) -> dict[tuple[int, int], list[Value]]:
            return _Place(k, tiles, c, thread, planes[0], row, column).load(spec.tile_n)

        def store(
            sums: Accumulator | Totals,
            row: Value,
            column: Value,
            planes: tuple[Value, ...],
            before: dict[tuple[int, int], list[Value]] | None = None,
        ) -> None:
            reduction = _Reduction(k, planes[0] / spec.planes_per_modulus)
            place = _Place(k, tiles, c, thread, planes[0], row, column)
            groups: dict[tuple[int, int], list[Value]] = {}
            for i, j, *values in sums.pairs():
                groups.setdefault((i, j * 8 // GROUP), []).extend(values)
            for at, values in groups.items():
                if before is not None:
                    values = [value + _byte(k, before[at], i) for i, value in enumerate(values)]  # noqa: PLW2901
                with k.when(place.is_inside(*at)):
                    place.group(*at).store(0, _packed(k, [reduction.apply(value) for value in values]))

        consume(
            k, spec, tiles, Consumer(pipeline, thread), a, b, store, number, prepare if spec.is_accumulated else None
        )

    divide(k, lambda: produce(k, spec, tiles, pipeline, (a_map, a), (b_map, b)), multiply)
    pipeline.close()
    return k.build()


class _Tiles(TileScheduler):
    """The tile scheduler over the planes of all moduli."""

    def __init__(self, k: Builder, spec: OzakiSpec, count: Pointer) -> None:
        super().__init__(k, spec.cluster, spec.tile_n, band=spec.band)
        self.m, self.a_lines, self.b_lines = (k.scalar(name, u32) for name in ("m", "a_lines", "b_lines"))
        self.num_slices = k.cast(count[0], u32) * spec.planes_per_modulus

    def depth_range(self, number: Value | None) -> tuple[Value, Value]:
        """Return the range of all k-blocks."""
        del number
        return self.builder.const(0, u32), self.num_k

    def starts(self, number: Value | None, row: Value, column: Value) -> tuple[Value, Value]:
        """Where the lines of A and of B begin, in their planes."""
        assert number is not None
        return number * self.a_lines + row, number * self.b_lines + column

    def matrices(self, number: Value | None) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
        """Nothing: planes lie one below the other."""
        del number
        return (), ()


class _Place:
    """Where a thread's sums of a tile lie in C: in two rows, groups of 16 neighbours."""

    def __init__(
        self, k: Builder, tiles: _Tiles, c: Pointer, thread: Value, plane: Value, row: Value, column: Value
    ) -> None:
        self.k, self.tiles = k, tiles
        row = row + ((thread >> 5) * 16 + ((thread >> 2) & 7))
        self.rows = [row + 8 * i for i in range(2)]
        self.column = column + (thread & 3) * (GROUP // 4)
        self.lines = [
            c.view(u8).at(
                k.cast(plane, i64) * (k.cast(tiles.m, i64) * k.cast(tiles.b_lines, i64))
                + k.cast(at, i64) * k.cast(tiles.b_lines, i64)
                + k.cast(self.column, i64)
            )
            for at in self.rows
        ]

    def group(self, i: int, number: int) -> Pointer:
        """Return a pointer to a group of a row."""
        return self.lines[i].offset_bytes(number * GROUP).view(u32)

    def is_inside(self, i: int, number: int) -> Value:
        """Return whether a group is inside C."""
        return (self.rows[i] < self.tiles.m) & (self.column + number * GROUP < self.tiles.b_lines)

    def load(self, width: int) -> dict[tuple[int, int], list[Value]]:
        """Return the words of C as it is, per group of a tile of `width` columns."""
        found = {}
        for at in product(range(2), range(width // GROUP)):
            words = [self.k.var(0, u32) for _ in range(4)]
            with self.k.when(self.is_inside(*at)):
                for word, loaded in zip(words, self.group(*at).load(0, 4), strict=True):
                    word.set(loaded)
            found[at] = [word.get() for word in words]
        return found


class _Reduction:
    """Reduction modulo the modulus with a number."""

    def __init__(self, k: Builder, number: Value) -> None:
        p = k.const(MODULI[0], u32)
        for i, other in enumerate(MODULI[1:], 1):
            p = k.where(number == i, k.const(other, u32), p)
        self.k, self.p = k, p
        self.reciprocal = k.const((1 << 32) - 1, u32) / p
        self.bias = (k.const(BIAS, u32) / p + 1) * p
        self.negative = 0 - p

    def apply(self, value: Value) -> Value:
        """Return a sum modulo p, 0 to p - 1."""
        k = self.k
        positive = k.bitcast(value, u32) + self.bias
        # The quotient may be one too small.
        rest = k.mad(k.mulhi(positive, self.reciprocal), self.negative, positive)
        return k.emit("min", rest, rest - self.p)


def _byte(k: Builder, words: list[Value], i: int) -> Value:
    """Byte number `i` of packed words."""
    return k.bitcast(k.prmt(words[i // 4], 0, 0x4440 | i % 4), i32)


def _packed(k: Builder, values: list[Value]) -> list[Value]:
    """Values packed as bytes, four per word."""
    words = []
    for start in range(0, len(values), 4):
        low, high = (k.prmt(values[i], values[i + 1], 0x0040) for i in (start, start + 2))
        words.append(k.prmt(low, high, 0x5410))
    return words


__all__ = ["MAX_DEPTH", "OzakiSpec", "make", "plan"]
