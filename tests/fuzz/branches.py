"""Which branches of planners have been taken, by the interpreter's own monitoring: conditional jumps, where they led.

A branch is a direction of one condition: each operand of ``and`` and ``or`` is one by itself. That takes Python 3.12 or
later: before, the operands of a condition have one place in the source, and one that was taken stands for all.
"""

import dis
import functools
import importlib.util
import json
import linecache
import pkgutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

import oxinp._kernels
from tests.fuzz.tracing import Tracing

PACKAGE = oxinp._kernels
COMPREHENSIONS = frozenset({"<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>"})
ENTERED = "entered"
LISTS = ("catalog", "flags")  # modules of Specs for tests, and of instructions: nobody plans there
MONITORING: Any = getattr(sys, "monitoring", None)
SEES_EACH = hasattr(getattr(MONITORING, "events", None), "BRANCH_LEFT")  # each direction by itself
EVENTS = (
    []
    if MONITORING is None
    else [getattr(MONITORING.events, name) for name in (("BRANCH_LEFT", "BRANCH_RIGHT") if SEES_EACH else ("BRANCH",))]
)


class Missed(NamedTuple):
    """A direction of a branch that nothing took; of functions that nothing entered, all of them."""

    filename: str
    line: int
    function: str
    never: str
    condition: str = ""

    def place(self) -> str:
        """Return where it is, as `unreached.REASONS` names it: lines may be moved."""
        place = f"{self.filename.rsplit('_kernels/', 1)[-1]} {self.function}: never {self.never}"
        if self.never == ENTERED:
            return place
        return f"{place}: {self.condition} | {linecache.getline(self.filename, self.line).strip()}"


class Explained(NamedTuple):
    """What was not taken beside the reasons for it: what has none, and reasons for what is no longer missed."""

    unexplained: list[Missed]
    stale: list[str]


def explain(missed: Sequence[Missed], reasons: Mapping[str, Sequence[str]]) -> Explained:
    """Hold what was not taken beside reasons, each with the places that it holds for."""
    places = {place for each in reasons.values() for place in each}
    found = {each.place() for each in missed}
    # Of functions that nothing entered every place is missed, too.
    untouched = {_function(each.place()) for each in missed if each.never == ENTERED}
    return Explained(
        [each for each in missed if each.place() not in places],
        sorted(place for place in places - found if _function(place) not in untouched),
    )


def _function(place: str) -> str:
    return place.split(": never ", 1)[0]


def planner_modules() -> list[str]:
    """Return the files of the modules of kernels, all of which may plan."""
    found = []
    for info in pkgutil.walk_packages(PACKAGE.__path__, f"{PACKAGE.__name__}."):
        spec = importlib.util.find_spec(info.name)
        if not info.name.endswith(LISTS) and spec is not None and spec.origin is not None:
            found.append(spec.origin)
    return sorted(found)


@functools.cache
def _tracing() -> Tracing:
    return Tracing(Path(oxinp.__path__[0]), PACKAGE.__name__)


def _planning(filename: str) -> list[CodeType]:
    """Return the code of the functions of a module that plan; what makes its tables has run once it is imported."""
    source = "".join(linecache.getlines(filename))
    module = compile(source, filename, "exec", dont_inherit=True)
    tables = [each for each in module.co_consts if isinstance(each, CodeType) and each.co_name in COMPREHENSIONS]
    return [each for each in _codes(module) if each not in tables]


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of functions in some code, but for what traces kernels."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType) and not _traces(constant):
            yield constant
            yield from _codes(constant)


def _traces(code: CodeType) -> bool:
    return _tracing().is_tracing(code.co_filename, code.co_firstlineno, code.co_name)


class _Condition(NamedTuple):
    """What is tested: a place in the source, which several jumps may have, as before a loop and after each round."""

    line: int
    text: str
    place: Any


class _Jump(NamedTuple):
    """A conditional jump: where it goes if the condition holds, and if it does not; None for a failed assertion."""

    condition: _Condition
    true: int | None
    false: int | None


def _condition(code: CodeType, place: Any) -> _Condition:
    """Return the condition at a place in the source."""
    if place is None or place.lineno is None:
        return _Condition(code.co_firstlineno, "", place)
    lines = [linecache.getline(code.co_filename, n).encode() for n in range(place.lineno, place.end_lineno + 1)]
    lines[-1] = lines[-1][: place.end_col_offset]
    lines[0] = lines[0][place.col_offset :]
    return _Condition(place.lineno, " ".join(line.decode().strip() for line in lines), place)


def _jumps(code: CodeType) -> list[tuple[int, _Jump]]:
    """Return the conditional jumps of some code with their offsets."""
    instructions = list(dis.get_instructions(code))
    names = {instr.offset: instr.opname for instr in instructions}
    found = []
    for i, instr in enumerate(instructions):
        if "_IF_" not in instr.opname or i + 1 == len(instructions):
            continue
        if instructions[i - 1].opname == "WITH_EXCEPT_START":
            continue
        condition = _condition(code, instr.positions)
        ways = [instr.argval, instructions[i + 1].offset]
        if "FALSE" in instr.opname or "NOT_NONE" in instr.opname:
            ways.reverse()
        if "NONE" in instr.opname and "is not None" in condition.text:
            ways.reverse()
        true, false = (None if names[way] in ("LOAD_ASSERTION_ERROR", "RERAISE") else way for way in ways)
        found.append((instr.offset, _Jump(condition, true, false)))
    return found


def _ways(code: CodeType) -> dict[tuple[int, int], tuple[_Condition, str]]:
    """Return the condition of each direction of a jump, and what nobody saw of it if that was not taken."""
    return {
        (offset, way): (jump.condition, never)
        for offset, jump in _jumps(code)
        for way, never in ((jump.true, "true"), (jump.false, "false"))
        if way is not None
    }


class Branches:
    """Collects the branches that are taken between `start` and `stop`."""

    def __init__(self) -> None:
        self.filenames = planner_modules()
        self._names = frozenset(self.filenames)
        self._taken: dict[tuple[str, int, str], set[tuple[int, int]]] = {}
        self._kept: dict[CodeType, Any] = {}
        self._planning: set[tuple[str, int, str]] = set()

    def start(self) -> None:
        """Begin to collect."""
        self._planning = {_key(code) for filename in self.filenames for code in _planning(filename)}
        MONITORING.use_tool_id(MONITORING.COVERAGE_ID, "branches of planners")
        for event in EVENTS:
            MONITORING.register_callback(MONITORING.COVERAGE_ID, event, self._take)
        MONITORING.set_events(MONITORING.COVERAGE_ID, sum(EVENTS))
        MONITORING.restart_events()  # of another collection's, which may have seen all of a branch

    def stop(self) -> None:
        """Stop collecting."""
        MONITORING.set_events(MONITORING.COVERAGE_ID, 0)
        MONITORING.free_tool_id(MONITORING.COVERAGE_ID)

    def load(self, path: Path) -> None:
        """Add the branches that earlier runs have left in a file."""
        if path.exists():
            for filename, line, name, pairs in json.loads(path.read_text()):
                taken = self._taken.setdefault((filename, line, name), set())
                taken.update(tuple(pair) for pair in pairs)

    def save(self, path: Path) -> None:
        """Leave the branches that have been taken in a file, which is whole at any time."""
        new = path.with_name(f"{path.name}.new")
        new.write_text(json.dumps([(*key, sorted(pairs)) for key, pairs in self._taken.items()]))
        new.replace(path)

    def missed(self) -> tuple[list[Missed], int, int]:
        """Return what was not taken, and how many directions that is, of how many."""
        missed, count, total = set(), 0, 0
        for filename in self.filenames:
            for code in _planning(filename):
                taken, ways = self._taken.get(_key(code), set()), _ways(code)
                missing = set(ways.values()) - {ways[pair] for pair in taken if pair in ways}
                total += len(set(ways.values()))
                count += len(missing)
                if missing and not taken:
                    missed.add(Missed(filename, code.co_firstlineno, code.co_qualname, ENTERED))
                    continue
                for condition, never in missing:
                    missed.add(Missed(filename, condition.line, code.co_qualname, never, condition.text))
        return sorted(missed), count, total

    def _take(self, code: CodeType, here: int, there: int) -> Any:
        """Note a direction that is taken; return that no more is wanted, where that holds."""
        known = self._kept.get(code)
        if known is None:
            key = _key(code)
            is_wanted = code.co_filename in self._names and key in self._planning
            pairs = self._taken.setdefault(key, set()) if is_wanted else set()
            known = self._kept[code] = pairs, (set(_ways(code)) - pairs if is_wanted else set())
        pairs, missing = known
        if (here, there) in missing:
            pairs.add((here, there))
            missing.remove((here, there))
        is_left = any(place == here for place, _ in missing) and not SEES_EACH
        return None if is_left else MONITORING.DISABLE


def _key(code: CodeType) -> tuple[str, int, str]:
    return code.co_filename, code.co_firstlineno, code.co_qualname
