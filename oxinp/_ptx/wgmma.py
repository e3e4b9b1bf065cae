"""Warpgroup matrix multiply (wgmma, sm_90a): four warps multiply tiles in shared memory, asynchronously.

A `Queue` is one warpgroup's line of multiplications, and an `Accumulator` the registers they add into. Fences and
commits are implied by `Queue.group`; the accumulator knows whether it is in flight, and reading it then raises while
the kernel is being built. What the check cannot see is a wait that happens only sometimes, so a wait inside a branch
counts inside that branch only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oxinp._ptx import isa
from oxinp._ptx.gpu_only import refuse, refuse_to_wait
from oxinp._ptx.isa import EFFECT, WAIT, Op, Row
from oxinp._ptx.tile import WARPGROUP, OperandView, Pair
from oxinp._ptx.types import Type, bf16, e4m3, e5m2, f16, f32, i8, i32, pred, u8, u32, u64
from oxinp._ptx.value import Scope, Value, Var

if TYPE_CHECKING:
    from oxinp._ptx.builder import Builder
    from oxinp._ptx.kernel import Loop

ROWS = 64
FRAGMENT, WORD = 4, 4  # registers that a thread has of A per multiplication, and their bytes


@dataclass(frozen=True, slots=True)
class Form:
    """The wgmma instructions of one operand type.

    Attributes
    ----------
    ptx : str
        PTX name of the operand type; f32 operands are used as tf32, their low 13 bits ignored.
    depth : int
        Elements of K per instruction.
    sums : tuple of Type
        Accumulator types.
    immediates : str
        What follows the scale-d predicate, with ``{a}`` and ``{b}`` for "is transposed".
    extent_step : int
        N is a multiple of it, from 8 (or it) to 256.
    """

    ptx: str
    depth: int
    sums: tuple[Type, ...]
    immediates: str
    extent_step: int = 8


FORMS = {
    bf16: Form("bf16", 16, (f32,), ", 1, 1, {a}, {b}"),
    f16: Form("f16", 16, (f32,), ", 1, 1, {a}, {b}"),
    f32: Form("tf32", 8, (f32,), ", 1, 1"),
    e4m3: Form("e4m3", 32, (f32,), ", 1, 1"),
    e5m2: Form("e5m2", 32, (f32,), ", 1, 1"),
    i8: Form("s8", 32, (i32,), "", 16),
    u8: Form("u8", 32, (i32,), "", 16),
}

isa.register(
    [
        Row(
            "wgmma_fence",
            "wgmma.fence.sync.aligned",
            "<-",
            ((),),
            refuse,
            sm=90,
            ptx=(8, 0),
            kind=EFFECT,
            collective=WARPGROUP,
            arch_specific=True,
        ),
        Row(
            "wgmma_commit",
            "wgmma.commit_group.sync.aligned",
            "<-",
            ((),),
            refuse,
            sm=90,
            ptx=(8, 0),
            kind=EFFECT,
            collective=WARPGROUP,
            arch_specific=True,
        ),
    ]
)
_OPS: dict[tuple[Any, ...], Op] = {}


def multiply_op(type: Type, sum_type: Type, extent: int, a_transposed: bool | None, b_transposed: bool) -> Op:
    """Instruction form of one m64nNkK multiplication; of A in registers if that is neither transposed nor not.

    The accumulator registers are read and written in place, asynchronously; they stand among the sources.
    """
    key = (type, sum_type, extent, a_transposed, b_transposed)
    op = _OPS.get(key)
    if op is None:
        form = FORMS.get(type)
        if form is None or sum_type not in form.sums:
            raise TypeError(f"wgmma does not multiply {type} into {sum_type}")
        if extent % form.extent_step or not 8 <= extent <= 256:
            raise ValueError(f"wgmma of {type} has no N = {extent}: multiples of {form.extent_step} up to 256")
        if (a_transposed or b_transposed) and "{a}" not in form.immediates:
            raise ValueError(f"wgmma reads {type} operands K-major only")
        num = extent // 2
        sums = ", ".join(f"{{{i}}}" for i in range(num))
        a, end, immediates = f"{{{num}}}", num + 1, form.immediates
        a_types: tuple[Type, ...] = (u64,)
        if a_transposed is None:
            if type.nbytes not in (WORD, WORD // 2):
                raise ValueError(f"no wgmma takes {type} from registers here")
            end = num + FRAGMENT
            # Of 16 bits, pairs; how A lies is not asked then.
            a_types = (type if type.nbytes == WORD else u32,) * FRAGMENT
            a, immediates = (
                "{{" + ", ".join(f"{{{i}}}" for i in range(num, end)) + "}}",
                immediates.replace(", {a}", ""),
            )
        immediates = immediates.format(a=int(a_transposed or 0), b=int(b_transposed))
        text = (
            f"wgmma.mma_async.sync.aligned.m{ROWS}n{extent}k{form.depth}.{sum_type.ptx}.{form.ptx}.{form.ptx} "
            f"{{{{{sums}}}}}, {a}, {{{end}}}, {{{end + 1}}}{immediates};"
        )
        src = (*(sum_type,) * num, *a_types, u64, pred)
        op = _OPS[key] = Op("wgmma", text, (), src, refuse, EFFECT, 90, (8, 0), WARPGROUP, arch_specific=True)
    return op


def _wait_op(num_pending: int) -> Op:
    op = _OPS.get(("wait", num_pending))
    if op is None:
        text = f"wgmma.wait_group.sync.aligned {num_pending};"
        op = _OPS["wait", num_pending] = Op(
            "wgmma_wait", text, (), (), refuse_to_wait, WAIT, 90, (8, 0), WARPGROUP, arch_specific=True
        )
    return op


class Queue:
    """The wgmma of one warpgroup, in order, in commit groups.

    Parameters
    ----------
    k : Builder
    """

    def __init__(self, k: Builder) -> None:
        self.builder = k
        self._accumulators: list[Accumulator] = []
        self._num_groups = 0
        self._is_open = False
        self._open_loops: tuple[Loop, ...] = ()

    def accumulator(self, extent: int, type: Type = f32) -> Accumulator:
        """A 64 x `extent` accumulator of this warpgroup; reset it before the first use."""
        accumulator = Accumulator(self, extent, type)
        self._accumulators.append(accumulator)
        return accumulator

    @contextmanager
    def group(self) -> Iterator[None]:
        """Commit the wgmma of a ``with`` block as one group; they are in flight from its end on."""
        if self._is_open:
            raise TypeError("a group of wgmma is open already")
        self._follow_loops()
        k = self.builder
        # The accumulators may have been written by other instructions before.
        k.emit("wgmma_fence", types=())
        self._is_open = True
        yield
        self._is_open = False
        k.emit("wgmma_commit", types=())
        self._num_groups += 1

    def wait(self, num_pending: int = 0) -> None:
        """Wait until at most the latest `num_pending` groups are in flight."""
        if self._is_open:
            raise TypeError("wait after the group is closed")
        self._follow_loops()
        k = self.builder
        k.emit_op(_wait_op(num_pending))
        for accumulator in self._accumulators:
            if accumulator._group <= self._num_groups - num_pending:
                accumulator._landed_in = k._current.scope

    def _follow_loops(self) -> None:
        """Check the loops that ended since the last event: their next iteration begins in the state of this end."""
        loops = tuple(self.builder._loops)
        ended = [loop for loop in self._open_loops if loop not in loops]
        self._open_loops = loops
        for accumulator in self._accumulators:
            accumulator._check_loops(ended)


class Accumulator:
    """A 64 x `extent` accumulator in the registers of a warpgroup.

    Thread t of the warpgroup holds, for i in 0, 1 and every j: elements (r + 8 i, 8 j + c) and (r + 8 i, 8 j + c + 1),
    r = 16 (t / 32) + t % 32 / 4, c = 2 (t % 4).
    """

    def __init__(self, queue: Queue, extent: int, type: Type) -> None:
        k = queue.builder
        self.queue = queue
        self.extent = extent
        self.type = type
        self._registers: list[Var] = [k.var(0, type) for _ in range(extent // 2)]
        self._keeps: Var = k.var(False, pred)
        self._group = -1  # number of the last group that adds into it
        self._issued_in: Scope | None = None
        self._landed_in: Scope | None = None  # block of the wait that covers it
        self._assumed: set[int] = set()  # loops that were entered with the accumulator at rest, and read in

    def reset(self) -> None:
        """Make the next wgmma overwrite the accumulator instead of adding to it."""
        self._keeps.set(False)

    def multiply(self, a: OperandView, b: OperandView, num_steps: int, type: Type) -> None:
        """Add a @ b.T over `num_steps` steps of 32 bytes of K; inside `Queue.group`."""
        op = multiply_op(type, self.type, self.extent, a.is_transposed, b.is_transposed)
        self._multiply(op, [[a.descriptor(step)] for step in range(num_steps)], b)

    def multiply_fragments(self, fragments: Sequence[Sequence[Value]], b: OperandView, type: Type, first: int) -> None:
        """Add a @ b.T over steps of K from the `first` on, of which a is in registers.

        These must not be written before the wait.
        """
        op = multiply_op(type, self.type, self.extent, None, b.is_transposed)
        self._multiply(op, fragments, b, first)

    def _multiply(self, op: Op, steps: Iterable[Sequence[Value]], b: OperandView, first: int = 0) -> None:
        if not self.queue._is_open:
            raise TypeError("multiply inside `with queue.group():`")
        k = self.queue.builder
        for step, a in enumerate(steps, first):
            k.emit_op(op, *self._registers, *a, b.descriptor(step), self._keeps)
            if step == first:
                self._keeps.set(True)
        self._group = self.queue._num_groups + 1
        self._issued_in, self._landed_in = k._current.scope, None

    @property
    def registers(self) -> list[Var]:
        """Accumulator registers of the thread, to be written while no wgmma is in flight."""
        self.pairs()
        return self._registers

    @property
    def is_in_flight(self) -> bool:
        """Whether a multiplication may still write the registers at this place of the kernel."""
        if self._issued_in is None:
            return False
        landed = self._landed_in
        return landed is None or not (landed.is_open or landed.contains(self._issued_in))

    def pairs(self) -> list[Pair]:
        """Return the thread's sums: (i, j, first, second), see the class.

        Raises
        ------
        TypeError
            They are in flight: `Queue.wait` first.
        """
        self.queue._follow_loops()
        if self.is_in_flight:
            raise TypeError("the accumulator is in flight: wait for its group first")
        for loop in self.queue.builder._loops:
            if self._landed_in is None or not loop.body.scope.contains(self._landed_in):
                self._assumed.add(id(loop))
        sums = [register.get() for register in self._registers]
        return [(i, j, sums[4 * j + 2 * i], sums[4 * j + 2 * i + 1]) for j in range(self.extent // 8) for i in range(2)]

    def _check_loops(self, ended: list[Loop]) -> None:
        if self.is_in_flight and any(id(loop) in self._assumed for loop in ended):
            raise TypeError("the accumulator is read at the top of a loop that leaves it in flight: wait for it first")


class Totals:
    """An accumulator promoted to f32 additions: tensor cores truncate partial sums, these additions round."""

    def __init__(self, sums: Accumulator) -> None:
        self._sums = sums
        self._registers: list[Var] = [sums.queue.builder.var(0, sums.type) for _ in range(sums.extent // 2)]

    @property
    def registers(self) -> list[Var]:
        """Registers of the thread's totals."""
        return self._registers

    def reset(self) -> None:
        """Set the totals to zero."""
        for total in self._registers:
            total.set(0)

    def add(self) -> None:
        """Add the accumulator, which must not be in flight, to the totals."""
        values = [value for _, _, *pair in self._sums.pairs() for value in pair]
        for total, value in zip(self._registers, values, strict=True):
            total.set(total + value)

    def pairs(self) -> list[Pair]:
        """Return the thread's totals as `Accumulator.pairs` does."""
        totals = [total.get() for total in self._registers]
        return [(i % 2, i // 2, totals[2 * i], totals[2 * i + 1]) for i in range(len(totals) // 2)]


def limit_registers(k: Builder, count: int, *, is_increase: bool) -> None:
    """Decrease or increase the registers of this warpgroup (setmaxnreg); every warp of it calls this.

    Works only in kernels with a register budget at entry (`min_blocks` or `max_registers`), see `Builder`.
    """
    if count % 8 or not 24 <= count <= 256:
        raise ValueError(f"a warpgroup has a multiple of 8 registers from 24 to 256, not {count}")
    text = f"setmaxnreg.{'inc' if is_increase else 'dec'}.sync.aligned.u32 {count};"
    k.emit_op(Op("setmaxnreg", text, (), (), refuse, EFFECT, 90, (8, 0), WARPGROUP, arch_specific=True))


__all__ = ["FORMS", "WARPGROUP", "Accumulator", "Form", "Queue", "Totals", "limit_registers", "multiply_op"]
