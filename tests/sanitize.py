"""The kernel tests under compute-sanitizer: ``python -m tests.sanitize``.

memcheck finds accesses out of bounds and misaligned ones, racecheck races in shared memory, initcheck reads of memory
that nobody wrote; the emulator finds these and more on the way, but cannot show what the hardware does with the same
PTX. Needs a GPU and the CUDA toolkit's compute-sanitizer on the path. The exit status is 0 if every tool was clean.
"""

import argparse
import os
import shutil
import subprocess
import sys

TOOLS = ("memcheck", "racecheck", "initcheck")
FOUND = 86  # the exit status that compute-sanitizer is told to report findings by
TESTS = ("tests/kernels",)
# The bounds that memcheck sees are those of driver allocations.
ENVIRONMENT = {"OXINP_REQUIRE_GPU": "1", "OXINP_MEMORY_POOL": "blocks"}


def run(tool, tests):
    """Run the tests under one tool; return whether they passed and it found nothing."""
    command = [
        *("compute-sanitizer", "--tool", tool, "--error-exitcode", str(FOUND), "--target-processes", "all"),
        *("--report-api-errors", "no"),  # tests provoke them, and whether memory is pinned is asked by one
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests),
    ]
    print("$", " ".join(command), flush=True)
    status = subprocess.run(command, env={**os.environ, **ENVIRONMENT}, check=False).returncode
    outcome = {0: "clean", FOUND: "FINDINGS, see above"}.get(status, f"the tests failed (status {status})")
    print(f"{tool}: {outcome}", flush=True)
    return status == 0


def main():
    """Run the tools named on the command line, all of them by default."""
    parser = argparse.ArgumentParser(prog="python -m tests.sanitize", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--tools", default=",".join(TOOLS), help="of compute-sanitizer's (default: %(default)s)")
    parser.add_argument("tests", nargs="*", default=TESTS, help="what pytest is given (default: the kernel tests)")
    arguments = parser.parse_args()
    if shutil.which("compute-sanitizer") is None:
        parser.exit(2, "compute-sanitizer is not on the path: it comes with the CUDA toolkit\n")
    clean = [run(tool, arguments.tests) for tool in arguments.tools.split(",")]
    sys.exit(0 if all(clean) else 1)


if __name__ == "__main__":
    main()
