"""`python -m tests.fuzz --programs 20000 --threshold 0 --seed 1 [--backend cuda] [--jobs N]`."""

import argparse
import os
import sys

from tests.fuzz.generate import generate_seeded
from tests.fuzz.minimise import minimise
from tests.fuzz.pool import Failure, Judge, Settings, run
from tests.fuzz.twin import raising_statements


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Hold oxinp against NumPy.")
    parser.add_argument("--programs", type=int, default=1000, help="how many random programs")
    parser.add_argument("--threshold", type=float, default=0, help="oxinp.config.offload_threshold: 0, 65536, inf ...")
    parser.add_argument("--seed", type=int, default=1, help="which programs")
    parser.add_argument("--start", type=int, default=0, help="index of the first program")
    parser.add_argument("--backend", default=None, help="oxinp.config.backend: cuda, emulator, host (default: its own)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--namespace", default="oxinp", help="module to hold against NumPy")
    parser.add_argument("--show", action="store_true", help="print the programs instead of running them")
    return parser.parse_args()


def _settings(arguments: argparse.Namespace) -> Settings:
    config = {"offload_threshold": arguments.threshold}
    if arguments.backend is not None:
        config["backend"] = arguments.backend
    return Settings(arguments.namespace, config if arguments.namespace == "oxinp" else {})


def _explain(settings: Settings, seed: int, failure: Failure) -> None:
    """Print the program that differs, as short as it can be made."""
    _say(f"\nprogram {failure.index} of seed {seed}: {failure.difference.message}")
    program = generate_seeded(seed, failure.index, settings.threshold)
    judge = Judge(settings)
    if judge(program) is None:
        _say("\nAlone, in a new process, it does not differ: it needs what the programs before it left behind.")
        _say(program.script(settings.config, raising_statements(program)))
        return
    _say("\nminimising ...\n")
    shortest = minimise(program, lambda candidate: judge(candidate) is not None)
    difference = judge(shortest)
    _say(shortest.script(settings.config, raising_statements(shortest)))
    _say(f"# {difference.message if difference else failure.difference.message}")
    judge.close()


def main() -> int:
    """Run the programs; return 1 if one differs."""
    arguments = _arguments()
    if arguments.show:
        for index in range(arguments.start, arguments.start + arguments.programs):
            program = generate_seeded(arguments.seed, index, arguments.threshold)
            _say(f"# {program.origin}\n{program.listing()}\n")
        return 0
    settings = _settings(arguments)
    summary = run(settings, arguments.programs, arguments.seed, arguments.jobs, _say, arguments.start)
    _say(f"statements: {', '.join(f'{kind} {count}' for kind, count in summary.kinds.most_common())}")
    if summary.counters:
        _say(f"counters: {', '.join(f'{name} {count}' for name, count in summary.counters.items())}")
    if summary.failure is not None:
        _explain(settings, arguments.seed, summary.failure)
        _say(f"{summary.programs} programs, 1 difference")
        return 1
    if (
        arguments.threshold == 0
        and arguments.backend != "host"
        and summary.counters
        and not summary.counters["launches"]
    ):
        _say(f"{summary.programs} programs and not one launch: nothing ran on a device, so nothing was shown")
        return 1
    _say(f"{summary.programs} programs, 0 differences")
    return 0


if __name__ == "__main__":
    sys.exit(main())
