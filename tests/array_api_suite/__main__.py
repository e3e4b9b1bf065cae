"""`python -m tests.array_api_suite CHECKOUT [--backend emulator|cuda|host] [--threshold 0] [--examples 20]`.

CHECKOUT is a checkout of data-apis/array-api-tests with its submodule, and what its requirements.txt names installed.
Its tests run twice, on NumPy and on `oxinp.array_api`; what NumPy passes and oxinp does not is said, and makes the exit
code 1. Arguments after `--` go to both runs of pytest: `-- array_api_tests/test_linalg.py -k qr`.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.numpy_suite import BINDING, OUTCOMES
from tests.numpy_suite.suite import PASSED, Outcome, read

ROOT = Path(__file__).resolve().parents[2]


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.array_api_suite", description="Run the array API's tests.")
    parser.add_argument("checkout", type=Path, help="of data-apis/array-api-tests, with its submodule")
    parser.add_argument("--backend", default="emulator", choices=("emulator", "cuda", "host"))
    parser.add_argument("--threshold", default="0", help="oxinp.config.offload_threshold")
    parser.add_argument("--examples", default="20", help="drawn by hypothesis for each test")
    parser.add_argument("pytest", nargs="*", help="arguments of pytest's, after --")
    return parser.parse_args()


def _run(module: str, arguments: argparse.Namespace, outcomes: Path) -> dict[str, Outcome]:
    """Return the outcomes of the tests of a namespace, by test."""
    command = [sys.executable, "-m", "pytest", "-q", "--disable-deadline", "--derandomize", "--tb=short"]
    command += [f"--max-examples={arguments.examples}", "-p", "tests.numpy_suite.plugin", "-p", "no:cacheprovider"]
    command += arguments.pytest or ["array_api_tests"]
    environment = os.environ | {
        "ARRAY_API_TESTS_MODULE": module,
        "OXINP_BACKEND": arguments.backend,
        "OXINP_OFFLOAD_THRESHOLD": arguments.threshold,
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", "")))),
        BINDING: "numpy",  # the tests import the namespace by name
        OUTCOMES: str(outcomes),
    }
    done = subprocess.run(command, cwd=arguments.checkout, env=environment, capture_output=True, text=True, check=False)
    found = read(outcomes)
    if not found:
        raise RuntimeError(f"no test ran on {module}:\n{done.stdout}\n{done.stderr}")
    return found


def main() -> int:
    """Run the tests; return 1 if oxinp fails what NumPy passes."""
    arguments = _arguments()
    with tempfile.TemporaryDirectory() as folder:
        numpys = _run("numpy", arguments, Path(folder) / "numpy.jsonl")
        ours = _run("oxinp.array_api", arguments, Path(folder) / "oxinp.jsonl")
    wanted = [test for test, outcome in numpys.items() if outcome.result == PASSED]
    got = {test: ours.get(test, Outcome("missing")) for test in wanted}
    failing = {test: outcome for test, outcome in got.items() if outcome.result != PASSED}
    for test, outcome in failing.items():
        _say(f"{test}\n    {outcome.result}: " + outcome.message.replace("\n", "\n    "))
    more = sum(outcome.result == PASSED for test, outcome in ours.items() if test not in got)
    _say(f"NumPy passes {len(wanted)} tests; oxinp fails {len(failing)} of them, and passes {more} that NumPy does not")
    return int(bool(failing))


if __name__ == "__main__":
    sys.exit(main())
