"""Chains of elementwise instructions inside a kernel: operands bound to parameters, loads, evaluation, stores.

Every elementwise family computes chains; families differ in which thread computes which element. A kernel asks its
`BoundChain` for the `Position` of the first element, moves it along the loops of the nest, and loads and stores there.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from oxinp._kernels.nest import Nest, magic
from oxinp._kernels.problem import Instr
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.memory import Pointer
from oxinp._ptx.types import Type, i32, i64, u32

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from oxinp._ptx import Builder
    from oxinp._ptx.value import Value

MAX_GATHERED = 64  # registers of a thread for the elements that it loads before it uses the first

# How an operand moves along the innermost loop, and which strides are therefore kernel parameters.
UNIT = "unit"  # consecutive elements: the innermost stride is 1
LINE = "line"  # likewise, and the same elements whatever the other loops
STRIDED = "strided"  # any strides
OUTER = "outer"  # one element per row: the innermost stride is 0
BROADCAST = "broadcast"  # one element for all: read once
SCALAR = "scalar"  # a by-value parameter
INDEX = "index"  # no memory: the value is the flat index itself
TILE = "tile"  # no parameter: the kernel itself loads the elements, a tile at a time
TRANSPOSED = "transposed"  # consecutive along the last loop but one: staged through shared memory
STEPPED = "stepped"  # likewise, with a step between neighbours

STAGED = frozenset({TRANSPOSED, STEPPED})


class OperandSpec(Frozen):
    """The properties of an operand that a kernel's code depends on.

    Attributes
    ----------
    type : Type
    kind : str
        One of the constants above.
    is_shifted : bool
        The loops begin a constant distance from the pointer.
    """

    type: Type
    kind: str
    is_shifted: bool = False

    @property
    def has_pointer(self) -> bool:
        """Whether it lies in memory."""
        return self.kind not in {SCALAR, INDEX, TILE}

    @property
    def words(self) -> int:
        """Registers that a loaded element takes."""
        return max(1, self.type.nbytes // 4) if self.kind in {UNIT, LINE, STRIDED, *STAGED} else 0

    def stride_loops(self, ndim: int) -> Sequence[int]:
        """Loops whose stride is a parameter."""
        if self.kind in {UNIT, OUTER}:
            return range(ndim - 1)
        if self.kind == TRANSPOSED:
            return (*range(ndim - 2), ndim - 1)
        return range(ndim if self.kind in {STRIDED, INDEX, STEPPED} else 0)

    def fixed_stride(self, loop: int, ndim: int) -> int:
        """Stride along a loop whose stride is no parameter."""
        return int((self.kind in {UNIT, LINE} and loop == ndim - 1) or (self.kind == TRANSPOSED and loop == ndim - 2))


class Chain(Frozen):
    """The properties of inputs, instructions and outputs that a kernel's code depends on.

    Attributes
    ----------
    inputs : tuple of OperandSpec
        Those of the problem, then, if an instruction wants the index, one of kind INDEX; a reduction may have one more.
    instrs : tuple of Instr
    outputs : tuple of (value number, OperandSpec)
    ndim : int
        Loops of the nest.
    index_bits : int
        32 where every distance in elements fits, else 64.
    """

    inputs: tuple[OperandSpec, ...]
    instrs: tuple[Instr, ...]
    outputs: tuple[tuple[int, OperandSpec], ...]
    ndim: int
    index_bits: int

    @property
    def operands(self) -> tuple[OperandSpec, ...]:
        """Outputs, then inputs."""
        return (*(spec for _, spec in self.outputs), *self.inputs)

    @property
    def wants_index(self) -> bool:
        """Whether the input behind the problem's own is the flat index."""
        return any(instr.wants_index for instr in self.instrs)

    @cached_property
    def words(self) -> int:
        """Registers that one element of each input takes between its load and its use."""
        return sum(spec.words for spec in self.inputs)

    @cached_property
    def kinds(self) -> tuple[str, str]:
        """The inputs and the outputs in words: how each moves, and the bytes of its elements."""
        read = sorted(f"{spec.kind}{spec.type.nbytes}" for spec in self.inputs if spec.kind not in {SCALAR, INDEX})
        return " ".join(read), " ".join(f"{spec.kind}{spec.type.nbytes}" for _, spec in self.outputs)

    @property
    def index_type(self) -> Type:
        """Type of loop indices and of distances in elements."""
        return i32 if self.index_bits == 32 else i64

    @cached_property
    def moves(self) -> tuple[tuple[Sequence[int], bool], ...]:
        """Of every operand but scalars the loops whose strides are parameters, and whether a shift is one."""
        return tuple([(x.stride_loops(self.ndim), x.is_shifted) for x in self.operands if x.kind != SCALAR])

    def constants(self, nest: Nest) -> tuple[int, ...]:
        """Values of the parameters that `BoundChain` declares: operands in order, each its strides, then its shift.

        The nest's operands are the chain's, without scalars.
        """
        values: list[int] = []
        for (loops, is_shifted), strides, shift in zip(self.moves, nest.strides, nest.shifts, strict=True):
            values.extend([strides[loop] for loop in loops])
            if is_shifted:
                values.append(shift)
        return tuple(values)


class Spot:
    """One operand at one element.

    `place` is a moved `Pointer`; for kind INDEX the flat index; for BROADCAST and SCALAR, and
    where it is held, the value.
    """

    __slots__ = ("operand", "place")

    def __init__(self, operand: BoundOperand, place: Any) -> None:
        self.operand = operand
        self.place = place

    def moved(self, loop: int, amount: Value | int) -> Spot:
        """Return the spot `amount` iterations of a loop further."""
        distance = self.operand.distance(loop, amount)
        return self if distance is None else self.shifted(distance)

    def shifted(self, distance: Value | int) -> Spot:
        """Return the spot a number of elements further."""
        place = self.place
        return Spot(self.operand, place.at(distance) if isinstance(place, Pointer) else place + distance)

    def load(self, width: int) -> Sequence[Value]:
        """Values of `width` elements along the innermost loop."""
        kind, innermost = self.operand.spec.kind, self.operand.ndim - 1
        if kind == INDEX:
            k = self.operand.k
            return tuple(k.cast(self.moved(innermost, i).place, self.operand.spec.type) for i in range(width))
        if not isinstance(self.place, Pointer):
            return (self.place,) * width
        if kind == OUTER:
            return tuple(self.place.load(0)) * width
        if kind == STRIDED:
            return tuple(value for i in range(width) for value in self.moved(innermost, i).place.load(0))
        return tuple(self.place.load(0, width=width))

    def held(self) -> Spot:
        """The spot with its value read, if that is the same for all elements along the innermost loop."""
        return Spot(self.operand, self.load(1)[0]) if self.operand.spec.kind == OUTER else self

    def store(self, values: Sequence[Value]) -> None:
        """Store consecutive elements (one, but where the kind is UNIT)."""
        self.place.store(0, values)


class BoundOperand:
    """An operand with its parameters: pointer or value, strides, shift.

    Its `pointer` is where the memory begins, its `origin` where the loops do.
    """

    def __init__(self, k: Builder, name: str, spec: OperandSpec, access: str) -> None:
        self.k = k
        self.name = name
        self.spec = spec
        self.strides: dict[int, Value] = {}
        self.ndim = 0
        self.pointer: Any = None
        self.origin: Any = None
        if spec.has_pointer:
            self.pointer = self.origin = k.pointer(name, spec.type, access)
        elif spec.kind == SCALAR:
            self.origin = k.scalar(name, spec.type)

    def declare_strides(self, ndim: int, type: Type) -> None:
        """Declare the strides and the shift, after every pointer; see `Chain.constants`."""
        k, spec = self.k, self.spec
        self.ndim = ndim
        self.strides = {loop: k.scalar(f"{self.name}_stride{loop}", type) for loop in spec.stride_loops(ndim)}
        if spec.is_shifted:
            shift = k.scalar(f"{self.name}_shift", i64)
            self.origin = self.origin.at(shift) if spec.has_pointer else k.cast(shift, type)
        elif spec.kind == INDEX:
            self.origin = k.const(0, type)
        if spec.kind == BROADCAST:
            self.origin = self.origin[0]

    def distance(self, loop: int, amount: Value | int) -> Value | int | None:
        """Return the elements between one place and the one `amount` iterations of a loop further; None for 0."""
        if isinstance(amount, int) and amount == 0:
            return None
        stride = self.strides.get(loop)
        if stride is None:
            return amount if self.spec.fixed_stride(loop, self.ndim) else None
        return stride * amount

    def spot(self) -> Spot:
        """The operand where the loops begin."""
        return Spot(self, self.origin)


class Position:
    """All operands of a chain at one element."""

    __slots__ = ("bound", "inputs", "outputs")

    def __init__(self, bound: BoundChain, inputs: list[Spot], outputs: list[Spot]) -> None:
        self.bound = bound
        self.inputs = inputs
        self.outputs = outputs

    def moved(self, loop: int, amount: Value | int) -> Position:
        """Return the position `amount` iterations of a loop further."""
        return Position(
            self.bound,
            [spot.moved(loop, amount) for spot in self.inputs],
            [spot.moved(loop, amount) for spot in self.outputs],
        )

    def held(self) -> Position:
        """The position with the values read that all elements along the innermost loop share."""
        return Position(self.bound, [spot.held() for spot in self.inputs], self.outputs)

    def load(self, width: int = 1) -> list[Sequence[Value]]:
        """Values of every input for `width` elements along the innermost loop."""
        return [spot.load(width) for spot in self.inputs]

    def evaluate(self, loaded: list[Sequence[Value]], width: int = 1) -> list[list[Value]]:
        """All values of the chain, for each of `width` elements."""
        return [self.bound.evaluate([values[i] for values in loaded]) for i in range(width)]

    def compute(self, loaded: list[Sequence[Value]], width: int = 1, count: Value | None = None) -> None:
        """Compute `width` elements, and store them, in a number of iterations of the outermost loop if one is given."""
        k, elements = self.bound.k, self.evaluate(loaded, width)

        def store(outputs: list[Spot]) -> None:
            for (number, _), spot in zip(self.bound.chain.outputs, outputs, strict=True):
                spot.store([values[number] for values in elements])

        if count is None:
            store(self.outputs)
            return
        with k.range(k.const(0, count.type), count) as i:
            store([spot.moved(0, i) for spot in self.outputs])


class BoundChain:
    """A chain with its kernel parameters: output pointers, inputs, then strides and shifts.

    A kernel that has pointers of its own declares them first.
    """

    def __init__(self, k: Builder, chain: Chain) -> None:
        self.k = k
        self.chain = chain
        self._outputs = [BoundOperand(k, f"out{i}", spec, "w") for i, (_, spec) in enumerate(chain.outputs)]
        self.inputs = [BoundOperand(k, f"in{i}", spec, "r") for i, spec in enumerate(chain.inputs)]
        for operand in (*self._outputs, *self.inputs):
            operand.declare_strides(chain.ndim, chain.index_type)

    def origin(self) -> Position:
        """Where the loops begin."""
        return Position(self, [o.spot() for o in self.inputs], [o.spot() for o in self._outputs])

    def evaluate(self, inputs: list[Value]) -> list[Value]:
        """All values of one element, numbered as `Instr.args` does."""
        chain = self.chain
        values = list(inputs)
        index = values.pop() if chain.wants_index else None
        for instr in chain.instrs:
            args = [values[a] for a in instr.args]
            if instr.wants_pointer:
                args[0] = self.inputs[instr.args[0]].pointer
            value = instr.lower(self.k, index, *args) if instr.wants_index else instr.lower(self.k, *args)
            if value.type is not instr.type:
                raise TypeError(f"{instr.lower!r} gave {value.type}, and its instruction says {instr.type}")
            values.append(value)
        return values


class Divisor:
    """Division by a kernel parameter: a multiplication, an addition and a shift where indices have 32 bits.

    Indices are not negative; 32-bit ones are below 2**31.
    """

    def __init__(self, k: Builder, name: str, type: Type) -> None:
        self.k = k
        self.value = k.scalar(name, type)
        self._magic = (k.scalar(f"{name}_multiplier", u32), k.scalar(f"{name}_bits", u32)) if type is i32 else None

    @staticmethod
    def constants(divisor: int, index_bits: int) -> tuple[int, ...]:
        """Values of its parameters."""
        return (divisor, *magic(divisor)) if index_bits == 32 else (divisor,)

    def divide(self, n: Value) -> tuple[Value, Value]:
        """Quotient and remainder."""
        k = self.k
        if self._magic is None:
            quotient = n / self.value
        else:
            multiplier, bits = self._magic
            word = k.bitcast(n, u32)
            quotient = k.bitcast((k.mulhi(word, multiplier) + word) >> bits, i32)
        return quotient, n - quotient * self.value


class Splitter:
    """Converts a flat number to loop indices, with one `Divisor` per loop but the outermost."""

    def __init__(self, k: Builder, name: str, num_loops: int, type: Type) -> None:
        self._divisors = [Divisor(k, f"{name}{loop}", type) for loop in range(1, num_loops)]

    @staticmethod
    def constants(shape: Sequence[int], index_bits: int) -> tuple[int, ...]:
        """Values of its parameters."""
        if len(shape) < 2:
            return ()
        return tuple([c for n in shape[1:] for c in Divisor.constants(n, index_bits)])

    def split(self, number: Value) -> list[Value]:
        """Loop indices, outermost first."""
        indices = []
        for divisor in reversed(self._divisors):
            number, index = divisor.divide(number)
            indices.append(index)
        return [number, *reversed(indices)]


def locate(position: Position, loops: Iterator[int] | Sequence[int], indices: Sequence[Value]) -> Position:
    """`position` moved along several loops."""
    for loop, index in zip(loops, indices, strict=True):
        position = position.moved(loop, index)
    return position
