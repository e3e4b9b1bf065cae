"""The tile of a block: parameters, which thread works on what, and the elements at the two ends of its transforms.

An end is one array, or the operands of a chain of elementwise operations that runs in the kernel; a `Place` is where
these have one element, and moves along the transform.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp._kernels.elementwise.chain import Divisor, Splitter
from oxinp._kernels.fft.roots import Circle
from oxinp._kernels.fft.spec import (
    BY_BOTH,
    BY_LOOP,
    RADER,
    ROWS,
    SCALAR,
    STRIDED,
    SUMMED,
    TRIGONOMETRIC,
    TWINS,
    UNIT,
    TransformSpec,
)
from oxinp._ptx import Builder
from oxinp._ptx.memory import Pointer
from oxinp._ptx.synchronize import follow
from oxinp._ptx.types import i32, i64, pred, u32, u64

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._kernels.fft.codelets import Number
    from oxinp._kernels.fft.spec import Fused
    from oxinp._ptx.types import Type
    from oxinp._ptx.value import Value

    Values = list[list[Number]]  # of the butterflies of a thread


class Thread:
    """Which column a thread has, and which butterfly is its first."""

    def __init__(self, column: Value, first: Value) -> None:
        self.column = column
        self.first = first


class End:
    """Operands at one end of the transforms: a name, and per operand type, kind, and pointer or value."""

    def __init__(self, k: Builder, name: str, operands: tuple[tuple[Type, str], ...], access: str) -> None:
        self.k = k
        self.kinds = [kind for _, kind in operands]
        names = [name] if len(operands) == 1 else [f"{name}{i}" for i in range(len(operands))]
        self.names = names
        self.origins: list[Any] = [
            k.scalar(name, type_) if kind == SCALAR else k.pointer(name, type_, access)
            for name, (type_, kind) in zip(names, operands, strict=True)
        ]
        self.steps: list[list[Value]] = []

    def declare_steps(self, count: int, index: Type) -> None:
        """Declare the steps of all arrays along the loops and, last, along the transform."""
        self.steps = [
            [] if kind == SCALAR else [self.k.scalar(f"{name}_step{i}", index) for i in range(count)]
            for name, kind in zip(self.names, self.kinds, strict=True)
        ]

    def move(self, indices: list[Value], steps: list[list[Value]]) -> None:
        """Move the arrays by their steps times indices."""
        moved = []
        for origin, kind, own in zip(self.origins, self.kinds, steps, strict=True):
            place = origin
            for index, step in () if kind == SCALAR else zip(indices, own, strict=True):
                place = place.at(index * step)
            moved.append(place)
        self.origins = moved


class Place:
    """The operands of an end at one element; the value of what is passed by value."""

    __slots__ = ("end", "places")

    def __init__(self, end: End, places: list[Any]) -> None:
        self.end = end
        self.places = places

    def moved(self, amount: Value | int) -> Place:
        """Return the place a number of the transform's elements further."""
        if isinstance(amount, int) and not amount:
            return self
        end, places = self.end, []
        for kind, steps, place in zip(end.kinds, end.steps, self.places, strict=True):
            if kind == STRIDED and isinstance(amount, int):
                places.append(stepped(place, steps[-1], amount))
            else:
                places.append(place if kind == SCALAR else place.at(amount if kind == UNIT else steps[-1] * amount))
        return Place(end, places)

    def load(self, cache: str = "") -> list[Value]:
        """Load an element of every operand."""
        return [
            place if kind == SCALAR else place.load(0, 1, cache)[0]
            for kind, place in zip(self.end.kinds, self.places, strict=True)
        ]

    def load_where(self, is_valid: Value | None, cache: str = "") -> list[Value]:
        """Load an element of every operand; zeros where a predicate does not hold."""
        if is_valid is None:
            return self.load(cache)
        k, found = self.end.k, []
        for kind, place in zip(self.end.kinds, self.places, strict=True):
            if kind == SCALAR:
                found.append(place)
                continue
            variable = k.var(k.const(False if place.type is pred else 0, place.type))
            with k.when(is_valid):
                variable.set(place.load(0, 1, cache)[0])
            found.append(variable.get())
        return found

    @property
    def pointer(self) -> Pointer:
        """Of the only operand."""
        (pointer,) = self.places
        return pointer  # type: ignore[no-any-return]


class Host(NamedTuple):
    """A kernel of several tiles, for one of them.

    Attributes
    ----------
    k : Builder
    prefix : str
        What the names of the tile's parameters begin with.
    smem : Pointer or None
        Shared memory for all tiles.
    loaded, exchanged : callable
        Called when the tile's loads are on their way, and behind the barrier that follows.
    load_cache, store_cache : str
        Cache operators of loads and stores; "" for those of a tile alone.
    """

    k: Builder
    prefix: str
    smem: Pointer | None
    loaded: Callable[[], None]
    exchanged: Callable[[], None]
    load_cache: str = ""
    store_cache: str = ""


class Tile:
    """A kernel while it is built; parameters are target, sources, then as `Batch.fit` says.

    Parameters
    ----------
    spec : TransformSpec
    host : Host, optional
        The kernel that the tile is a part of, and which calls `declare` when it has all pointers.
    """

    def __init__(self, spec: TransformSpec, host: Host | None = None) -> None:
        self.spec = spec
        self.host = host
        self.k = k = host.k if host else Builder(_name(spec), block=spec.threads * spec.columns, **_limits(spec))
        self.prefix = host.prefix if host else ""
        self.part = spec.type.parts[0]
        self.index = i32 if spec.bits == 32 else i64
        units = [UNIT if is_unit else STRIDED for is_unit in (spec.is_unit_source, spec.is_unit_target)]
        self.target = End(k, f"{self.prefix}target", ((spec.stored or spec.target, units[1]),), "w")
        given = ((spec.source, units[0]),) if spec.prologue is None else spec.prologue.operands
        self.source = End(k, f"{self.prefix}source", given, "r")
        self.beside = End(k, f"{self.prefix}beside", () if spec.epilogue is None else spec.epilogue.operands, "r")
        between = () if spec.between is None else spec.between.operands
        self.between = End(k, f"{self.prefix}between", between, "r")
        if spec.is_filtered:
            self.filter = k.pointer(f"{self.prefix}filter", spec.type, "r")
        if spec.chirp:
            self.chirp, self.filter = (
                k.pointer(f"{self.prefix}{name}", spec.type, "r") for name in ("chirp", "filter")
            )
        if host is None:
            self.declare()

    def declare(self) -> None:
        """Declare the parameters behind the pointers."""
        k, spec, prefix = self.k, self.spec, self.prefix
        self.tiles = Divisor(k, f"{prefix}num_tiles", self.index)
        self.num_columns = k.scalar(f"{prefix}num_columns", self.index)
        self.outer = Splitter(k, f"{prefix}outer", spec.num_outer, self.index)
        for end in (self.source, self.target, self.beside, self.between):
            end.declare_steps(spec.num_outer + 2, self.index)
        self.source_sign = k.scalar(f"{prefix}source_sign", self.part)
        self.scales = [k.scalar(f"{prefix}{name}", self.part) for name in ("real_scale", "imag_scale")]
        if spec.between is not None:
            self.between_scales = [k.scalar(f"{prefix}between_{name}", self.part) for name in ("real", "imag", "sign")]
        if spec.is_padded or spec.is_half:
            self.source_positions = [
                k.scalar(f"{prefix}source_position{i}", self.index) for i in range(spec.num_outer + 2)
            ]
            self.num_valid = k.scalar(f"{prefix}num_valid", self.index)
        if spec.is_half:
            self.whole_length, self.half_step = (
                k.scalar(f"{prefix}{name}", self.index) for name in ("whole_length", "half_step")
            )
        if spec.is_cropped:
            self.target_positions = [
                k.scalar(f"{prefix}target_position{i}", self.index) for i in range(spec.num_outer + 2)
            ]
            self.num_stored = k.scalar(f"{prefix}num_stored", self.index)
        if spec.chirp:
            self.chirp_length = k.scalar(f"{prefix}chirp_length", u32)
        if spec.real in TWINS:
            self.twins = [k.scalar(f"{prefix}{name}", self.index) for name in ("source_twin", "target_twin")]
        if spec.real in TRIGONOMETRIC:
            self.first_scale = k.scalar(f"{prefix}first_scale", self.part)
        if spec.twiddle:
            self.circle = Circle(k, f"{prefix}circle", self.part)
        if spec.is_fetching:
            self.ahead, self.num_tiles = (k.scalar(f"{prefix}{name}", self.index) for name in ("ahead", "num_blocks"))

    def begin(self, number: Value | None = None) -> Thread:
        """Find the tile of a block, or of a number, i32; return the threads in the order in which they load."""
        k, spec = self.k, self.spec
        if spec.is_following:
            follow(k)
        number = k.cast(k.ctaid if number is None else number, self.index)
        if spec.cluster > 1:
            self.rank = k.ctaid % spec.cluster
            number = k.cast(k.ctaid / spec.cluster, self.index)
        self.number = number
        outer, tile = self.tiles.divide(number)
        self.loops = self.outer.split(outer)
        self.first_column = tile * spec.columns
        return self.threads(spec.loads)

    def threads(self, order: str) -> Thread:
        """Threads in one of the two orders."""
        k, spec = self.k, self.spec
        if order == ROWS:
            return Thread(*divided(k, k.tid, spec.threads)) if spec.columns > 1 else Thread(k.const(0, u32), k.tid)
        return Thread(*divided(k, k.tid, spec.columns)[::-1])

    def butterflies(self, thread: Thread, radix: int) -> list[tuple[Value, Value | None]]:
        """Numbers of a thread's butterflies, the last in place of those beyond it, and whether each is one."""
        k, spec = self.k, self.spec
        count = spec.share // radix
        rounds = -(-count // spec.threads)
        found: list[tuple[Value, Value | None]] = []
        for i in range(rounds):
            number = thread.first + i * spec.threads if i else thread.first
            if (i + 1) * spec.threads > count:
                found.append((k.min(number, count - 1), number < count))
            else:
                found.append((number, None))
        return found

    def first_number(self, number: Value) -> Value:
        """The number in the transform of a block's butterfly of the first stage."""
        return number + self.rank * (self.spec.share // self.spec.radices[0]) if self.spec.cluster > 1 else number

    def later_number(self, number: Value) -> Value:
        """The same of the stages that follow, where a block has some of every `radices[0]` butterflies."""
        spec = self.spec
        if spec.cluster == 1:
            return number
        if spec.kept == 1:
            return number * spec.cluster + self.rank
        return number / spec.kept * spec.radices[0] + self.rank * spec.kept + number % spec.kept

    def turn(self, thread: Thread) -> Value:
        """The index of a thread's transform in the loop that roots of unity go with, u32."""
        k = self.k
        if self.spec.twiddle == BY_LOOP or not self.spec.twiddle:
            return k.cast(self.loops[-1], u32)
        column = self.first_column + k.cast(thread.column, self.index)
        if self.spec.twiddle == BY_BOTH:
            column = column + self.num_columns * self.loops[-1]
        return k.cast(column, u32)

    # -- the ends

    def origin(self, thread: Thread, steps: list[Value]) -> Value:
        """Elements from the pointer to a thread's transform."""
        k = self.k
        column = k.min(self.first_column + k.cast(thread.column, self.index), self.num_columns - 1)
        place = column * steps[-2]
        for loop, step in zip(self.loops, steps, strict=False):
            place = place + loop * step
        return place

    def is_column(self, thread: Thread) -> Value:
        """Whether a thread has a transform."""
        return self.first_column + self.k.cast(thread.column, self.index) < self.num_columns

    def start(self, end: End, thread: Thread) -> list[Any]:
        """Elements from the pointers of an end to a thread's transform."""
        return [
            None if kind == SCALAR else self.origin(thread, steps)
            for kind, steps in zip(end.kinds, end.steps, strict=True)
        ]

    def place(self, end: End, start: list[Any], number: Value) -> Place:
        """An element of the transform that begins at `start`; `number` is of the index type."""
        places = []
        for kind, steps, pointer, first in zip(end.kinds, end.steps, end.origins, start, strict=True):
            moved = number if kind != STRIDED else number * steps[-1]
            places.append(pointer if kind == SCALAR else pointer.at(first + moved))
        return Place(end, places)

    def first(self, end: End, thread: Thread) -> Place:
        """The first element of a thread's transform."""
        start = self.start(end, thread)
        return Place(end, [x if first is None else x.at(first) for x, first in zip(end.origins, start, strict=True)])

    def read(self, place: Place, is_valid: Value | None = None, *, is_reused: bool = True) -> Value:
        """What the source has at a place, or the prologue makes of it; 0 where it is not valid."""
        k, spec = self.k, self.spec
        cache = "" if is_reused else "L1::no_allocate"
        if self.host is not None and self.host.load_cache:
            cache = self.host.load_cache
        found = place.load_where(is_valid, cache)
        if spec.prologue is None:
            return found[0]
        made = evaluate(k, spec.prologue, found)
        if is_valid is None:
            return made
        # Not behind a branch: there, each element would wait for its operands before the next one's are asked for.
        if not made.type.is_complex:
            return k.where(is_valid, made, k.const(False if made.type is pred else 0, made.type))
        number: Value = k.compound(made.type, *[k.where(is_valid, part, k.const(0, part.type)) for part in made.parts])
        return number

    def element(self, place: Place, is_valid: Value | None, sign: Value, *, is_reused: bool) -> Number:
        """A number that is read, conjugated where the transform goes backwards."""
        k = self.k
        value = self.read(place, is_valid, is_reused=is_reused)
        if not self.spec.source.is_complex:
            return k.cast(value, self.part), k.const(0, self.part)
        real, imag = (k.cast(part, self.part) for part in value.parts)
        return real, imag * sign if self.spec.is_signed else imag

    def halved(self, place: Place, where: Value) -> tuple[Place, Value, Value]:
        """Where a half sequence has an element, that one's number, and the sign of the imaginary part.

        Elements of the second half are those at the mirrored place, conjugated.
        """
        k, mirrored, sign = self.k, self.whole_length - where, self.source_sign
        is_mirrored = where > mirrored
        moved = k.where(is_mirrored, mirrored - where, k.const(0, self.index))
        place = Place(place.end, [place.pointer.at(moved * self.half_step)])
        return place, k.min(where, mirrored), k.where(is_mirrored, -sign, sign)

    def between_value(self, number: Number, place: Place) -> Value:
        """What the chain between two transforms makes of a number and of what it has at a place."""
        assert self.spec.between is not None
        return evaluate(self.k, self.spec.between, [self.k.compound(self.spec.type, *number), *place.load()])

    def write(self, target: Place, beside: Place, value: Value, loaded: list[Value] | None = None) -> None:
        """Store an element, or what the epilogue makes of it and of what lies beside, which may be loaded already."""
        if self.spec.epilogue is not None:
            value = evaluate(self.k, self.spec.epilogue, [value, *(beside.load() if loaded is None else loaded)])
        cache = self.host.store_cache if self.host is not None else "cs" if self.spec.is_streaming else ""
        target.pointer.store(0, (value,), cache)


def evaluate(k: Builder, fused: Fused, values: list[Value]) -> Value:
    """The value of a chain."""
    values = list(values)
    for instr in fused.instrs:
        values.append(instr.lower(k, *[values[a] for a in instr.args]))
    return values[fused.result]


def stepped(pointer: Pointer, step: Value, count: int) -> Pointer:
    """The pointer moved by a number of steps, by one instruction where those have 32 bits."""
    if step.type is not i32:
        return pointer.at(step * count)
    k, base = pointer.builder, pointer.base
    moved = k.emit("mad_wide", step, count * pointer.type.nbytes, k.bitcast(base, i64))
    return Pointer(k, k.bitcast(moved, u64), pointer.type, pointer.space, pointer.access, (), pointer.offset)


def divided(k: Builder, number: Value, divisor: int) -> tuple[Value, Value]:
    """Quotient and remainder of a number below 2**16, by a multiplication: ptxas divides by what is no power of two."""
    if divisor & (divisor - 1) == 0:
        return number / divisor, number % divisor
    quotient = k.mulhi(number, k.const(-(-(1 << 32) // divisor), u32))
    return quotient, number - quotient * divisor


def _limits(spec: TransformSpec) -> dict[str, Any]:
    """What a kernel demands of a device."""
    cluster = {"cluster": spec.cluster} if spec.cluster > 1 else {}
    target = {"target": "sm_90"} if spec.cluster > 1 or spec.is_fetching or spec.is_following else {}
    return {"min_blocks": spec.min_blocks, **cluster, **target}


def _name(spec: TransformSpec) -> str:
    fused = "_fused" if spec.prologue or spec.epilogue else ""
    if spec.real == RADER:
        return f"fft_rader_{spec.row}{fused}"
    if spec.real == SUMMED or spec.real in TWINS:
        return f"fft_{spec.real.replace(' ', '_')}_{spec.length}{fused}"
    if spec.real:
        return f"fft_{spec.real.replace(' ', '_')}_{2 * spec.length}{fused}"
    if spec.is_staged:
        return f"fft_staged_{spec.length}{fused}"
    return f"fft_bluestein_{spec.length}{fused}" if spec.chirp else f"fft_{spec.length}{fused}"


__all__ = ["End", "Host", "Place", "Thread", "Tile", "divided", "evaluate"]
