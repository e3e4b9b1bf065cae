"""Operands of matrix products: by the strides they have, and by what the copy engine reads of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.nest import collapse
from oxinp._kernels.plan import ALIGNMENT
from oxinp._ptx.tma import ALIGN
from oxinp._ptx.types import f16

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.nest import Nest
    from oxinp._ptx.types import Type


GENERAL, TRIANGULAR, SYMMETRIC, HERMITIAN = "general", "triangular", "symmetric", "hermitian"
MIN_COPY_NBYTES = 4


class Form(NamedTuple):
    """What the elements in memory say of a matrix.

    Attributes
    ----------
    kind : str
        ``"general"``: all of it; ``"triangular"``: the rest is 0; ``"symmetric"`` and ``"hermitian"``: the rest is the
        mirror image. What lies in the rest is not used.
    is_lower : bool
        Which triangle it is.
    has_unit_diagonal : bool
        Of a triangular matrix: the diagonal is 1, and what lies there is not used.
    is_conjugated : bool
        The matrix is the conjugate of all that.
    """

    kind: str = GENERAL
    is_lower: bool = True
    has_unit_diagonal: bool = False
    is_conjugated: bool = False

    @property
    def is_mirrored(self) -> bool:
        """Whether elements are found at mirrored places."""
        return self.kind in (SYMMETRIC, HERMITIAN)


WHOLE = Form()


def copy_nbytes(form: Form, type: Type, nbytes: int) -> int:
    """Bytes of a copy, of which a matrix in general allows `nbytes`: mirrored elements are copied one by one."""
    if not form.is_mirrored:
        return nbytes
    return type.nbytes if type.nbytes >= MIN_COPY_NBYTES else 0


@dataclass(frozen=True, slots=True)
class Matrices:
    """An operand: `strides`, in elements, end with those of rows and columns; `alignment` is the pointer's."""

    type: Type
    strides: tuple[int, ...]
    alignment: int


class Source(NamedTuple):
    """An operand: matrices of `lines` of `run` elements that follow each other.

    Attributes
    ----------
    buffer : str
        ``"in0"`` for A, ``"in1"`` for B.
    type : Type
    major : str
        Whether the runs go along K, ``"k"``, or along M or N, ``"mn"``.
    lines, run : int
    pitch, distance : int
        Elements from one line, one matrix to the next; a distance of 0 is that of one matrix for all.
    num_c : int
        Matrices of C.
    alignment : int
        Of the pointer.
    batch, moves : tuple of int
        Where the matrices do not follow each other at one distance: loops over them, and elements that these move on.
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
        """Whether the copy engine reads it, and the tensor cores take it as it is."""
        return self.is_reachable and (self.major == "k" or self.type.nbytes == f16.nbytes)

    @property
    def is_reachable(self) -> bool:
        """Whether the copy engine reads it."""
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
        """The copy that can be read."""
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
        """How many there are."""
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
        """Which axis, that of lines or that of runs, goes along rows of A or columns of B."""
        return 0 if self.major == "k" else 1


class StridedBatch(NamedTuple):
    """Slices: how many matrices, how far apart in bytes those of A and B are (0: there is one), chunks of K of each."""

    num_matrices: int
    a_stride: int
    b_stride: int
    split_k: int = 1

    def num_slices(self, num_k: int) -> int:
        """Return how many slices there are of so many tiles along K; no chunk is empty."""
        return self.num_matrices * -(-num_k // -(-num_k // self.split_k))


def sources(
    shape: tuple[int, ...], depth: int, a: Matrices, b: Matrices, others: Sequence[tuple[int, ...]] = ()
) -> tuple[tuple[Source, Source], Nest]:
    """The operands by the loops over their matrices, and these, in which other arrays have their strides, too."""
    *batch, m, n = shape
    nest = collapse(batch, [x[:-2] for x in (contiguous(shape), a.strides, b.strides, *others)])
    left, right = (
        _source(buffer, x, major, (extent, depth), nest.shape, moves)
        for buffer, x, extent, major, moves in zip(
            ("in0", "in1"), (a, b), (m, n), both_majors((m, n), depth, a, b), nest.strides[1:3], strict=True
        )
    )
    return (left, right), nest


def is_regular(moves: tuple[int, ...], batch: tuple[int, ...]) -> bool:
    """Whether loops move on as a single one would."""
    return all(moves[i] == moves[i + 1] * batch[i + 1] for i in range(len(moves) - 1))


def _source(
    buffer: str,
    x: Matrices,
    major: tuple[str, int],
    extents: tuple[int, int],
    batch: tuple[int, ...],
    moves: tuple[int, ...],
) -> Source:
    """An operand by the loops over its matrices."""
    num_c = math.prod(batch)
    lines, run = extents if major[0] == "k" else reversed(extents)
    if num_c == 1 or not any(moves):
        moves = (0,)
    distance, others = (moves[-1], ((), ())) if is_regular(moves, batch) else (max(map(abs, moves)), (batch, moves))
    return Source(buffer, x.type, major[0], lines, run, major[1], distance, num_c, x.alignment, *others)


def both_majors(shape: Sequence[int], depth: int, a: Matrices, b: Matrices) -> tuple[tuple[str, int], tuple[str, int]]:
    """The contiguous axis of either operand, and the stride of the other axis."""
    return _major((shape[0], depth), a.strides[-2:]), _major((shape[1], depth), b.strides[:-3:-1])


def contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    """Return strides in elements of C order."""
    strides = [1]
    for n in reversed(shape[1:]):
        strides.append(strides[-1] * n)
    return tuple(reversed(strides))


def _major(extents: tuple[int, int], strides: Sequence[int]) -> tuple[str, int]:
    """The contiguous axis of a matrix whose rows are M, and the stride of the other axis."""
    if strides[1] == 1 or (extents[1] == 1 and strides[0] != 1):
        return "k", strides[0]
    return "mn", strides[1]


def widest_copy(matrices: Matrices, strides: Sequence[int]) -> int:
    """Return the bytes of the widest copy that alignment and strides allow; 0: single elements."""
    itemsize = matrices.type.nbytes
    for nbytes in (16, 8, 4):
        if nbytes < itemsize:
            break
        if matrices.alignment % nbytes == 0 and not any(stride * itemsize % nbytes for stride in strides):
            return nbytes
    return 0
