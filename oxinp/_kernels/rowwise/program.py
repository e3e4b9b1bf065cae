"""Row programs: elementwise instructions and reductions over rows, in order, and the pass that computes each value.

A value is *uniform* where it is the same for all elements of a row: inputs that do not move along rows, results of
reductions, and what is computed from such values alone. Pass 0 computes what depends on no reduction; a reduction takes
its elements in the pass in which they are complete, and its result is there from the next pass on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._kernels.problem import Instr
from oxinp._ptx.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from oxinp._kernels.problem import ReduceOp
    from oxinp._ptx.types import Type


class RowReduction(Frozen):
    """A reduction over each row, numbered among the instructions of a program.

    Attributes
    ----------
    value : int
        Number of the value that is reduced.
    op : ReduceOp
        Does not want an index.
    type : Type
        Of the result.
    batch : int
        Units whose elements a thread combines in one tree.
    is_short : bool
        A thread has one batch, of which any number of units may be missing; else it leaves a batch out that it has
        no unit of.
    join : int
        Chunks whose partial results are combined in one tree.
    mask : int or None
        Number of the value, a `pred`, that says which elements count.
    parameters : tuple of int
        Numbers of the inputs, all scalars, that are parameters of `op`.
    """

    value: int
    op: ReduceOp
    type: Type
    batch: int
    is_short: bool
    join: int = 0
    mask: int | None = None
    parameters: tuple[int, ...] = ()

    @property
    def elements(self) -> tuple[int, ...]:
        """Numbers of the values whose elements it takes."""
        return (self.value,) if self.mask is None else (self.value, self.mask)


Item = Instr | RowReduction


class Program:
    """What is computed in which pass.

    Parameters
    ----------
    types : sequence of Type
        Of the inputs.
    are_uniform : sequence of bool
        Which inputs are.
    items : sequence of Instr or RowReduction
        Numbered behind the inputs; they take what has a lower number.
    outputs : sequence of int
        Numbers of the values that are stored.

    Attributes
    ----------
    is_uniform : list of bool
    level : list of int
        Of every value the first pass in which it can be computed.
    reductions : list of lists of (int, RowReduction)
        Of every pass those that take their elements in it, with their numbers.
    stores : list of lists of int
        Of every pass which outputs are stored in it, of those that are not uniform.
    """

    def __init__(
        self, types: Sequence[Type], are_uniform: Sequence[bool], items: Sequence[Item], outputs: Sequence[int]
    ) -> None:
        self.num_inputs = len(types)
        self.items = tuple(items)
        self.types = [*types, *[item.type for item in items]]
        self.is_uniform = list(are_uniform)
        self.level = [0] * len(types)
        for item in self.items:
            if isinstance(item, Instr):
                self.is_uniform.append(all(self.is_uniform[a] for a in item.args))
                self.level.append(max([self.level[a] for a in item.args], default=0))
            else:
                self.is_uniform.append(True)
                self.level.append(1 + max(self.level[a] for a in item.elements))
        self.num_passes = 1 + max([self.level[n] for n in outputs], default=0)
        self.reductions: list[list[tuple[int, RowReduction]]] = [[] for _ in range(self.num_passes)]
        for number, item in enumerate(self.items, self.num_inputs):
            if isinstance(item, RowReduction):
                self.reductions[self.level[number] - 1].append((number, item))
        self.stores: list[list[int]] = [[] for _ in range(self.num_passes)]
        for i, number in enumerate(outputs):
            if not self.is_uniform[number]:
                self.stores[self.level[number]].append(i)
        self._outputs = tuple(outputs)

    def roots(self, level: int) -> list[int]:
        """Return the values whose elements a pass is there for."""
        reduced = [number for _, item in self.reductions[level] for number in item.elements]
        return [*reduced, *[self._outputs[i] for i in self.stores[level]]]

    def needed(self, level: int, known: Iterable[int] = ()) -> list[int]:
        """Return the values that a pass computes or loads for its elements, in order, and the uniform ones it uses.

        `known` are values of elements that are at hand from earlier passes.
        """
        found: set[int] = set()
        at_hand = set(known)
        left = self.roots(level)
        while left:
            number = left.pop()
            if number in found or number in at_hand:
                continue
            found.add(number)
            item = self.items[number - self.num_inputs] if number >= self.num_inputs else None
            if isinstance(item, Instr) and not self.is_uniform[number]:
                left += item.args
        return sorted(found)

    def held_words(self) -> int:
        """Return the most registers per element that values take which are kept from one pass to the next."""
        passes = []
        known: set[int] = set()
        for level in range(self.num_passes):
            fresh = [number for number in self.needed(level, known) if not self.is_uniform[number]]
            passes.append(fresh)
            known.update(fresh)
        most, known = 0, set()
        for level, fresh in enumerate(passes):
            known.update(fresh)
            later = {number for after in range(level + 1, self.num_passes) for number in self._used(after, passes)}
            most = max(most, sum([max(1, self.types[n].nbytes // 4) for n in known & later]))
        return most

    def _used(self, level: int, passes: list[list[int]]) -> list[int]:
        """Values of elements that a pass takes, where each is computed once."""
        used = self.roots(level)
        for number in passes[level]:
            if number >= self.num_inputs:
                item = self.items[number - self.num_inputs]
                assert isinstance(item, Instr)
                used += item.args
        return [number for number in used if not self.is_uniform[number]]


__all__ = ["Item", "Program", "RowReduction"]
