"""Operands of matrix products: strides, structure (triangular, symmetric, Hermitian), and what TMA can read of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.nest import Nest, collapse
from oxinp._kernels.plan import ALIGNMENT
from oxinp._ptx.tma import ALIGN
from oxinp._ptx.types import f16

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._ptx.types import Type


GENERAL, TRIANGULAR, SYMMETRIC, HERMITIAN = "general", "triangular", "symmetric", "hermitian"
MIN_COPY_NBYTES = 4


class Form(NamedTuple):
    """Structure of a matrix, and which part of it is stored.

    Attributes
    ----------
    kind : str
        ``"general"``: all of it is stored; ``"triangular"``: the other triangle is 0; ``"symmetric"`` and
        ``"hermitian"``: the other triangle is the (conjugated) mirror image. Its memory is not read.
    is_lower : bool
        Which triangle is stored.
    has_unit_diagonal : bool
        The diagonal of a triangular matrix is 1, and its memory is not read.
    is_conjugated : bool
        The operand is the conjugate of the matrix.
    """

    kind: str = GENERAL
    is_lower: bool = True
    has_unit_diagonal: bool = False
    is_conjugated: bool = False

    @property
    def is_mirrored(self) -> bool:
        """Whether elements of one triangle are read at their mirror images."""
        return self.kind in (SYMMETRIC, HERMITIAN)


WHOLE = Form()


class Matrices(NamedTuple):
    """Matrices: strides in elements, those of rows and columns last, and the alignment of the pointer."""

    type: Type
    strides: tuple[int, ...]
    alignment: int


class Source(NamedTuple):
    """An operand as TMA sees it: matrices of `lines` lines of `run` contiguous elements.

    Attributes
    ----------
    buffer : str
        ``"in0"`` for A, ``"in1"`` for B.
    type : Type
    major : str
        Whether lines run along K, ``"k"``, or along M or N, ``"mn"``.
    lines, run : int
    pitch, distance : int
        Elements from one line to the next, and from one matrix to the next; 0: all products have the same matrix.
    num_c : int
        Matrices of C.
    alignment : int
        Of the pointer.
    batch, moves : tuple of int
        Extents of the batch loops and their strides, if the matrices do not lie at one distance.
    """

    buffer: str
    type: Type
    major: str
    lines: int
    run: int
    pitch: int
    distance: int
    num_c: int
    alignment: int
    batch: tuple[int, ...] = ()
    moves: tuple[int, ...] = ()

    @property
    def is_readable(self) -> bool:
        """Whether TMA can copy it, and wgmma takes it as it is."""
        return self.is_reachable and (self.major == "k" or self.type.nbytes == f16.nbytes)

    @property
    def is_reachable(self) -> bool:
        """Whether TMA can copy it: strides of multiples of 16 bytes, no loops beside one."""
        nbytes = self.type.nbytes
        steps = (self.run if self.major == "k" else 0, self.pitch, self.distance)
        return (
            self.alignment % ALIGN == 0
            and not any(step * nbytes % ALIGN for step in steps)
            and self.pitch >= self.run
            and self.distance >= 0
            and not self.batch
        )

    def copied(self) -> Source:
        """Return the operand as a packed copy that TMA and wgmma can read."""
        lines, run = self.lines, self.run
        major = self.major if self.type.nbytes == f16.nbytes else "k"
        if major != self.major:
            lines, run = run, lines
        unit = ALIGN // self.type.nbytes
        pitch = -(-run // unit) * unit
        distance = lines * pitch if self.distance else 0
        return self._replace(
            major=major,
            lines=lines,
            run=run,
            pitch=pitch,
            distance=distance,
            alignment=ALIGNMENT,
            batch=(),
            moves=(),
        )

    @property
    def num_matrices(self) -> int:
        """Matrices in memory."""
        return self.num_c if self.distance else 1

    @property
    def extent(self) -> int:
        """Rows of A or columns of B."""
        return self.lines if self.major == "k" else self.run

    @property
    def depth(self) -> int:
        """Elements along K."""
        return self.run if self.major == "k" else self.lines

    @property
    def extent_axis(self) -> int:
        """Which axis of (lines, run) goes along rows of A or columns of B."""
        return 0 if self.major == "k" else 1


class StridedBatch(NamedTuple):
    """A strided batch of products, each of them split along K.

    Attributes
    ----------
    num_matrices : int
        Of C.
    a_stride, b_stride : int
        Bytes from one matrix of A and of B to the next; 0: all products have the same.
    split_k : int
        Ranges of K that have partial products of their own, at most.
    """

    num_matrices: int
    a_stride: int
    b_stride: int
    split_k: int = 1

    def num_slices(self, num_k: int) -> int:
        """Return the number of partial products, if K has `num_k` k-blocks; no range of K is empty."""
        return self.num_matrices * -(-num_k // -(-num_k // self.split_k))


def sources(
    shape: tuple[int, ...], depth: int, a: Matrices, b: Matrices, others: Sequence[tuple[int, ...]] = ()
) -> tuple[tuple[Source, Source], Nest]:
    """Return A and B as TMA sees them, and the nest of the batch: strides of C, A, B and `others` along its loops."""
    *batch, m, n = shape
    first, second = both_majors((m, n), depth, a, b)
    if not batch:
        count = 3 + len(others)
        pair = _matrix("in0", a, first, m, depth), _matrix("in1", b, second, n, depth)
        return pair, Nest((1,), ((1,),) * count, (0,) * count)
    nest = collapse(batch, [x[:-2] for x in (contiguous(shape), a.strides, b.strides, *others)])
    left = _source("in0", a, first, (m, depth), nest.shape, nest.strides[1])
    right = _source("in1", b, second, (n, depth), nest.shape, nest.strides[2])
    return (left, right), nest


def _matrix(buffer: str, x: Matrices, major: tuple[str, int], extent: int, depth: int) -> Source:
    """One operand without batch loops."""
    lines, run = (extent, depth) if major[0] == "k" else (depth, extent)
    return Source(buffer, x.type, major[0], lines, run, major[1], 0, 1, x.alignment)


def is_regular(moves: tuple[int, ...], batch: tuple[int, ...]) -> bool:
    """Return whether strides along the loops of a batch are those of a single loop."""
    return all(moves[i] == moves[i + 1] * batch[i + 1] for i in range(len(moves) - 1))


def _source(
    buffer: str,
    x: Matrices,
    major: tuple[str, int],
    extents: tuple[int, int],
    batch: tuple[int, ...],
    moves: tuple[int, ...],
) -> Source:
    """One operand, given the batch loops and its strides along them."""
    num_c = math.prod(batch)
    lines, run = extents if major[0] == "k" else reversed(extents)
    if num_c == 1 or not any(moves):
        moves = (0,)
    distance, others = (moves[-1], ((), ())) if is_regular(moves, batch) else (max(map(abs, moves)), (batch, moves))
    return Source(buffer, x.type, major[0], lines, run, major[1], distance, num_c, x.alignment, *others)


def both_majors(shape: Sequence[int], depth: int, a: Matrices, b: Matrices) -> tuple[tuple[str, int], tuple[str, int]]:
    """Return the contiguous axis of A and of B, each with the stride of the other axis."""
    return _major((shape[0], depth), a.strides[-2:]), _major((shape[1], depth), b.strides[:-3:-1])


def contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    """Return strides in elements of C order."""
    strides = [1]
    for n in reversed(shape[1:]):
        strides.append(strides[-1] * n)
    return tuple(reversed(strides))


def _major(extents: tuple[int, int], strides: Sequence[int]) -> tuple[str, int]:
    """The contiguous axis of an operand whose rows go along M or N, and the stride of the other axis."""
    if strides[1] == 1 or (extents[1] == 1 and strides[0] != 1):
        return "k", strides[0]
    return "mn", strides[1]


def widest_copy(matrices: Matrices, strides: Sequence[int]) -> int:
    """Return the bytes of the widest cp.async that alignment and strides allow; 0: elements go through registers."""
    itemsize = matrices.type.nbytes
    steps = 0
    for stride in strides:
        steps |= stride * itemsize
    for nbytes in (16, 8, 4):
        if nbytes < itemsize:
            break
        if not (matrices.alignment % nbytes or steps % nbytes):  # powers of two: the lowest bits are all that counts
            return nbytes
    return 0
