"""Launches of reductions whose kernels have been made for other sizes, by arithmetic alone."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp._kernels.choice import MIN_TUNED_NBYTES, unrolled, unrolling
from oxinp._kernels.nest import MAX_INDEX_32, magic
from oxinp._kernels.plan import ALIGNMENT, NUM_FLAGS, Argument, Launch, flagged, joined
from oxinp._kernels.problem import MIN_COLUMNS
from oxinp._kernels.reduce.columns import NUM_WARPS, ColumnsSpec
from oxinp._kernels.reduce.loops import MAX_VECTOR, MIN_FOLDED, most_folded
from oxinp._kernels.reduce.passes import (
    MAX_COLUMN_ROUNDS,
    MAX_KEPT,
    MAX_SERIAL,
    UNITS_PER_LANE,
    Passes,
    Walk,
    key_of_all,
)
from oxinp._kernels.reduce.rows import BLOCK, WARP, RowsSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.choice import Choice, Device
    from oxinp._kernels.plan import Again, Flagged, Joined, Plan
    from oxinp._ptx import Kernel

MAX_ALIGNMENT = 255  # bytes up to which what an address is a multiple of makes a difference, of which none is larger
_ONE_BLOCK = (1, 1, 1)
_NO_KERNEL: tuple[Any, Any, Any] = (None, None, None)


class _Met(NamedTuple):
    """What `Reduction.line_again` keeps of operands that move alike.

    Attributes
    ----------
    walk : Walk
    values : tuple of int
        Constants before those of the size.
    shifts : tuple of (int, int)
        Of those that depend on it their places, and what they are per element that a reversed loop begins later.
    """

    walk: Walk
    values: tuple[int, ...]
    shifts: tuple[tuple[int, int], ...]


class Near(NamedTuple):
    """What sizes from one to another have in common, of operands that move alike.

    Attributes
    ----------
    least, most : int
    kernel : Kernel
    values, shifts : tuple of int
        As of `_Met`.
    vector : int
        Elements of a unit.
    """

    least: int
    most: int
    kernel: Kernel
    values: tuple[int, ...]
    shifts: tuple[tuple[int, int], ...]
    vector: int


class Alike(NamedTuple):
    """What `Reduction.columns_again` and `rows_again` keep of matrices that lie alike, whatever their extents.

    Attributes
    ----------
    walk : Walk
    values : tuple of int
        Constants before those of the extents.
    down, across : int
        The largest strides.
    whole : int
        Columns of matrices that all lie without gaps; 0 where there are none.
    nbytes : tuple of int
        Bytes of what there is an element of at each place, in each row, in each column, and one of.
    votes : tuple of int or None
        Of these bytes those for lanes that go along the axis that is kept less those for the other; None where none are
        for it.
    """

    walk: Walk
    values: tuple[int, ...]
    down: int
    across: int
    whole: int
    nbytes: tuple[int, ...]
    votes: tuple[int, ...] | None


OUT = Argument("out0")
_NO_VOTES = 0, 0, 0, 0


def _shifted(values: tuple[int, ...], shifts: tuple[tuple[int, int], ...], last: int) -> Sequence[int]:
    """Return constants of a size whose last element has a number."""
    moved = [*values]
    for place, shift in shifts:
        moved[place] = shift * last
    return moved


class KnownPasses(Passes):
    """The passes of a reduction, and their launches where operands move as others did; parameters as of `Passes`."""

    __slots__ = ("_alike", "_backwards", "_met", "_near")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._met: dict[Any, _Met] = {}
        # By the axis, strides, alignments, the stride of the vector, columns beyond a multiple of the widest access.
        self._alike: dict[Any, Alike] = {}
        # Strides, alignments, the alignment of the last element's place where one goes backwards, multiprocessors.
        self._near: dict[Any, Near] = {}
        # Sizes, and the same -> the launch where elements' places are told apart of what goes backwards.
        self._backwards: dict[Any, Again] = {}

    def line_again(self, size: int, steps: tuple[int, ...], alignments: tuple[int, ...], num_sms: int) -> Again | None:
        """Return the launch of the plan for arrays of one dimension, reduced to one element; None if there are two.

        It is what `_rows` returns for a single row, as far as its kernel has been made: with 32-bit indices and no
        measured Spec.
        """
        if not steps:
            return None
        least = min(steps)
        last = size - 1 if least < 0 else 0
        key = steps, alignments, last & -last & MAX_ALIGNMENT, num_sms
        near = self._near.get(key)
        if least < 0 and self.op.wants_index:
            return self._backwards.get((size, key))
        if near is not None:
            first, most, kernel, own, shifts, vector = near
            if first <= size <= most:
                num_units = size // vector
                values = _shifted(own, shifts, last) if shifts else own
                return kernel, _ONE_BLOCK, (*values, 1, 0, 1, num_units, size - num_units * vector)
        return self._line_again(size, steps, alignments, num_sms, key)

    def keep_line(
        self, size: int, steps: tuple[int, ...], alignments: tuple[int, ...], num_sms: int, plan: Plan
    ) -> None:
        """Keep the plan of a reduction of one dimension for this very size, where it is one launch without scratch.

        So it is for those that tell elements' places apart and go backwards, found by `line_again` for no other size.
        """
        first, *others = plan.steps
        if others or not isinstance(first, Launch) or first.arguments != (OUT, *self.taken):
            return
        if not self.op.wants_index or min(steps) >= 0 or size * self.nbytes >= MIN_TUNED_NBYTES:
            return
        last = size - 1
        if len(self._backwards) >= MAX_KEPT:
            self._backwards.clear()
        key = size, (steps, alignments, last & -last & MAX_ALIGNMENT, num_sms)
        self._backwards[key] = first.kernel, first.grid, first.constants

    def _line_again(
        self, size: int, steps: tuple[int, ...], alignments: tuple[int, ...], num_sms: int, key: Any
    ) -> Again | None:
        """Return the same of a size that none next to it was met of, and keep what they have in common by a key."""
        least = min(steps)
        if self.wants_index or (self.op.wants_index and least < 0) or not 1 < size < MAX_INDEX_32:
            return None
        farthest = max(*steps, -least)
        if farthest * (size - 1) >= MAX_INDEX_32 or size * self.nbytes >= MIN_TUNED_NBYTES:
            return None
        last = 0
        if least < 0 and (steps[0] or next(step for step in steps if step)) < 0:  # see `_line`
            last = size - 1
            offsets = [step * last * type_.nbytes for step, type_ in zip(steps, self.types, strict=True)]
            alignments = tuple([min(a, x & -x) if x else a for a, x in zip(alignments, offsets, strict=True)])
            steps = tuple([-step for step in steps])
        met = self._met.get((steps, last != 0, alignments))
        if met is None:
            met = self._meet(steps, last != 0, alignments)
            if met is None:
                return None
        walk, own, shifts = met
        kernels = walk.kernels
        vector = walk.vector
        num_units = size // vector
        group, count, at_once, chunk = self.group_rows(1, num_units, walk.unroll, num_sms)
        if chunk < num_units:
            return None
        kernel = kernels.get((group, count, at_once))
        if kernel is None:
            spec = self._spec(RowsSpec, walk.chain, 1, 1, group, vector, count, at_once)
            kernel = self._kernels.get(spec)
            if kernel is None:
                return None
            kernels[group, count, at_once] = kernel
        # `group_rows` goes by powers of two, at both ends of which it has to be the same.
        if at_once:
            lines = group * count // 2 + 1, group * count
        else:
            units = num_units // group
            least = group << (units.bit_length() - 1) if units else WARP * UNITS_PER_LANE + 1
            lines = least, (group << units.bit_length()) - 1
        if all([self.group_rows(1, n, walk.unroll, num_sms) == (group, count, at_once, n) for n in lines]):  # noqa: C419 - what goes through them one by one takes longer
            fitting = min((MIN_TUNED_NBYTES - 1) // self.nbytes, (MAX_INDEX_32 - 1) // (farthest or 1))
            if len(self._near) >= MAX_KEPT:
                self._near.clear()
            most = min(lines[1] * vector + vector - 1, fitting)
            self._near[key] = Near(max(2, lines[0] * vector), most, kernel, own, shifts, vector)
        values = _shifted(own, shifts, last) if shifts else own
        return kernel, _ONE_BLOCK, (*values, 1, 0, 1, num_units, size - num_units * vector)

    def all_again(
        self, shape: tuple[int, ...], steps: tuple[tuple[int, ...], ...], alignments: tuple[int, ...], device: Device
    ) -> Again | Joined | None:
        """Return the launches of the plan for arrays of one dimension, or matrices, that are reduced to one element.

        It is what `_rows` comes to for a single row that is cut in chunks, or of two loops, as far as kernels have been
        made; parameters are those of `columns_again`. None where an array goes backwards, too.
        """
        if not steps or self.wants_index or self.op.wants_index:
            return None
        size, nbytes = math.prod(shape), 0
        for own, type_ in zip(steps, self.types, strict=True):
            last, touched = 0, type_.nbytes
            for n, step in zip(shape, own, strict=True):
                last += step * (n - 1)
                touched *= n if step else 1
                if step < 0 or n < 2:
                    return None
            if last >= MAX_INDEX_32:
                return None
            nbytes += touched
        key = key_of_all(shape, steps, alignments)
        walk = None if key is None else self._walks.get(key)
        if walk is None or size >= MAX_INDEX_32:
            return None
        places = [(1, *own) for own in steps]
        moves = tuple([own[loop] for (loops, _), own in zip(walk.chain.moves, places, strict=True) for loop in loops])
        is_measured = nbytes >= MIN_TUNED_NBYTES
        first = self._rows_launch(walk, (1, size), moves, 1, device, is_measured=is_measured, inner=shape[1:])
        if first is None or first[1] == 1:
            return first and first[0]
        joining = self._joining or self.joining
        second = joining.line_again(first[1], (1,), (ALIGNMENT,), device.num_sms)
        return None if second is None else self._joined(first[0], second, first[1])

    def columns_again(
        self,
        shape: tuple[int, int],
        steps: tuple[tuple[int, int], ...],
        alignments: tuple[int, ...],
        written: int,
        device: Device,
    ) -> Again | Flagged | Joined | None:
        """Return the launches of the plan for matrices of a shape, reduced along the first axis into a vector.

        It is what `pair` and `_columns` come to, as far as kernels have been made.

        Parameters
        ----------
        shape : (int, int)
        steps : tuple of (int, int)
            Strides of the arrays in elements.
        alignments : tuple of int
            Of the arrays.
        written : int
            Stride of the vector.
        device : Device
        """
        length, width = shape
        if width < MIN_COLUMNS:  # lanes go along the rows, unless `fold` has to decide
            if length * width >= MIN_FOLDED and all(own in {(width, 1), (0, 0)} for own in steps):
                return self._folded_again(length, width, steps, alignments, written, device)
            turned = tuple([own[::-1] for own in steps])
            return self.rows_again((width, length), turned, alignments, written, device)
        if written == 1 and steps.count((width, 1)) == len(steps):
            return self._dense_again(width, length, alignments, device, is_first=True)
        key = 0, steps, alignments, written, width % MAX_VECTOR
        alike = self._alike.get(key) or self._meet_alike(key)
        if alike is None or length < 2 or width == alike.whole:  # of other vectors than that
            return None
        if max(alike.down * length + alike.across * width, length * width) >= MAX_INDEX_32:
            return None
        elements, rows, columns, others = alike.votes or _NO_VOTES  # the sum of what there is at each place
        if length * (elements * width + rows) + columns * width + others <= 0:
            return None
        elements, rows, columns, others = alike.nbytes
        is_measured = length * (elements * width + rows) + columns * width + others >= MIN_TUNED_NBYTES
        first = self._columns_launch(alike.walk, shape, alike.values, written, device, is_measured=is_measured)
        if first is None or first[1] == 1:
            return first and first[0]
        if self.has_flags:
            return flagged((first[0], first[1] * width * self.op.acc.nbytes))  # type: ignore[no-any-return]
        return self.in_two(first, width, written, device)

    def _dense_again(
        self, num_kept: int, length: int, alignments: tuple[int, ...], device: Device, *, is_first: bool
    ) -> Again | Flagged | Joined | None:
        """Return the launches of the plan for matrices that lie without gaps, reduced into a vector that does.

        It is what `_contiguous` comes to, whose parameters these are.
        """
        first = self._dense_launch(num_kept, length, alignments, device, is_first=is_first)
        if first is None or first[1] == 1:
            return first and first[0]
        if is_first and self.has_flags:
            return flagged((first[0], first[1] * num_kept * self.op.acc.nbytes))  # type: ignore[no-any-return]
        return self.in_two(first, num_kept, 1, device)

    def _dense_launch(
        self,
        num_kept: int,
        length: int,
        alignments: tuple[int, ...],
        device: Device,
        *,
        is_first: bool,
        num_folded: int = 1,
    ) -> tuple[Again, int] | None:
        """Return the first launch of these, of so many rows in each, and how many results it leaves for each."""
        if self.wants_index or self.op.wants_index:
            return None
        if num_kept < 2 or length < 2 or num_kept * length >= MAX_INDEX_32:
            return None
        pitch = num_kept if is_first else length
        walk = self._walks.get((is_first, pitch % MAX_VECTOR, False, *alignments))
        if walk is None:
            return None
        moves = tuple([(pitch, 1)[loop] for loops, _ in walk.chain.moves for loop in loops])
        is_measured = num_kept * length * self.nbytes >= MIN_TUNED_NBYTES
        if not is_first:
            return self._rows_launch(walk, (num_kept, length), moves, 1, device, is_measured=is_measured)
        shape = length, num_kept
        return self._columns_launch(walk, shape, moves, 1, device, is_measured=is_measured, num_folded=num_folded)

    def _folded_again(
        self,
        length: int,
        width: int,
        steps: tuple[tuple[int, int], ...],
        alignments: tuple[int, ...],
        written: int,
        device: Device,
    ) -> Again | Flagged | Joined | None:
        """Return the launches of the plan for narrow matrices, of which several rows are seen as one, see `fold`."""
        if width < 2 or (0, 0) in steps or self.op.wants_index:
            return None
        num_folded, first = most_folded(length, width), None
        if num_folded > 1:
            kept, rest = num_folded * width, length // num_folded
            first = self._dense_launch(kept, rest, alignments, device, is_first=True, num_folded=num_folded)
            if first is None:
                return None
        if first is None or first[1] == 1:  # as `choose` has it
            turned = tuple([own[::-1] for own in steps])
            return self.rows_again((width, length), turned, alignments, written, device)
        again, num_chunks = first
        joining, num_rows = self._joining or self.joining, num_chunks * num_folded
        second = joining.rows_again((width, num_rows), ((1, width),), (ALIGNMENT,), written, device)
        return None if second is None else self._joined(again, second, num_rows * width)

    def _joined(self, first: Again, second: Any, num_partial: int) -> Joined:
        """Return two launches, the first of which leaves so many results in the workspace."""
        return joined((first, second, num_partial * self.op.acc.nbytes, self.op.num_parameters))  # type: ignore[no-any-return]

    def in_two(self, first: tuple[Again, int], width: int, written: int, device: Device) -> Joined | None:
        """Return the launches of a reduction to a vector, of which the first leaves several results for each.

        Parameters
        ----------
        first : tuple of Again and int
            The first launch, and how many results it leaves.
        width : int
            Elements of the vector.
        written, device
            See `columns_again`.
        """
        again, num_chunks = first
        joining = self._joining or self.joining
        if written == 1:
            found = joining._walks.get((True, width % MAX_VECTOR, False, ALIGNMENT))
        else:
            pitch = width % MAX_VECTOR or MAX_VECTOR
            found = joining._walks.get(("pair", True, width % MAX_VECTOR, 1, pitch, ALIGNMENT))
        if found is None:
            return None
        (loops, _), *_ = found.chain.moves
        values = (*[(width, 1)[loop] for loop in loops],)
        second = joining._columns_launch(found, (num_chunks, width), values, written, device)
        return None if second is None else self._joined(again, second[0], num_chunks * width)

    def rows_again(
        self,
        shape: tuple[int, int],
        steps: tuple[tuple[int, int], ...],
        alignments: tuple[int, ...],
        written: int,
        device: Device,
    ) -> Again | Flagged | Joined | None:
        """Return the launches of the plan for matrices of a shape, reduced along the last axis into a vector.

        It is what `pair` and `_rows` come to, as far as kernels have been made; parameters are those of
        `columns_again`.
        """
        num_rows, length = shape
        if written == 1 and steps.count((length, 1)) == len(steps):
            return self._dense_again(num_rows, length, alignments, device, is_first=False)
        key = 1, steps, alignments, written, 0
        along = self._alike.get(key) or self._meet_alike(key)
        if along is None or num_rows < 2 or length < 2 or length == along.whole:
            return None
        if max(along.down * num_rows + along.across * length, num_rows * length) >= MAX_INDEX_32:
            return None
        if along.votes is not None and num_rows >= MIN_COLUMNS:
            elements, rows, columns, others = along.votes  # spelled out, as in `columns_again`
            if num_rows * (elements * length + rows) + columns * length + others > 0:
                return None
        elements, rows, columns, others = along.nbytes
        is_measured = num_rows * (elements * length + rows) + columns * length + others >= MIN_TUNED_NBYTES
        first = self._rows_launch(along.walk, shape, along.values, written, device, is_measured=is_measured)
        return first and (first[0] if first[1] == 1 else self.in_two(first, num_rows, written, device))

    def _rows_launch(
        self,
        walk: Walk,
        shape: tuple[int, int],
        moves: tuple[int, ...],
        written: int,
        device: Device,
        *,
        is_measured: bool = False,
        inner: tuple[int, ...] | None = None,
    ) -> tuple[Again, int] | None:
        """Return what `_columns_launch` does of `_rows`.

        Of what is all reduced to one element, `inner` is the extent of the inner one of two loops, () of a single one.
        """
        num_rows, length = shape
        chain, vector, unroll, kernels = walk
        num_units = length // vector
        group, count, at_once, chunk = self.group_rows(num_rows, num_units, unroll, device.num_sms)
        num_chunks = -(-num_units // max(chunk, 1)) or 1
        is_split = num_chunks > 1
        if is_split and num_rows < MIN_COLUMNS and inner is None:
            return None
        spec, kernel, choice = kernels.get((group, count, at_once, is_split), _NO_KERNEL)
        if kernel is None:
            spec = self._spec(RowsSpec, chain, 1, num_chunks, group, vector, count, at_once)
            kernel = self._kernels.get(spec)
            if kernel is not None:
                choice = _asked(spec)
                kernels[group, count, at_once, is_split] = spec, kernel, choice
        if is_measured and not at_once and kernel is not None:
            known = unrolled(spec, choice, shape, device)
            if known is not spec:
                kernel = self._kernels.get(known)
        if kernel is None:
            return None
        values = *moves, 1 if is_split else written, 0, num_rows, num_units, length - num_units * vector
        if is_split:
            values += (chunk, num_chunks, *magic(num_chunks))
        if inner:
            values += (inner[0] // vector, *magic(inner[0] // vector))
        blocks = -(-num_rows // (max(1, at_once) * max(group, BLOCK) // group))  # as `RowsSpec.block` has it
        return (kernel, (blocks * num_chunks, 1, 1), values), num_chunks

    def _meet_alike(self, key: tuple[Any, ...]) -> Alike | None:
        """Find what `columns_again` and `rows_again` need of matrices that lie like this, and keep it."""
        axis, steps, alignments, written, rest = key
        if not steps or self.wants_index or self.op.wants_index or written < 0:
            return None
        nbytes, votes = [0, 0, 0, 0], [0, 0, 0, 0]
        for own, type_ in zip(steps, self.types, strict=True):
            down, along = own
            if down < 0 or along < 0:
                return None
            kept, reduced = own if axis else own[::-1]
            place = (not along) + 2 * (not down)
            nbytes[place] += type_.nbytes
            votes[place] += type_.nbytes if kept and (kept < reduced or not reduced) else -type_.nbytes
        wholes = {down if along == 1 else 0 for down, along in steps}
        outer, inner = zip(*steps, strict=True)
        pitches = [step % MAX_VECTOR or (step and MAX_VECTOR) for step in outer]
        walk = self._walks.get(("pair", not axis, rest, *[min(2, step) for step in inner], *pitches, *alignments))
        if walk is None:
            return None
        alike = Alike(
            walk,
            tuple([own[loop] for (loops, _), own in zip(walk.chain.moves, steps, strict=True) for loop in loops]),
            max(outer),
            max(inner),
            wholes.pop() if len(wholes) == 1 else 0,
            (*nbytes,),
            (*votes,) if max(votes) > 0 else None,
        )
        alike = alike._replace(**{"down" if axis else "across": max(written, 1, alike.down if axis else alike.across)})
        if len(self._alike) >= MAX_KEPT:
            self._alike.clear()
        self._alike[key] = alike
        return alike

    def _columns_launch(
        self,
        walk: Walk,
        shape: tuple[int, int],
        moves: tuple[int, ...],
        written: int,
        device: Device,
        *,
        is_measured: bool = False,
        num_folded: int = 1,
    ) -> tuple[Again, int] | None:
        """Return the launch of `_columns`, and of how many chunks it is; None where its kernel has not been made.

        Of a matrix whose rows are so many of a narrower one's, the chunks are not joined.
        """
        length, width = shape
        down = 1 if length <= MAX_SERIAL else NUM_WARPS  # `_tiles` of one matrix, spelled out
        num_tiles = -(-width // (WARP * walk.vector * (NUM_WARPS // down)))
        step = down * walk.unroll
        is_whole = down == 1 or length <= MAX_COLUMN_ROUNDS * step
        chunk = length if is_whole else self._chunk(length, num_tiles, step, device.num_sms)
        num_chunks = -(-length // chunk)
        is_split = num_chunks > 1
        chain, vector, count, kernels = walk
        joins = is_split and self.has_flags and num_folded == 1
        spec, kernel, choice = kernels.get((down, is_split, joins), _NO_KERNEL)
        if kernel is None:
            spec = self._spec(ColumnsSpec, chain, 1, num_chunks, down, vector, count, joins=joins)
            kernel = self._kernels.get(spec)
            if kernel is not None:
                choice = _asked(spec)
                kernels[down, is_split, joins] = spec, kernel, choice
        if is_measured and kernel is not None:
            known = unrolled(spec, choice, (width // num_folded, length * num_folded), device)
            if known is not spec:
                kernel = self._kernels.get(known)
        if kernel is None:
            return None
        if joins:
            if num_tiles > NUM_FLAGS:
                return None
        elif is_split:
            written = 1
        values = *moves, written, 0, width, length, num_tiles, *magic(num_tiles)
        if is_split:
            values += (chunk, width, num_chunks, *magic(num_chunks))
        return (kernel, (num_tiles * num_chunks, 1, 1), values), num_chunks

    def _meet(self, steps: tuple[int, ...], is_shifted: bool, alignments: tuple[int, ...]) -> _Met | None:
        """Find what `line_again` needs of operands that move like this, whatever their size."""
        kinds = tuple([step if 0 <= step <= 1 else 2 for step in steps])
        walk = self._walks.get((kinds, is_shifted, False, alignments))
        if walk is None:
            return None
        values: list[int] = []
        shifts: tuple[tuple[int, int], ...] = ()
        moved = (*steps, 1) if self.op.wants_index else steps
        for (loops, has_shift), step in zip(walk.chain.moves, moved, strict=True):
            values += [step if loop else 1 for loop in loops]
            if has_shift:
                shifts += ((len(values), -step),)
                values.append(0)
        if len(self._met) >= MAX_KEPT:
            self._met.clear()
        met = _Met(walk, tuple(values), shifts)
        self._met[steps, is_shifted, alignments] = met
        return met


def measured(spec: RowsSpec | ColumnsSpec, num_kept: int, size: int, device: Device) -> RowsSpec | ColumnsSpec:
    """The Spec, with the sizes that were measured to be best near this problem."""
    if isinstance(spec, RowsSpec) and spec.at_once:
        return spec  # rows are too short to leave a choice
    chosen: RowsSpec | ColumnsSpec = unrolled(spec, _asked(spec), (num_kept, size // num_kept), device)
    return chosen


@lru_cache(MAX_KEPT)
def _asked(spec: RowsSpec | ColumnsSpec) -> Choice:
    """The choice that a Spec leaves, but for the shape."""
    family, group = ("rows", spec.group) if isinstance(spec, RowsSpec) else ("columns", spec.down)
    key = (spec.op.name, spec.op.acc.name, spec.chain.kinds[0])
    layout = (f"{spec.chain.ndim} loops", f"{spec.vector} elements", f"{group} threads")
    return unrolling(spec, f"reduce/{family}", key, layout, max(spec.unroll, spec.op.batch // spec.vector))


__all__ = ["Alike", "KnownPasses", "Near", "measured"]
