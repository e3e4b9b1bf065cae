"""Every kernel family under compute-sanitizer: ``python -m tests.sanitize [--tools NAMES] [FAMILY ...]``.

memcheck finds accesses out of bounds and misaligned ones, racecheck races in shared memory, initcheck reads of memory
that nobody wrote, synccheck barriers that not all threads reach; the emulator finds these and more on the way, but
cannot show what the hardware does with the same PTX. Needs a GPU and the CUDA toolkit's compute-sanitizer on the path.
The exit status is 0 if every tool was clean, and if all families together reach every module of kernels.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from tests.sanitize import programs

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
UNFIT = {("initcheck", "stored_products")}  # initcheck does not see what the copy engine writes
FOUND = 86  # the exit status that compute-sanitizer is told to report findings by
FAMILIES = {family.__name__: family for family in programs.FAMILIES}
# The bounds that memcheck sees are those of driver allocations.
ENVIRONMENT = {"OXINP_BACKEND": "cuda", "OXINP_MEMORY_POOL": "blocks"}
REACHED = "reached: "


def run_here(names):
    """Run families in this process."""
    for name in names:
        start = time.perf_counter()
        count = programs.check(FAMILIES[name])
        print(f"{name}: {count} results, {time.perf_counter() - start:.1f} s", flush=True)
    print(REACHED + " ".join(name for name, is_reached in programs.reached().items() if is_reached), flush=True)


def run_under(tool, name):
    """Run a family under a tool; return whether it passed and nothing was found, and the modules that it reached."""
    command = [
        *("compute-sanitizer", "--tool", tool, "--error-exitcode", str(FOUND), "--print-limit", "10"),
        *("--report-api-errors", "no"),  # whether memory is pinned is asked by provoking one
        *(sys.executable, "-m", "tests.sanitize", "--inside", name),
    ]
    start = time.perf_counter()
    done = subprocess.run(
        command,
        env={**os.environ, **ENVIRONMENT},
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    outcome = {0: "clean", FOUND: "FINDINGS"}.get(done.returncode, f"the program failed (status {done.returncode})")
    print(f"{tool} {name}: {outcome}, {time.perf_counter() - start:.0f} s", flush=True)
    if done.returncode:
        print(done.stdout, flush=True)
    reached = [line.removeprefix(REACHED).split() for line in done.stdout.splitlines() if line.startswith(REACHED)]
    return done.returncode == 0, set().union(*reached)


def main():
    """Run the families named on the command line under the tools named there, all of them by default."""
    parser = argparse.ArgumentParser(prog="python -m tests.sanitize", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--tools", default=",".join(TOOLS), help="of compute-sanitizer's (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="how many processes at a time")
    parser.add_argument("--inside", action="store_true", help="run them here, under no tool")
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=f"of {', '.join(FAMILIES)}")
    arguments = parser.parse_args()
    names = arguments.families or list(FAMILIES)
    if unknown := set(names) - set(FAMILIES):
        parser.error(f"no family {', '.join(sorted(unknown))}; there are {', '.join(FAMILIES)}")
    if arguments.inside:
        run_here(names)
        return
    if shutil.which("compute-sanitizer") is None:
        parser.exit(2, "compute-sanitizer is not on the path: it comes with the CUDA toolkit\n")
    runs = [(tool, name) for tool in arguments.tools.split(",") for name in names if (tool, name) not in UNFIT]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        outcomes = list(pool.map(lambda run: run_under(*run), runs))
    reached = set().union(*(modules for _, modules in outcomes))
    missing = set() if arguments.families else set(programs.reached()) - reached
    if missing:
        print(f"no program reaches the kernels of {', '.join(sorted(missing))}")
    sys.exit(0 if all(is_clean for is_clean, _ in outcomes) and not missing else 1)


if __name__ == "__main__":
    main()
