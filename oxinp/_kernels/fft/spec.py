"""What the kernels of transforms in a block depend on: `TransformSpec`, and the bank conflicts of its exchanges."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from oxinp._kernels.elementwise.chain import SCALAR, STRIDED, UNIT
from oxinp._kernels.fft.radices import largest_prime
from oxinp._kernels.fft.roots import powers
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.types import c128

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oxinp._kernels.problem import Instr
    from oxinp._ptx.types import Type

ROWS, COLUMNS = "rows", "columns"
BY_COLUMN, BY_LOOP, BY_BOTH = "column", "loop", "both"
SPLIT, MERGE, SPLIT_MERGE = "split", "merge", "split merge"
TWIN_SPLIT, TWIN_MERGE = "twin split", "twin merge"
TWINS = (TWIN_SPLIT, TWIN_MERGE)
SUMMED, RADER = "summed", "rader"
SECOND, THIRD = "dct2", "dct3"
SECOND_SINE, THIRD_SINE = "dst2", "dst3"
TRIGONOMETRIC = (SECOND, THIRD, SECOND_SINE, THIRD_SINE)
WARP = 32
BANK_WIDTH = 128  # bytes of shared memory that a wavefront reaches
# Primes from which on a loop takes no longer than a codelet: of 41 and 43 elements, and of a stage of 37, loops take a
# tenth longer. From the second one on in kernels of several such radices, whose codelets take half a second to compile.
MIN_ROLLED, MIN_ROLLED_TWICE = 53, 37


class Fused(Frozen):
    """A chain of elementwise operations at one end of a transform, in its kernel.

    Attributes
    ----------
    operands : tuple of (Type, str)
        What it reads: of kind `UNIT` or `STRIDED` along the transform, or `SCALAR`.
    instrs : tuple of Instr
        Arguments are numbered: operands first, then earlier instructions; after a transform, its result comes first.
    result : int
        Number of the chain's value.
    """

    operands: tuple[tuple[Type, str], ...]
    instrs: tuple[Instr, ...]
    result: int


class TransformSpec(Frozen):
    """One kernel of the family.

    Attributes
    ----------
    type : Type
        c64 or c128, in which everything is computed.
    source : Type
        Of elements that are read, or that the prologue makes: any; real ones have an imaginary part of 0.
    target : Type
        Of elements that are written, or given to the epilogue: `type`, or that of its parts for the real parts.
    radices : tuple of int
        Of the stages; their product is the length.
    threads, columns : int
        Threads of a transform, transforms of a block.
    loads, stores : str
        `ROWS` or `COLUMNS`.
    num_outer : int
        Loops of the batch outside the column loop, at least 1.
    is_unit_source, is_unit_target : bool
        Whether transforms lie side by side.
    is_padded, is_cropped : bool
        Whether elements from a position on are read as zeros, and whether they are not stored.
    is_half : bool
        Whether the source has the first half only of a sequence whose second half is its conjugate reversed.
    chirp : int
        Of the pieces that a butterfly of the first stage takes, how many have elements, in Bluestein's convolution of
        length `length`, the last one some; 0 for no convolution. How many elements there are is known when it runs.
    real : str
        `SPLIT` for a real source of twice the length and the first half of its transform, `MERGE` for the other way
        round, `SPLIT_MERGE` for both with a chain between, "" for what is complex; see `real`. One of `TRIGONOMETRIC`
        for cosine and sine transforms, see `cosine`. `SUMMED` for larger primes, complex or real, see `prime`; `RADER`
        for those as convolutions, of length `length`, see `rader`. One of `TWINS` for two real sequences of odd lengths
        at a time, see `twins`.
    is_paired : bool
        Whether two real elements are read or written at once.
    is_staged : bool
        Whether transforms go through shared memory on both ways, so that neighbouring threads read and write
        neighbouring elements, and transform what the fewest bank conflicts allow.
    is_dense : bool
        Whether a tile, staged or summed up, is one piece of memory, in source and target.
    twiddle : str
        What results are multiplied by before they are stored, roots of unity of the element's number times the
        column's (`BY_COLUMN`), the innermost outer loop's (`BY_LOOP`), or, of two loops that count as one, both
        (`BY_BOTH`); "" for none.
    bits : int
        32 where every distance in elements fits, else 64.
    padding : int
        Elements of shared memory after which one is left out; 0 for none.
    min_blocks : int
        Blocks that have to fit a multiprocessor.
    prologue, epilogue : Fused or None
        What is made of operands before the transform, and of its results before they are written.
    stored : Type or None
        What the epilogue makes; None without.
    is_rotated : bool
        Results are stored half of the length further, cyclically: frequency 0 in the middle. The last radix is even.
    is_source_rotated : bool
        Elements are read likewise. The first radix is even.
    cluster : int
        Blocks that share a tile, each of them an equal part of every transform: it divides the first radix. 1 for none.
    is_factored : bool
        Whether most of the stages' roots of unity are products of two that are read, each rounded: tables of a few
        rows stay in the L1 cache.
    is_filtered : bool
        Whether transforms are multiplied by a row of an array, that of the index in `twiddle`, conjugated, and
        transformed again.
    between : Fused or None
        What is made of transforms before they are transformed again.
    between_order : str
        How threads go when they read what lies beside these: `ROWS` or `COLUMNS`; "" without.
    is_fetching : bool
        Whether a block has the cache fetch what a later one reads; see `prefetch`.
    is_following : bool
        Whether blocks begin before the kernel before this one has ended, and wait for it.
    is_signed, is_scaled : bool
        Whether imaginary parts are multiplied by a sign when they are read, and results by scales when they are stored.
    is_streaming : bool
        Whether more results are stored than the cache holds, which are the first that leave it.
    """

    type: Type
    source: Type
    target: Type
    radices: tuple[int, ...]
    threads: int
    columns: int
    loads: str
    stores: str
    num_outer: int
    is_unit_source: bool
    is_unit_target: bool
    is_padded: bool
    is_cropped: bool
    is_half: bool
    chirp: int
    real: str
    is_paired: bool
    is_staged: bool
    twiddle: str
    bits: int
    padding: int
    min_blocks: int
    prologue: Fused | None = None
    epilogue: Fused | None = None
    stored: Type | None = None
    is_rotated: bool = False
    is_source_rotated: bool = False
    cluster: int = 1
    is_factored: bool = False
    is_filtered: bool = False
    is_dense: bool = False
    between: Fused | None = None
    between_order: str = ""
    is_fetching: bool = False
    is_following: bool = False
    is_signed: bool = True
    is_scaled: bool = True
    is_streaming: bool = False

    @property
    def is_convolved(self) -> bool:
        """Whether transforms go there and back."""
        return self.chirp > 0 or self.is_filtered or self.between is not None

    @property
    def rolled(self) -> frozenset[int]:
        """The radices whose butterflies are loops over results, where these are left or stored; see `rolled`."""
        if self.cluster > 1:
            return frozenset()
        large = [n for n in self.radices if n >= MIN_ROLLED_TWICE and largest_prime(n) == n]
        return frozenset(n for n in large if n >= MIN_ROLLED or len(large) > 1)

    @property
    def is_mixed(self) -> bool:
        """Whether the elements of all transforms lie side by side in shared memory."""
        return COLUMNS in (self.loads, self.stores, self.between_order) and not self.is_staged

    @property
    def length(self) -> int:
        """Of the transform that the stages compute."""
        return math.prod(self.radices)

    @property
    def row(self) -> int:
        """Elements of a transform."""
        return self.length + (self.real == RADER)

    @property
    def share(self) -> int:
        """Elements of a transform that a block has."""
        return self.length // self.cluster

    @property
    def kept(self) -> int:
        """Results of a butterfly of the first stage that a block keeps for those that follow."""
        return self.radices[0] // self.cluster

    @property
    def pitch(self) -> int:
        """Elements of shared memory from a transform to the next, where those lie one after the other."""
        return self.share + (self.padding == self.share and not self.is_mixed)

    @property
    def num_factors(self) -> int:
        """Roots of unity that the threads of a block share when they store; see `Block`."""
        if not self.twiddle or self.real or len(self.radices) == 1:
            return 0
        return self.columns * self.radices[0 if self.is_convolved else -1]

    @property
    def shared_nbytes(self) -> int:
        """Bytes of shared memory."""
        return self.shared_elements * self.type.nbytes + self.num_factors * c128.nbytes

    @property
    def shared_elements(self) -> int:
        """Of shared memory, where numbers are exchanged."""
        if self.real == SUMMED:
            return 2 * self.length * self.columns
        if len(self.radices) == 1 and not self.real and not self.is_staged:
            return 0
        size = self.share * self.columns
        return size + (size // self.padding if self.padding else 0)


def conflicts(spec: TransformSpec) -> int:
    """Return how many wavefronts the first warps' exchanges take, of all stages together."""
    nbytes = spec.type.nbytes
    lanes = np.arange(min(4 * WARP, -(-spec.threads * spec.columns // WARP) * WARP)) % (spec.threads * spec.columns)
    at_once = BANK_WIDTH // nbytes
    total = 0
    accesses = list(_accesses(spec))
    for number, (order, length, done) in enumerate(accesses):
        if order == ROWS:
            column, first = lanes // spec.threads, lanes % spec.threads
        else:
            column, first = lanes % spec.columns, lanes // spec.columns
        first = np.minimum(first, spec.share // length - 1)
        element = first + np.arange(length)[:, None] * (spec.share // length)
        if done:
            element = first // done * done * length + first % done + np.arange(length)[:, None] * done
        if spec.real == RADER and number in (0, len(accesses) - 1):
            element = powers(spec.row)[element]
        place = element * spec.columns + column if spec.is_mixed else column * spec.pitch + element
        if spec.padding and spec.pitch == spec.share:
            place = place + place // spec.padding
        # Lanes that want the same element share it.
        place = np.sort(place.reshape(-1, at_once), axis=1)
        is_new = np.diff(place, axis=1, prepend=-1) != 0
        counts = np.zeros(place.shape, np.int64)
        np.add.at(counts, (np.arange(len(place))[:, None], place % at_once), is_new)
        total += int(counts.max(1).sum())
    return total


def _accesses(spec: TransformSpec) -> Iterator[tuple[str, int, int]]:
    """Yield the order of threads, the radix, and, where they write, how many are done, of all ways to the memory."""
    if spec.is_staged:
        yield spec.loads, spec.radices[0], 0
    done = 1
    for stage in range(1, len(spec.radices)):
        before, radix = spec.radices[stage - 1] if stage > 1 else spec.kept, spec.radices[stage]
        yield spec.loads, before, done
        yield spec.stores if stage == len(spec.radices) - 1 else spec.loads, radix, 0
        done *= before
    if spec.is_staged:  # where they were read
        yield spec.stores, spec.radices[-1], 0


__all__ = [
    "BANK_WIDTH",
    "BY_BOTH",
    "BY_COLUMN",
    "BY_LOOP",
    "COLUMNS",
    "MERGE",
    "RADER",
    "ROWS",
    "SCALAR",
    "SECOND",
    "SECOND_SINE",
    "SPLIT",
    "SPLIT_MERGE",
    "STRIDED",
    "SUMMED",
    "THIRD",
    "THIRD_SINE",
    "TRIGONOMETRIC",
    "TWINS",
    "TWIN_MERGE",
    "TWIN_SPLIT",
    "UNIT",
    "WARP",
    "Fused",
    "TransformSpec",
    "conflicts",
]
