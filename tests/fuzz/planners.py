"""`python -m tests.fuzz.planners [--problems N] [--seed N] [--device DEVICE] [--coverage FILE] [FAMILY ...]`.

Random problems through every planner, at every size: what they launch is traced and judged (`planning`), not run. With
``--coverage`` the branches of the planners are listed that no problem took, neither of this run nor of those before it
that were given the same file: one process plans for one device. Those that no problem can take have their reasons in
`unreached`; if others are left, or reasons for branches that were taken, the command fails. No blocks are followed
then, which takes long enough.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy  # noqa: ICN001 - np is ours
import scipy.sparse.linalg

import oxinp as np
from oxinp._core.lazy import rowwise
from oxinp._core.lazy.handle import Handle
from tests.fuzz import planning
from tests.fuzz.branches import MONITORING, Branches, explain
from tests.fuzz.draw import RandomDraw
from tests.fuzz.problem import Problem
from tests.fuzz.problems import FAMILIES, OF_KERNELS
from tests.fuzz.unreached import REASONS

# What a user may be told: a problem that raises one of these is refused, not wrong.
REFUSALS = (
    ValueError,
    TypeError,
    IndexError,
    ArithmeticError,
    NotImplementedError,
    numpy.linalg.LinAlgError,
    scipy.sparse.linalg.ArpackError,  # of the zeros that are read here
)


# Programs of kernels are refused by Specs alone.
REFUSALS_OF_KERNELS = (ValueError,)

# What is read back: counts, mostly; of factorisations the first number of a matrix that is singular, or -1.
WORDS = {
    "factorisations": (-1, -1, 0),
    "large_systems": (-1, -1, 0),
    "random_numbers": (0,),
    "sparse": (0, 1, 2, 1000, 100_000),
    "sparse_products": (0, 1, 2, 7, 1000, 100_000),
}


def evaluate(value: Any) -> None:
    """Have computed whatever a problem gave."""
    if isinstance(value, list | tuple):
        for each in value:
            evaluate(each)
    elif isinstance(value, Handle):  # scalars, too
        np.evaluate(value)


def solve(seed: int, index: int, family: str) -> tuple[str, Exception | None]:
    """Plan one problem; return what it was, and what went wrong."""
    problem = Problem(RandomDraw(f"{seed}/{index}/{family}"), index)
    problem.text = "operands"
    backend = planning.backend()
    backend.word = problem.choice(WORDS.get(family, (0, 1, 2)))
    backend.launches_left, backend.random = planning.MAX_LAUNCHES, random.Random(f"{seed}/{index}/{family}")
    backend.total_nbytes = planning.TOTAL_NBYTES
    rowwise.is_patient = problem.chance(20)  # else rows are computed at once that are met once
    np.config.matmul_workspace = 4 << 30
    np.config.matmul = problem.choice(("auto", "auto", "native", "tf32"))
    np.config.floating_point_errors = problem.choice(("ignore", "ignore", "numpy"))
    told: dict[str, Any] = {
        name: problem.choice(("ignore", "warn", "raise")) for name in ("divide", "over", "under", "invalid")
    }
    try:
        with numpy.errstate(**told):
            evaluate(FAMILIES[family](problem))
    except (MemoryError, planning.LaunchesSpentError):
        pass
    except Exception as error:  # noqa: BLE001 - every other exception is a defect of a planner
        is_refused = isinstance(error, REFUSALS_OF_KERNELS if family in OF_KERNELS else REFUSALS)
        return problem.text, None if is_refused else error
    return problem.text, None


class Counts(NamedTuple):
    """How many problems were planned, and how many of them failed."""

    problems: int
    failed: int


def run(
    seed: int, start: int, stop: int, families: list[str], say: Callable[[str], object], keep: Callable[[], object]
) -> Counts:
    """Plan problems to the end, or until interrupted. What they took is kept after each round."""
    problems = failed = 0
    try:
        for index in range(start, stop):
            for family in families:
                text, error = solve(seed, index, family)
                problems += 1
                if error is not None:
                    failed += 1
                    frames = "".join(traceback.format_tb(error.__traceback__)[-3:])
                    say(f"problem {index} of {family}, seed {seed}: {text}\n{type(error).__name__}: {error}\n{frames}")
            keep()
    except KeyboardInterrupt:
        say(f"interrupted after {problems} problems")
    return Counts(problems, failed)


def report(branches: Branches) -> bool:
    """Say which branches were not taken; return whether each of them has a reason, and each reason still a branch."""
    missed, count, total = branches.missed()
    unexplained, stale = explain(missed, REASONS)
    lines = [f"line {each.line} of {each.place()}" for each in unexplained]
    lines += [f"{place} has a reason, but was taken, or is no longer there" for place in stale]
    lines.append(
        f"{total - count} of {total} branches taken; of {len(missed)} places without, {len(unexplained)} have no reason"
    )
    sys.stdout.write("\n".join(lines) + "\n")
    return not unexplained and not stale


def main() -> int:
    """Plan random problems; return 1 if a planner failed, or branches were listed that have no reason."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.planners", description="Fuzz the planners.")
    parser.add_argument("families", nargs="*", choices=[[], *FAMILIES], help="which (default: all)")
    parser.add_argument("--problems", type=int, default=100, help="how many of each family")
    parser.add_argument("--seed", type=int, default=None, help="which problems (default: new ones)")
    parser.add_argument("--start", type=int, default=0, help="index of the first")
    parser.add_argument("--device", choices=list(planning.DEVICES), default="h200", help="what is planned for")
    parser.add_argument("--coverage", type=Path, help="list the branches that were not taken; keep the others here")
    arguments = parser.parse_args()
    if arguments.coverage and MONITORING is None:
        parser.error("--coverage takes Python 3.12 or later")
    np.config.backend, np.config.offload_threshold = "emulator", 0
    backend = planning.use(arguments.device)
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a run that is ended says what it has, too
    seed = random.SystemRandom().randrange(10**9) if arguments.seed is None else arguments.seed
    sys.stdout.write(f"seed {seed}: --seed {seed} repeats this run\n")
    branches = Branches() if arguments.coverage else None
    if branches is not None:
        backend.follows_blocks = False
        branches.load(arguments.coverage)
        branches.start()

    def keep() -> None:
        if branches is not None:
            branches.save(arguments.coverage)

    with numpy.errstate(all="ignore"):
        families = arguments.families or list(FAMILIES)
        try:
            counts = run(seed, arguments.start, arguments.start + arguments.problems, families, print, keep)
        finally:
            if branches is not None:
                branches.stop()
            keep()
    is_explained = branches is None or report(branches)
    sys.stdout.write(
        f"{counts.problems} problems, {backend.launches} launches, {backend.blocks} blocks followed, "
        f"{counts.failed} failed\n"
    )
    return int(counts.failed > 0 or not is_explained)


if __name__ == "__main__":
    sys.exit(main())
