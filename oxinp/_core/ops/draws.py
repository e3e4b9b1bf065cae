"""Draws of random numbers on the device: from a position in NumPy's stream, numbers and the position after them.

What takes a fixed number of words says at once where it ends, and runs when its numbers are needed. What takes as many
as it needs leaves on the device where it ended; that is read when somebody asks.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from oxinp._core.lazy import schedule
from oxinp._core.lazy.building import attempt
from oxinp._core.lazy.calls import Pending
from oxinp._core.lazy.chains import instructions
from oxinp._core.lazy.expr import scalar
from oxinp._core.lazy.handle import Handle, expression, fetch
from oxinp._core.lazy.op import BoundOp, Op, bind
from oxinp._core.lazy.placement import device, keyed
from oxinp._core.lazy.results import wrap_result
from oxinp._core.memory.dtypes import DEVICE_TYPES, INT64
from oxinp._core.memory.layout import Layout
from oxinp._core.ops.c_library import form_of
from oxinp._core.ops.creation import asarray
from oxinp._core.ops.epilogue import epilogue_of
from oxinp._runtime import hooks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._core.lazy.expr import Graph
    from oxinp._core.memory.storage import Value
    from oxinp._core.reduction.planning import Reduced
    from oxinp._kernels.plan import Plan

UINT32, UINT64 = np.dtype(np.uint32), np.dtype(np.uint64)
GENERATORS = frozenset({"PCG64", "PCG64DXSM"})
_FAMILY = "oxinp._kernels.random"
_MASK_64 = (1 << 64) - 1
MAX_FUSED_NODES = 24  # of a chain that runs in the kernel of a draw, unrolled four times
MAX_REDUCED = 3  # draws that a kernel reduces, whose states take registers


class Position(NamedTuple):
    """Where a stream is, as NumPy's state dictionaries say it.

    Attributes
    ----------
    generator : str
        One of `GENERATORS`.
    state, increment : int
    has_half : bool
        The upper half of a word is left over.
    half : int
        That one; of no meaning where there is none.
    """

    generator: str
    state: int
    increment: int
    has_half: bool
    half: int

    @staticmethod
    def of(numpys: dict[str, Any]) -> Position:
        """Return the position that a state dictionary says."""
        state = numpys["state"]
        has_half, half = bool(numpys["has_uint32"]), int(numpys["uinteger"])
        return Position(numpys["bit_generator"], int(state["state"]), int(state["inc"]), has_half, half)

    def numpys(self) -> dict[str, Any]:
        """Return the state dictionary."""
        return {
            "bit_generator": self.generator,
            "state": {"state": self.state, "inc": self.increment},
            "has_uint32": int(self.has_half),
            "uinteger": self.half,
        }

    def after(self, pieces: int, per_word: int) -> Position:
        """Return the position after pieces of words, counted from the start of the word that a half is left of."""
        lcg = importlib.import_module(f"{_FAMILY}.lcg").GENERATORS[self.generator]
        if per_word == 1:
            return self._replace(state=lcg.advanced(self.state, self.increment, pieces))
        halves = -(-2 * pieces // per_word)
        words = -(-halves // 2) - self.has_half
        half = lcg.word_at(self.state, self.increment, words - 1) >> 32 if words else self.half
        state = lcg.advanced(self.state, self.increment, words)
        return Position(self.generator, state, self.increment, bool(halves % 2), half)


class Counter(NamedTuple):
    """Where a stream of NumPy's Philox is, or of ours.

    Attributes
    ----------
    generator : str
        ``"Philox"`` or ``"Philox4x32"``.
    counter, key : int
    taken : int
        Words that were taken of the counter's block: for NumPy's of 64 bits, for ours of 32.
    has_half, half
        As of `Position`; for ours never.
    """

    generator: str
    counter: int
    key: int
    taken: int
    has_half: bool = False
    half: int = 0

    @staticmethod
    def of(numpys: dict[str, Any]) -> Counter | None:
        """Return the position that a state dictionary says; None where its buffer is not the counter's block."""
        counter, key = (_joined(numpys["state"][name], 64) for name in ("counter", "key"))
        found = Counter("Philox", counter, key, numpys["buffer_pos"], bool(numpys["has_uint32"]), numpys["uinteger"])
        is_known = found.taken == 4 or numpys["buffer"].tolist() == found.block()
        return found if is_known else None

    def block(self) -> list[int]:
        """Return the words of the counter."""
        variant = importlib.import_module(f"{_FAMILY}.philox").VARIANTS[self.generator]
        words: list[int] = variant.block(self.counter, self.key)
        return words

    def aligned(self, halves: int) -> Counter:
        """Return where an element of so many halves begins: of our own stream those of a word at an even place."""
        if self.generator == "Philox" or halves == 1:
            return self
        return self._replace(taken=self.taken + self.taken % 2)

    def plain(self) -> Counter:
        """Return the same position with fewer than a block's words taken."""
        blocks, taken = divmod(self.taken, 4)
        return self._replace(counter=(self.counter + blocks) % (1 << 128), taken=taken)

    def numpys(self) -> dict[str, Any]:
        """Return the state dictionary."""
        if self.generator != "Philox":
            at = self.plain()
            state = {"counter": at.counter, "key": at.key}
            return {"bit_generator": self.generator, "state": state, "taken": at.taken}
        return {
            "bit_generator": self.generator,
            "state": {"counter": _split(self.counter, 4), "key": _split(self.key, 2)},
            "buffer": np.array(self.block(), np.uint64),
            "buffer_pos": self.taken,
            "has_uint32": int(self.has_half),
            "uinteger": self.half,
        }

    def after(self, pieces: int, per_word: int) -> Counter:
        """Return the position after pieces of words, see `Position.after`."""
        halves = -(-2 * pieces // per_word)
        is_ours = self.generator != "Philox"
        words = halves if is_ours else -(-halves // 2) - (self.has_half and per_word > 1)
        if not words:
            return self._replace(has_half=bool(halves % 2)) if per_word > 1 and not is_ours else self
        blocks, last = divmod(self.taken + words - 1, 4)
        bits = 128 if is_ours else 256
        after = self._replace(counter=(self.counter + blocks) % (1 << bits), taken=last + 1)
        if is_ours or per_word == 1:
            return after
        return after._replace(has_half=bool(halves % 2), half=after.block()[last] >> 32)


def _joined(words: Any, bits: int) -> int:
    return sum(int(word) << (bits * i) for i, word in enumerate(words))


def _split(number: int, count: int) -> np.ndarray[Any, Any]:
    return np.array([number >> (64 * i) & _MASK_64 for i in range(count)], np.uint64)


def _infer_fill(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:  # noqa: ARG001 - rows' signature
    dtype, shape = parameters[2:4]
    return (Layout.of(dtype, shape),)


def _plan_fill(bound: BoundOp, layout: Layout | None = None, finish: Any = None) -> Plan:
    generator, name, _, _, is_shifted, *skip = bound.parameters
    layout = bound.layouts[0] if layout is None else layout
    module = importlib.import_module(f"{_FAMILY}.{'philox' if skip else 'fill'}")
    more = {"skip": skip[0]} if skip else {}
    plan: Plan = module.plan(
        generator,
        name,
        layout.size,
        layout.alignment,
        device().capability,
        is_shifted=is_shifted,
        finish=finish,
        **more,
    )
    return plan


def _fuse_fill(bound: BoundOp, graph: Graph, place: int) -> Plan | None:
    """The plan of a draw and of what a graph makes of it with scalars; None where it has other arrays."""
    (drawn,), type_ = bound.layouts, DEVICE_TYPES.get(graph.dtype)
    are_scalars = all(not isinstance(entry, Layout) for i, entry in enumerate(graph.leaves) if i != place)
    is_alike = graph.layout.shape == drawn.shape and graph.layout.is_contiguous and drawn.is_contiguous
    if type_ is None or not (are_scalars and is_alike) or len(graph.nodes) > MAX_FUSED_NODES:
        return None
    if graph.structure.wants_index:
        return None
    made = DEVICE_TYPES[drawn.dtype]
    epilogue = epilogue_of(graph, place, made, made)
    if epilogue is None:
        return None
    finish = importlib.import_module(f"{_FAMILY}.finish").Finish.of(epilogue, type_)
    return _plan_fill(bound, graph.layout, finish)


def _reduce_fills(reduction: BoundOp, leaves: tuple[Any, ...]) -> tuple[BoundOp, tuple[Any, ...]] | None:
    """An operation that makes and reduces the elements of draws; None where other arrays are reduced with them.

    What was drawn and has been asked for by nothing else is not drawn again, and has never been stored.
    """
    wanted: Reduced = reduction.parameters
    (graph,) = reduction.graphs
    if len(wanted.axes) != graph.layout.ndim or graph.structure.is_flagged or wanted.op.wants_index:
        return None
    if len(graph.nodes) > MAX_FUSED_NODES or graph.structure.wants_index:
        return None
    graphs: list[Graph] = []
    given: list[Any] = []
    kinds: list[Any] = []
    drawn: set[tuple[str, str]] = set()
    for place, (layout, entry) in enumerate(zip(graph.leaves, leaves, strict=True)):
        if not isinstance(layout, Layout):
            graphs.append(scalar(layout))
            given.append(entry)
            kinds.append(layout)
            continue
        call = entry.call if type(entry) is Pending else None
        state = None if call is None else call.leaves
        if call is None or state is None or call.bound.op is not FILL or not call.is_from_here():
            return None
        generator, name, _, _, is_shifted, *skip = call.bound.parameters
        is_whole = layout.is_contiguous and layout.shape == graph.layout.shape and layout.size == graph.layout.size
        if is_shifted or skip or not is_whole or graph.leaves[place].offset:
            return None
        drawn.add((generator, name))
        graphs += call.bound.graphs
        given += state
        kinds.append(None)
    if len(drawn) > 1 or sum(kind is None for kind in kinds) > MAX_REDUCED:
        return None
    parameters = (*drawn.pop(), graph, tuple(kinds), wanted, reduction.layouts[0])
    return bind(REDUCED, tuple(graphs), parameters), tuple(given)


def _infer_reduced(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:  # noqa: ARG001
    return (parameters[-1],)


def _plan_reduced(bound: BoundOp) -> Plan:
    generator, name, graph, kinds, wanted, result = bound.parameters
    module = importlib.import_module(f"{_FAMILY}.reduced")
    leaves = tuple([None if kind is None else DEVICE_TYPES[kind] for kind in kinds])
    structure = graph.structure
    spec = module.ReducedSpec(
        generator,
        name,
        leaves,
        instructions(structure),
        structure.result,
        wanted.mask,
        wanted.op,
        DEVICE_TYPES[result.dtype],
    )
    plan: Plan = module.plan(spec, graph.layout.size, device().capability)
    return plan


REDUCED = Op("reduced random words", _plan_reduced, _infer_reduced, draws=True)
FILL = Op("random words", _plan_fill, _infer_fill, fuse=_fuse_fill, reduced=_reduce_fills, draws=True)


def _infer_segments(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:  # noqa: ARG001
    dtype, shape = parameters[2:4]
    return Layout.of(dtype, shape), Layout.of(INT64, (2,))


def _plan_segments(bound: BoundOp) -> Plan:
    generator, name, _, _, is_shifted, expected, *skip = bound.parameters
    layout = bound.layouts[0]
    segments = importlib.import_module(f"{_FAMILY}.segments")
    module = importlib.import_module(f"{_FAMILY}.stored_plan") if skip else segments
    draw = segments.Draw(
        generator, name, layout.size, is_shifted, *skip, expected=expected, log1p=log1p_of(layout.dtype)
    )
    plan: Plan = module.plan(draw, device().capability)
    return plan


def log1p_of(dtype: np.dtype[Any]) -> str:
    """The form of ``log1p`` that variates of a type go through."""
    return form_of(f"log1p_f{dtype.itemsize}") if dtype.kind == "f" else ""


SEGMENTS = Op("random variates", _plan_segments, _infer_segments, draws=True)


def ask(op: Op, operands: Sequence[Any], parameters: tuple[Any, ...]) -> list[Any]:
    """Ask for a draw; operands are arrays, and pairs of a dtype and a value."""
    return [wrap_result(value, as_array=True) for value in attempt(_deferred, op, operands, parameters)]


def _deferred(op: Op, operands: Sequence[Any], parameters: tuple[Any, ...]) -> list[Value]:
    values = [expression(x) if isinstance(x, Handle) else (scalar(x[0]), (x[1],), 0) for x in operands]
    leaves = tuple([entry for _, entries, _ in values for entry in entries])
    mask = 0
    for _, _, bits in values:
        mask |= bits
    bound = bind(op, tuple([graph for graph, _, _ in values]), parameters)
    return schedule.defer(bound, leaves, mask, depth=5)


def _start(position: Position, *, is_shifted: bool) -> list[tuple[Any, int]]:
    """The inputs that say where a draw begins."""
    numbers = (position.state, position.increment)
    words = [(UINT64, part) for number in numbers for part in (number & _MASK_64, number >> 64)]
    return [*words, (UINT32, position.half)] if is_shifted else words


def fill(
    position: Position | Counter, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> tuple[Any, Position | Counter]:
    """Return an array of what takes a fixed number of words, and the position after it.

    Parameters
    ----------
    position : Position
    name : str
        A format of `oxinp._kernels.random.fill`.
    dtype : numpy.dtype
        As wide as the format's.
    shape : tuple of int
    """
    halves = importlib.import_module(f"{_FAMILY}.fill").FORMATS[name].halves
    is_shifted = position.has_half and halves == 1
    parameters: tuple[Any, ...] = (position.generator, name, dtype, shape, is_shifted)
    if isinstance(position, Counter):
        position = position.aligned(halves)
        start, skip = _start_counted(position, halves, is_shifted=is_shifted)
        parameters = (*parameters, skip)
    else:
        start = _start(position, is_shifted=is_shifted)
    (array,) = ask(FILL, start, parameters)
    return array, position.after(array._layout.size + is_shifted, 3 - halves)


def _start_counted(position: Counter, halves: int, *, is_shifted: bool) -> tuple[list[tuple[Any, int]], int]:
    """The inputs that say where a draw begins, and how many elements of the first block come before it."""
    variant = importlib.import_module(f"{_FAMILY}.philox").VARIANTS[position.generator]
    blocks, skip = divmod(position.taken * variant.halves // 4 // halves - is_shifted, variant.halves // halves)
    bits = 64 * variant.num_counters
    counter = _split((position.counter + blocks) % (1 << bits), variant.num_counters)
    words = [(UINT64, word) for word in (*counter.tolist(), *_split(position.key, variant.num_keys).tolist())]
    return [*words, (UINT32, position.half)] if is_shifted else words, skip


class Ending:
    """Where a draw ends that takes as many words as it needs.

    Parameters
    ----------
    position : Position or Counter
        Where it began.
    pieces : int
        Of a word that its variates take.
    words : Handle
        What the draw left.
    lead : int
        Pieces of the word that a half is left of, which it does not count.
    """

    __slots__ = ("_lead", "_pieces", "_position", "_words")

    def __init__(self, position: Position | Counter, pieces: int, words: Handle, lead: int = 0) -> None:
        self._position, self._pieces, self._words, self._lead = position, pieces, words, lead

    def position(self) -> Position | Counter:
        """Read where it is; this waits for the device.

        Raises
        ------
        RuntimeError
            The draw took more than its kernels provide for, of which the chance is as good as none.
        """
        taken, status = fetch(self._words).tolist()
        if status or taken < 0:
            msg = f"a draw of random numbers from {self._position} ended with status {status}: please report it"
            raise RuntimeError(msg)
        return self._position.after(taken + self._lead, self._pieces)


_TABLES: dict[Any, Handle] = {}
hooks.before_leaving.append(_TABLES.clear)  # `leave_device` does not find what `gc.freeze` hides


def table_of(name: str) -> Handle:
    """The table of a ziggurat, on the device."""
    key = keyed(name)
    table = _TABLES.get(key)
    if table is None:
        made = importlib.import_module(f"{_FAMILY}.variates").ziggurat_table(name)
        table = _TABLES[key] = asarray(made)
    return table


def variates(
    position: Position | Counter,
    name: str,
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    parameters: Sequence[int] = (),
    expected: float = 0,
) -> tuple[Any, Ending]:
    """Return an array of variates that take as many words as they need, and where that ends.

    Parameters
    ----------
    position : Position or Counter
    name : str
        A variate of `oxinp._kernels.random.variates`.
    dtype : numpy.dtype
        As wide as the variate's.
    shape : tuple of int
    parameters : sequence of int
        Of the variate.
    expected : float
        Pieces of words per variate, where that depends on parameters.
    """
    variate = importlib.import_module(f"{_FAMILY}.variates").VARIATES[name]
    is_shifted = position.has_half and variate.pieces > 1
    given: tuple[Any, ...] = (position.generator, name, dtype, shape, is_shifted, expected)
    lead, halves = 0, 2 if variate.pieces == 1 else 1
    if isinstance(position, Counter):
        position = position.aligned(halves)
        operands, skip = _start_counted(position, halves, is_shifted=is_shifted)
        given, lead = (*given, skip), variate.pieces // 2 * is_shifted
    else:
        operands = _start(position, is_shifted=is_shifted)
    more: list[Any] = [table_of(name)] if variate.has_table else []
    more += [(type_.dtype, value) for type_, value in zip(variate.parameters, parameters, strict=True)]
    array, words = ask(SEGMENTS, [*operands, *more], given)
    return array, Ending(position, variate.pieces, words, lead)


__all__ = ["GENERATORS", "Counter", "Ending", "Position", "ask", "fill", "log1p_of", "table_of", "variates"]
