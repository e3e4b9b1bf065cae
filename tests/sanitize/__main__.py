"""Every kernel family under compute-sanitizer: ``python -m tests.sanitize [--tools NAMES] [FAMILY ...]``.

memcheck finds accesses out of bounds and misaligned ones, racecheck races in shared memory, initcheck reads of memory
that nobody wrote, synccheck barriers that not all threads reach; the emulator finds these and more on the way, but
cannot show what the hardware does with the same PTX. Needs a GPU and the CUDA toolkit's compute-sanitizer on the path.
The exit status is 0 if every tool was clean.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time

from tests.sanitize import programs

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
FOUND = 86  # the exit status that compute-sanitizer is told to report findings by
FAMILIES = {family.__name__: family for family in programs.FAMILIES}
# The bounds that memcheck sees are those of driver allocations.
ENVIRONMENT = {"OXINP_BACKEND": "cuda", "OXINP_MEMORY_POOL": "blocks"}


def run_families(names):
    """Run families in this process; return whether they were right, and reached every module if all were run."""
    for name in names:
        start = time.perf_counter()
        count = programs.check(FAMILIES[name])
        print(f"  {name}: {count} results, {time.perf_counter() - start:.1f} s", flush=True)
    missing = programs.missing() if len(names) == len(FAMILIES) else []
    if missing:
        print(f"no program reaches the kernels of {', '.join(missing)}", flush=True)
    return not missing


def run_tool(tool, names):
    """Run families under one tool; return whether they passed and it found nothing."""
    command = [
        *("compute-sanitizer", "--tool", tool, "--error-exitcode", str(FOUND), "--print-limit", "10"),
        *("--report-api-errors", "no"),  # whether memory is pinned is asked by provoking one
        *(sys.executable, "-m", "tests.sanitize", "--inside", *names),
    ]
    print("$", " ".join(command), flush=True)
    status = subprocess.run(command, env={**os.environ, **ENVIRONMENT}, check=False).returncode
    outcome = {0: "clean", FOUND: "FINDINGS, see above"}.get(status, f"the programs failed (status {status})")
    print(f"{tool}: {outcome}", flush=True)
    return status == 0


def main():
    """Run the families named on the command line under the tools named there, all of them by default."""
    parser = argparse.ArgumentParser(prog="python -m tests.sanitize", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--tools", default=",".join(TOOLS), help="of compute-sanitizer's (default: %(default)s)")
    parser.add_argument("--inside", action="store_true", help="run them here, under no tool")
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=f"of {', '.join(FAMILIES)}")
    arguments = parser.parse_args()
    names = arguments.families or list(FAMILIES)
    if unknown := set(names) - set(FAMILIES):
        parser.error(f"no family {', '.join(sorted(unknown))}; there are {', '.join(FAMILIES)}")
    if arguments.inside:
        sys.exit(0 if run_families(names) else 1)
    if shutil.which("compute-sanitizer") is None:
        parser.exit(2, "compute-sanitizer is not on the path: it comes with the CUDA toolkit\n")
    clean = [run_tool(tool, names) for tool in arguments.tools.split(",")]
    sys.exit(0 if all(clean) else 1)


if __name__ == "__main__":
    main()
