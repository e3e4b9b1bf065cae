"""`python -m tests.numpy_suite [module ...] [--backend emulator|cuda|host] [--threshold 0]`.

Runs NumPy's tests twice, once as they are and once with `numpy` bound to oxinp, and says what oxinp fails of what NumPy
passes. A module is named as NumPy names its file, by as much of its beginning as wanted: `_core/tests/test_umath`,
`linalg`. The exit code is 1 if anything differs from what `expected.toml` lists. On a device, errors are to be NumPy's
at the very call, which two settings ask for (`suite.AS_NUMPYS`). ``--judge`` runs nothing and says what the outcomes in
a folder amount to, those of a run that was cut off as well.
"""

import argparse
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.numpy_suite.suite import (
    AS_NUMPYS,
    Judgement,
    find_modules,
    judge,
    make_tasks,
    outcomes_in,
    read,
    read_expected,
    run_task,
)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.numpy_suite", description="Run NumPy's tests on oxinp.")
    parser.add_argument("modules", nargs="*", help="beginnings of _core/tests/test_umath and the like (default: all)")
    parser.add_argument("--backend", default="emulator", choices=("emulator", "cuda", "host"))
    parser.add_argument("--threshold", default="0", help="oxinp.config.offload_threshold")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--keep", type=Path, help="a folder for the outcomes; NumPy's that are there are not run again")
    parser.add_argument("--judge", type=Path, help="a folder of outcomes: nothing is run")
    return parser.parse_args()


def _run(modules: list[str], arguments: argparse.Namespace, folder: Path) -> None:
    settings = {"OXINP_BACKEND": arguments.backend, "OXINP_OFFLOAD_THRESHOLD": arguments.threshold, **AS_NUMPYS}
    known = [module for module in modules if outcomes_in(folder, module, "numpy").exists()]
    for module in modules:
        outcomes_in(folder, module, arguments.backend).unlink(missing_ok=True)

    def run(task):
        kind, told = ("numpy", {}) if task.binding == "numpy" else (arguments.backend, settings)
        if task.binding == "oxinp" or task.module not in known:
            run_task(task, told, outcomes_in(folder, task.module, kind))

    with ThreadPoolExecutor(arguments.jobs) as threads:
        for _ in threads.map(run, make_tasks(modules, ("oxinp", "numpy"))):
            pass


def _report(module: str, found: Judgement) -> None:
    _say(f"{module}: NumPy passes {found.numpys}, oxinp {found.ours} of them, {found.expected} differ as expected")
    for test, message in found.failures.items():
        _say(f"  unexpected failure: {test}\n    " + message.replace("\n", "\n    "))
    for name in found.passes:
        _say(f"  unexpected pass: {name}")


def main() -> int:
    """Run the modules; return 1 if something differs that is not expected."""
    arguments = _arguments()
    modules, judgements = find_modules(arguments.modules), []
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.judge or arguments.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if arguments.judge is None:
            _run(modules, arguments, folder)
        for module in modules:
            numpys, ours = (read(outcomes_in(folder, module, kind)) for kind in ("numpy", arguments.backend))
            judgements.append(judge(module, numpys, ours, read_expected(), arguments.backend))
            _report(module, judgements[-1])
    numpys, ours = sum(found.numpys for found in judgements), sum(found.ours for found in judgements)
    expected = sum(found.expected for found in judgements)
    shares = [100 * passed / max(numpys, 1) for passed in (ours, ours + expected)]
    _say(f"NumPy passes {numpys} tests; oxinp passes {ours} of them, {shares[0]:.2f} %")
    _say(f"{expected} more differ as expected: {shares[1]:.2f} % are as they are to be")
    unexpected = sum(len(found.failures) + len(found.passes) for found in judgements)
    _say(f"{unexpected} unexpected outcome{'s' if unexpected != 1 else ''}")
    return int(bool(unexpected))


if __name__ == "__main__":
    sys.exit(main())
