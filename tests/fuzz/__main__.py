"""`python -m tests.fuzz --programs 20000 --threshold 0 [--seed N] [--seconds N] [--backend cuda] [--jobs N]`.

Every run takes a new seed, unless one is given, and says which.
"""

import argparse
import math
import os
import random
import re
import sys

from tests.fuzz.minimise import minimise
from tests.fuzz.pool import Failure, Judge, Settings, Work, run
from tests.fuzz.program import Program
from tests.fuzz.twin import raising_statements

MINIMISING_SECONDS = 150.0
MAX_EXPLAINED = 20


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Hold oxinp against NumPy.")
    parser.add_argument("--programs", type=int, default=1000, help="how many random programs")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no program after so many")
    parser.add_argument("--threshold", type=float, default=0, help="oxinp.config.offload_threshold: 0, 65536, inf ...")
    parser.add_argument("--seed", type=int, default=None, help="which programs (default: new ones)")
    parser.add_argument("--start", type=int, default=0, help="index of the first program")
    parser.add_argument("--backend", default=None, help="oxinp.config.backend: cuda, emulator, host (default: its own)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--namespace", default="oxinp", help="module to hold against NumPy")
    parser.add_argument("--show", action="store_true", help="print the programs instead of running them")
    return parser.parse_args()


def _settings(arguments: argparse.Namespace) -> Settings:
    # Errors of indices that the device knows are raised by the statement itself, as in NumPy.
    config = {"offload_threshold": arguments.threshold, "synchronous": True}
    if arguments.backend is not None:
        config["backend"] = arguments.backend
    return Settings(arguments.namespace, config if arguments.namespace == "oxinp" else {})


def _unlike(programs: list[tuple[Program, Failure]]) -> list[tuple[Program, Failure]]:
    """Leave out differences of which one that reads the same comes before: names and numbers apart."""
    first: dict[str, tuple[Program, Failure]] = {}
    for program, failure in programs:
        first.setdefault(re.sub(r"[\d.]+|\b[ah]\d+\b", "", failure.difference.message), (program, failure))
    return list(first.values())


def _explain(settings: Settings, program: Program, failure: Failure) -> None:
    """Print the program that differs, as short as it can be made."""
    _say(f"\n{program.origin}: {failure.difference.message}")
    judge = Judge(settings)
    if judge(program) is None:
        _say("\nAlone, in a new process, it does not differ: it needs what the programs before it left behind.")
        _say(program.script(settings.config, raising_statements(program)))
    else:
        _say("\nminimising ...\n")
        shortest = minimise(program, lambda candidate: judge(candidate) is not None, MINIMISING_SECONDS)
        difference = judge(shortest)
        _say(shortest.script(settings.config, raising_statements(shortest)))
        _say(f"# {difference.message if difference else failure.difference.message}")
    judge.close()


def main() -> int:
    """Run the programs; return 1 if one differs."""
    arguments = _arguments()
    settings = _settings(arguments)
    seed = random.SystemRandom().randrange(10**9) if arguments.seed is None else arguments.seed
    work = Work(seed, arguments.programs, arguments.start)
    if arguments.show:
        for position in range(len(work)):
            program = work.program(position, arguments.threshold)
            _say(f"# {program.origin}\n{program.listing()}\n")
        return 0
    _say(f"seed {seed}: --seed {seed} repeats this run")
    summary = run(settings, work, arguments.jobs, _say, arguments.seconds)
    _say(f"statements: {', '.join(f'{kind} {count}' for kind, count in summary.kinds.most_common())}")
    if summary.counters:
        _say(f"counters: {', '.join(f'{name} {count}' for name, count in summary.counters.items())}")
    failures = _unlike([(work.program(f.position, settings.threshold), f) for f in summary.failures])
    for program, failure in failures[:MAX_EXPLAINED]:
        _explain(settings, program, failure)
    count = len(summary.failures)
    wants_device = arguments.threshold == 0 and arguments.backend != "host" and summary.counters
    if not count and wants_device and not summary.counters["launches"]:
        _say(f"{summary.programs} programs and not one launch: nothing ran on a device, so nothing was shown")
        return 1
    _say(f"{summary.programs} programs of seed {seed}, {count} difference{'s' if count != 1 else ''}")
    return int(bool(count) or not summary.is_whole)


if __name__ == "__main__":
    sys.exit(main())
