"""Factors by fronts with other constants: ``python -m asv_benchmarks.kernels.sparse_settings [--quick] [REGEX]``.

A line per setting whose name is matched: milliseconds of `splu` and a system of a Laplacian in two and in three
dimensions, with the analysis and without, and the residual relative to the right-hand side. Ends with status 1 if
anything is wrong.
"""

import argparse
import contextlib
import re
import sys
import time

import numpy as np

import oxinp
from asv_benchmarks.kernels.sparse import Ours, moved
from asv_benchmarks.kernels.sparse_matrices import laplacian
from oxinp.sparse.linalg import _dissection, _elimination

MAX_RESIDUAL = 1e-9

# SETTINGS. Name -> constants by module and name.
SETTINGS = {
    "as shipped": {},
    "leaves of 32": {(_dissection, "LEAF"): 32},
    "leaves of 128": {(_dissection, "LEAF"): 128},
    "more groups": {(_elimination, "GROUP_COST"): 2e8},
}


@contextlib.contextmanager
def constants(setting):
    """Set constants of modules."""
    before = {(module, name): getattr(module, name) for module, name in setting}
    try:
        for (module, name), value in setting.items():
            setattr(module, name, value)
        yield
    finally:
        for (module, name), value in before.items():
            setattr(module, name, value)


def time_factors(name, setting, matrix):
    """Print the line of a setting; return whether the system is solved."""
    a, b = moved(Ours, matrix.tocsc(), "csc"), oxinp.array(np.random.default_rng(1).random(matrix.shape[0]))
    times = []
    with constants(setting):
        for given in (a.copy(), a, a):  # kernels are compiled by the first; the analysis of the second is kept
            Ours.wait()
            start = time.perf_counter()
            x = oxinp.sparse.linalg.splu(given).solve(b)
            Ours.start(x)
            Ours.wait()
            times.append((time.perf_counter() - start) * 1e3)
    residual = float(abs(b - a @ x).max() / abs(b).max())
    is_right = residual < MAX_RESIDUAL
    shown = f"{times[1]:9.1f} ms, again {times[2]:8.1f} ms, {residual:.1e}"
    print(f"splu of {matrix.shape[0]}, {name:38} {shown}{'' if is_right else ' WRONG'}", flush=True)
    return is_right


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("regex", nargs="?", default="")
    parser.add_argument("--quick", action="store_true", help="small matrices")
    options = parser.parse_args()
    is_right = True
    for matrix in (laplacian(100), laplacian(21, 3)) if options.quick else (laplacian(500), laplacian(30, 3)):
        for name, setting in SETTINGS.items():
            if re.search(options.regex, f"splu of {matrix.shape[0]}, {name}"):
                is_right &= time_factors(name, setting, matrix)
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
