"""Run programs of the suite with one library, in a process of its own: a line of JSON for each.

``--save`` keeps the results, to be compared with another library's.
"""

import argparse
import importlib.machinery
import importlib.util
import json
import pkgutil
import statistics
import sys
import time
from pathlib import Path

import numpy as np

from asv_benchmarks import sides
from asv_benchmarks.programs import suite
from oxinp._runner.finder import UsersLoader

SEED = 20
MIN_SECONDS, MIN_RUNS, MAX_RUNS = 0.4, 3, 9
PATIENCE = 4.0
"""Seconds of one run beyond which it is not repeated."""


def names():
    """Return the names of the programs of the suite."""
    return sorted(module.name for module in pkgutil.iter_modules(suite.__path__))


class _Bound(importlib.machinery.SourceFileLoader):
    """Imports a program with `numpy` bound to another library."""

    library = None

    def exec_module(self, module):
        own, sys.modules["numpy"] = sys.modules["numpy"], self.library
        try:
            super().exec_module(module)
        finally:
            sys.modules["numpy"] = own


def load(name, side=None):
    """Import a program of the suite: for NumPy, or as users of a library run it."""
    return loaded(name, Path(suite.__path__[0]) / f"{name}.py", side)


def loaded(name, path, side):
    """Import a file, as `load` does."""
    path = str(path)
    if side is None or side.name == "numpy":
        loader = None
    elif side.name == "oxinp":
        loader = UsersLoader(name, path)
    else:
        loader = _Bound(name, path)
        loader.library = side.xp
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def start(side, name, size):
    """Return what a program starts from, the same numbers for every library, where that would have its arrays.

    oxinp, which draws NumPy's numbers, makes them as the program's users would; others are given NumPy's.
    """
    if side.name == "oxinp":
        program, random = load(name, side), side.xp.random
    else:
        program, random = load(name), np.random
    return brought(side, program.make(random.default_rng(SEED), *program.SIZES[size]))


def brought(side, made):
    """Return values, arrays of NumPy's among them as a library's, all of them computed."""
    given = [side.asarray(value) if isinstance(value, np.ndarray) else value for value in made]
    if side.materialise is not None:
        side.materialise(*[value for value in given if isinstance(value, side.xp.ndarray)])
    return given


def results(computed):
    """Return what a program has computed as a list."""
    return list(computed) if isinstance(computed, tuple) else [computed]


def run(side, name, size):
    """Return the results of a program's last run, and the seconds that each took, the first run's first."""
    program, seconds = load(name, side), []
    while True:
        given = start(side, name, size)
        side.synchronize()
        began = time.perf_counter()
        found = results(program.run(*given))
        if side.materialise is not None:
            side.materialise(*[value for value in found if isinstance(value, side.xp.ndarray)])
        side.synchronize()
        seconds.append(time.perf_counter() - began)
        if seconds[-1] > PATIENCE or len(seconds) > MAX_RUNS:
            return found, seconds
        if len(seconds) > MIN_RUNS and sum(seconds[1:]) > MIN_SECONDS:
            return found, seconds


def measured(side, name, size, folder):
    """Return what there is to say of a program, its results saved in a folder if one is given."""
    moved, launches = side.transferred_nbytes(), side.launches()
    try:
        found, seconds = run(side, name, size)
    except Exception as error:  # noqa: BLE001 - whatever keeps a library from running it is its result
        return {"error": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}
    if folder is not None:
        arrays = [side.to_host(value) if hasattr(value, "shape") else np.asarray(value) for value in found]
        np.savez(folder / f"{name}.npz", *arrays)
    row = {"seconds": statistics.median(seconds[1:] or seconds), "first": seconds[0], "runs": len(seconds)}
    if moved is not None:
        now = side.transferred_nbytes()
        row["fetched"], row["uploaded"] = (now[1] - moved[1]) / len(seconds), (now[0] - moved[0]) / len(seconds)
        row["launches"] = (side.launches() - launches) / len(seconds)
    return row


def main(argv=None):
    """Run programs one after the other."""
    parser = argparse.ArgumentParser(prog="python -m asv_benchmarks.programs.measure", description=__doc__)
    parser.add_argument("library", choices=("oxinp", "numpy", "cupy"))
    parser.add_argument("size", choices=("tiny", "small", "medium", "large"))
    parser.add_argument("names", nargs="*", help="all unless given")
    parser.add_argument("--save", type=Path)
    options = parser.parse_args(argv)
    side = sides.load(options.library)
    for name in options.names or names():
        row = {"name": name, **measured(side, name, options.size, options.save)}
        print(json.dumps(row), flush=True)
        side.release()


if __name__ == "__main__":
    main()
