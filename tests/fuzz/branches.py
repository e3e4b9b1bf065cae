"""Which branches of planners have been taken, by the interpreter's own trace: conditional jumps and where they led."""

import dis
import importlib.util
import linecache
import pkgutil
import sys
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any, NamedTuple

import oxinp._kernels

# What makes kernels and is not planning: a function that has the builder and asks it for something, and all inside it.
BUILDER = "k"
ASKED = frozenset(
    {"when", "range", "loop", "const", "load", "store", "cast", "tid", "shared", "select", "barrier", "var"}
)
PLANNERS = ("plan", "planner", "select", "axes", "gather", "scatter", "ordered", "merge", "splitting", "fill", "find",
            "place", "batch", "catalog", "variant", "operand", "splits", "schedule", "union", "spgemm", "spmv", "spmm",
            "graph", "cg", "trsv", "rank", "search", "count")  # fmt: skip
UNPLANNED = ("_kernels.catalog", ".fft.catalog", ".gemm.catalog", ".sparse.catalog")  # lists for tests


class Missed(NamedTuple):
    """A direction of a branch that nothing took."""

    filename: str
    line: int
    never: str

    def __str__(self) -> str:
        """Return where it is, and the line."""
        name = self.filename.rsplit("oxinp/", 1)[-1]
        return f"{name}:{self.line}: never {self.never}: {linecache.getline(self.filename, self.line).strip()}"


def planner_modules() -> list[str]:
    """Return the files of the modules of kernels that plan."""
    found = []
    for info in pkgutil.walk_packages(oxinp._kernels.__path__, "oxinp._kernels."):
        stem = info.name.rsplit(".", 1)[1]
        if (stem in PLANNERS or stem.endswith("_plan")) and not info.name.endswith(UNPLANNED):
            spec = importlib.util.find_spec(info.name)
            if spec is not None and spec.origin is not None:
                found.append(spec.origin)
    return sorted(found)


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of functions in some code, but for what makes kernels."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType) and not _makes_kernels(constant):
            yield constant
            yield from _codes(constant)


def _makes_kernels(code: CodeType) -> bool:
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    has_builder = BUILDER in (*code.co_varnames, *code.co_freevars)
    return BUILDER in parameters or (has_builder and not ASKED.isdisjoint(code.co_names))


class _Jump(NamedTuple):
    """A conditional jump: where it goes if the condition holds, and if it does not; None for a failed assertion."""

    line: int
    true: int | None
    false: int | None


def _jumps(code: CodeType) -> dict[int, _Jump]:
    """Return the conditional jumps of some code by offset."""
    instructions = list(dis.get_instructions(code))
    names = {instr.offset: instr.opname for instr in instructions}
    found = {}
    for i, instr in enumerate(instructions):
        if "_IF_" not in instr.opname or i + 1 == len(instructions):
            continue
        if instructions[i - 1].opname == "WITH_EXCEPT_START":
            continue
        ways = [instr.argval, instructions[i + 1].offset]
        if "FALSE" in instr.opname or "NOT_NONE" in instr.opname:
            ways.reverse()
        true, false = (None if names[way] in ("LOAD_ASSERTION_ERROR", "RERAISE") else way for way in ways)
        line = instr.positions.lineno if instr.positions is not None else None
        found[instr.offset] = _Jump(line or code.co_firstlineno, true, false)
    return found


class Branches:
    """Collects the branches that are taken between `start` and `stop`."""

    def __init__(self) -> None:
        self.filenames = planner_modules()
        self._names = frozenset(self.filenames)
        self._taken: dict[tuple[str, int, str], set[tuple[int, int]]] = {}
        self._kept: dict[CodeType, Any] = {}

    def start(self) -> None:
        """Begin to collect."""
        sys.settrace(self._enter)

    def stop(self) -> None:
        """Stop collecting."""
        sys.settrace(None)

    def missed(self) -> tuple[list[Missed], int]:
        """Return what was not taken, and how many directions there are."""
        missed, count = [], 0
        for filename in self.filenames:
            source = "".join(linecache.getlines(filename))
            for code in _codes(compile(source, filename, "exec", dont_inherit=True)):
                taken = self._taken.get(_key(code), set())
                for offset, jump in _jumps(code).items():
                    for way, never in ((jump.true, "true"), (jump.false, "false")):
                        if way is None:
                            continue
                        count += 1
                        if (offset, way) not in taken:
                            missed.append(Missed(filename, jump.line, never if taken else f"{never}, nor entered"))
        return sorted(set(missed)), count

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        del event, argument
        code = frame.f_code
        if code.co_filename not in self._names:
            return None
        tracer = self._kept.get(code)
        if tracer is None:
            if _makes_kernels(code):
                return None
            tracer = self._kept[code] = self._tracer(code)
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return tracer

    def _tracer(self, code: CodeType) -> Any:
        pairs = self._taken.setdefault(_key(code), set())
        jumps = _jumps(code)
        last: dict[int, int] = {}

        def trace(frame: FrameType, event: str, argument: Any) -> Any:
            del argument
            if event == "opcode":
                here, identity = frame.f_lasti, id(frame)
                before = last.pop(identity, None)
                if before is not None:
                    pairs.add((before, here))
                if here in jumps:
                    last[identity] = here
            return trace

        return trace


def _key(code: CodeType) -> tuple[str, int, str]:
    return code.co_filename, code.co_firstlineno, code.co_qualname
