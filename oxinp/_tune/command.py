"""``python -m oxinp tune``: options, progress, and what is said at the end."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from oxinp._driver.errors import DeviceFault
from oxinp._runtime import select
from oxinp._runtime.backend import BackendUnavailable
from oxinp._runtime.tuned import MAX_DISTANCE, Database, Row, database
from oxinp._terminal import columns, shortened, table
from oxinp._tune.crossovers import Crossovers
from oxinp._tune.measure import GraphTimer
from oxinp._tune.problems import FAMILIES, PLACEMENT, Problem, problems, shape_of
from oxinp._tune.search import Outcome, Tuner

__all__ = ["main"]

NO_GPU, INTERRUPTED, FAILED = 2, 130, 1
OLDER_SHARED_NBYTES = {(8, 0): 163 << 10}


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit status."""
    options = _options(arguments)
    # Sizes and layouts mean something else to every family.
    names = options.family or (["matmul"] if options.sizes or options.layout else list(FAMILIES))
    try:
        chosen = list(problems(names, options.dtype, options.sizes, options.layout))
    except ValueError as error:
        return _fail(str(error))
    try:
        backend = select.current()
    except BackendUnavailable as error:
        return _fail(str(error))
    if backend is None or backend.name != "cuda":
        why = select.why_host() if backend is None else f"config.backend is {backend.name!r}"
        return _fail(f"tuning measures on a GPU, and there is none in use: {why}")
    capability = backend.capability
    if options.sm is not None:
        cc = divmod(options.sm, 10)
        nbytes = min(capability.max_shared_nbytes, OLDER_SHARED_NBYTES.get(cc, capability.max_shared_nbytes))
        capability = capability.replace(cc=cc, max_shared_nbytes=nbytes)
    data = database(capability.cc)
    searches = Searches(Tuner(backend, GraphTimer(backend), capability), Crossovers(backend))
    if options.show:
        _show(searches, data, chosen if options.sizes else [])
        return 0
    return _tune(searches, data, chosen, options)


class Searches(NamedTuple):
    """What finds answers: of kernels, and of placement."""

    kernels: Tuner
    placement: Crossovers

    def of(self, problem: Problem) -> Tuner | Crossovers:
        """Return the search that a problem is for."""
        return self.placement if problem.family.startswith(PLACEMENT) else self.kernels


def _options(arguments: Sequence[str]) -> Any:
    parser = argparse.ArgumentParser(
        prog=f"{Path(sys.executable).name} -m oxinp tune",
        description="Measure which of several right ways is the fastest on this device, and keep that for later runs. "
        "Ctrl-C ends the search and keeps what was found.",
    )
    add = parser.add_argument
    add(
        "--family",
        type=_list,
        default=[],
        help=f"what to tune: {', '.join(FAMILIES)} (default: all; of given sizes, matmul)",
    )
    add("--dtype", type=_list, default=[], help="NumPy's names, joined by commas (default: those that matter)")
    add("--sizes", type=_sizes, default=[], help="such as 1024,512x8192x512: N, or M x K x N, or COUNT x M x K x N")
    add(
        "--layout",
        type=_list,
        default=[],
        help="of products: nn, nt, tn, tt, t for transposed (default: nn); else what is done",
    )
    add("--seconds", type=float, default=600.0, help="how long to search in all (default: 600)")
    add("--sm", type=int, metavar="80", help="tune the kernels of an older compute capability instead")
    add("--show", action="store_true", help="tune nothing; print what is known and, for --sizes, what is planned")
    add("--json", type=Path, metavar="FILE", help="write what was found there, too")
    return parser.parse_args(arguments)


def _list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _sizes(text: str) -> list[tuple[int, ...]]:
    try:
        return [shape_of(part) for part in _list(text)]
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _fail(message: str) -> int:
    sys.stderr.write(f"tune: {message}\n")
    return NO_GPU


# -- the search --------------------------------------------------------------------------------------------------------


def _tune(searches: Searches, data: Database, chosen: list[Problem], options: Any) -> int:
    outcomes: list[Outcome] = []
    progress = _Progress(len(chosen), options.seconds)
    status, kept = 0, True
    try:
        for number, problem in enumerate(chosen):
            # What a problem leaves of its share goes to those after it.
            now = time.perf_counter()
            if now >= progress.deadline:
                break
            share = (progress.deadline - now) / (len(chosen) - number)
            progress.begin(number, problem)
            search = searches.of(problem)
            with search.open():
                for outcome in search.tune(problem, now + share, progress.tell):
                    outcomes.append(outcome)
                    kept = _keep(data, outcome) and kept
                    progress.end(outcome)
    except KeyboardInterrupt:
        status = INTERRUPTED
    except DeviceFault as error:
        sys.stderr.write(f"\ntune: a candidate ended the device's work, and the search with it: {error}\n")
    progress.close()
    sys.stdout.write(_report(outcomes))
    if kept and outcomes:
        sys.stdout.write(f"kept in {data.path}\n")
    if options.json is not None:
        options.json.write_text(json.dumps([_as_json(outcome) for outcome in outcomes], indent=1), encoding="utf-8")
    return status or (0 if kept and not any(outcome.wrong for outcome in outcomes) else FAILED)


def _keep(data: Database, outcome: Outcome) -> bool:
    """Put what was found into the user's file, at once; whether that was possible."""
    try:
        data.store([] if outcome.row is None else [outcome.row])
    except OSError as error:
        sys.stderr.write(f"\ntune: what was found cannot be kept: {error}\n")
        return False
    return True


class _Progress:
    """One line on standard error: rewritten at a terminal, else one per problem."""

    def __init__(self, num_problems: int, seconds: float) -> None:
        self.num_problems = num_problems
        self.deadline = time.perf_counter() + seconds
        self.is_terminal = sys.stderr.isatty()
        self.head, self.width = "", 0

    def begin(self, number: int, problem: Problem) -> None:
        """Go on to another problem."""
        self.head = f"tune: {number + 1}/{self.num_problems} {problem.name}"
        self.write(self.head)

    def tell(self, outcome: Outcome) -> None:
        """Say how far the search of the problem is."""
        left = max(0, self.deadline - time.perf_counter())
        self.write(f"{self.head}: {outcome.num_tried} tried, {left:.0f} s left")

    def end(self, outcome: Outcome) -> None:
        """Say what came of the problem, where lines stay."""
        if not self.is_terminal:
            sys.stderr.write(f"{self.head}: {outcome.num_tried} tried, {outcome.gain:.2f} times as fast\n")

    def write(self, text: str) -> None:
        """Put a line in the place of the one before."""
        if self.is_terminal:
            text = shortened(text, (columns(sys.stderr) or 80) - 1)  # a line that wraps could not be rewritten
            sys.stderr.write(f"\r{text:<{self.width}}")
            sys.stderr.flush()
            self.width = len(text)

    def close(self) -> None:
        """Leave the line."""
        if self.is_terminal:
            sys.stderr.write("\n")


# -- what is said ------------------------------------------------------------------------------------------------------


def _report(outcomes: list[Outcome]) -> str:
    rows = [("problem", "default", "best", "gain", "rate", "tried", "answer")]
    notes = []
    for outcome in outcomes:
        problem, row = outcome.problem, outcome.row
        tried = f"{outcome.num_tried}{'' if outcome.is_complete else '+'}"
        if row is None:
            rows.append((problem.name, "", "", "", "", tried, "nothing runs"))
            continue
        rows.append(
            (
                problem.name,
                _time(row.default_seconds),
                _time(row.seconds),
                f"{outcome.gain:.2f}",
                _rate(problem, row.seconds),
                tried,
                _answer(row.answer),
            )
        )
        notes += [f"WRONG: {problem.name}: {_answer(answer._asdict())}: never used" for answer in outcome.wrong]
    if any(not outcome.is_complete for outcome in outcomes):
        notes.append("+: the time was over before the search was; more may be found with --seconds")
    return "\n".join([table(rows, width=columns(), right=range(1, 6)), *notes]) + "\n"


def _show(searches: Searches, data: Database, chosen: list[Problem]) -> None:
    rows = [("family", "key", "layout", "shape", "time", "gain", "answer", "from")]
    rows += [
        (*_place(row), _time(row.seconds), f"{row.default_seconds / row.seconds:.2f}", _answer(row.answer), source)
        for row, source in sorted(data.rows(), key=lambda pair: pair[0].problem)
    ]
    sys.stdout.write(table(rows, width=columns(), right=[4, 5], text=[6]) + "\n")
    for problem in chosen:
        search = searches.of(problem)
        with search.open():
            for choice in search.questions(problem):
                found = data.find(choice, max_distance=float("inf"))
                sys.stdout.write(f"\n{problem.name}: {choice.family}\n")
                if found is None:
                    sys.stdout.write("  nothing measured: ")
                else:
                    is_taken = found.distance <= MAX_DISTANCE and _is_legal(choice, found.row)
                    how = "not taken" if not is_taken else "the planner's own" if found.row.is_default else "taken"
                    sys.stdout.write(
                        f"  nearest {' '.join(_place(found.row)[2:])} at {found.distance:.2f} doublings, {how}: "
                        f"{_answer(found.row.answer)} ({found.source})\n  "
                    )
                sys.stdout.write(f"the planner's own: {_answer(choice.default()._asdict())}\n")


def _is_legal(choice: Any, row: Row) -> bool:
    try:
        return bool(choice.is_legal(choice.answer(**row.answer)))
    except (TypeError, ArithmeticError):
        return False


def _as_json(outcome: Outcome) -> dict[str, Any]:
    row = outcome.row
    return {
        "problem": outcome.problem.name,
        "row": None if row is None else row._asdict(),
        "tried": outcome.num_tried,
        "refused": outcome.num_refused,
        "wrong": [answer._asdict() for answer in outcome.wrong],
        "is_complete": outcome.is_complete,
    }


def _place(row: Row) -> tuple[str, ...]:
    return row.family, " ".join(row.key), " ".join(row.layout), "x".join(map(str, row.shape))


def _answer(fields: dict[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in fields.items())


def _time(seconds: float) -> str:
    return f"{1e6 * seconds:.1f} us" if seconds < 1e-3 else f"{1e3 * seconds:.3f} ms"


def _rate(problem: Problem, seconds: float) -> str:
    if problem.flops:
        return f"{problem.flops / seconds / 1e12:.2f} TF/s"
    if problem.family.startswith(PLACEMENT):
        return ""
    return f"{problem.nbytes_moved / seconds / 1e9:.0f} GB/s"
