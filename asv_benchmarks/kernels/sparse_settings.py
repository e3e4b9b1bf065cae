"""Sparse solvers with other constants: ``python -m asv_benchmarks.kernels.sparse_settings [--quick] [REGEX]``.

A line per setting whose name is matched. Of `arnoldi_s_step`: milliseconds of 30 steps from one vector with the
Laplacian of a grid of 4M vertices, which are a cycle of GMRES(30) but for the small problem, and how far the vectors
are from orthonormal. Of `matvec`: milliseconds of products with a vector, by indices of 16 bits and as they are. Of
`splu`: milliseconds of factors and a system of a Laplacian in two and in three dimensions,
with the analysis and without, and the residual relative to the right-hand side. Ends with status 1 if anything is
wrong.
"""

import argparse
import contextlib
import re
import sys
import time

import numpy as np

import oxinp
from asv_benchmarks.kernels.sparse import Ours, host, milliseconds, moved
from asv_benchmarks.kernels.sparse_matrices import banded, laplacian
from oxinp._core.ops import sparse as ops
from oxinp._core.ops.perform import perform_on_device
from oxinp._kernels.sparse import arnoldi_s_step
from oxinp.sparse import _compressed, _rows
from oxinp.sparse.linalg import _dissection, _elimination

STEPS = 30
MAX_ERROR, MAX_RESIDUAL = 1e-8, 1e-9

# SETTINGS OF THE ARNOLDI METHOD. Name -> steps at a time, and constants by module and name.
S_STEP = arnoldi_s_step
OF_ARNOLDI = {
    "2 at a time": (2, {}),
    "3 at a time": (3, {}),
    "3 at a time, 8 elements": (3, {(S_STEP, "DOT_ELEMENTS"): 8}),
    "4 at a time": (4, {}),
}

# SETTINGS OF PRODUCTS. Name -> constants by module and name.
OF_PRODUCTS = {"narrow indices": {}, "wide indices": {(_rows, "MIN_NARROW"): 1 << 60}}
MULTIPLIED = {
    "laplacian 2-D, 1M": lambda: laplacian(1000),
    "laplacian 2-D, 4M": lambda: laplacian(2000),
    "laplacian 3-D, 1M": lambda: laplacian(100, 3),
    "9 diagonals, 4M": lambda: banded(4 * 10**6, 9),
    "15 diagonals, 1M": lambda: banded(10**6, 15),
    "31 diagonals, 1M": lambda: banded(10**6, 31),
}

# SETTINGS OF FACTORS BY FRONTS. Name -> constants by module and name.
OF_FACTORS = {
    "as shipped": {},
    "leaves of 32": {(_dissection, "LEAF"): 32},
    "leaves of 128": {(_dissection, "LEAF"): 128},
    "more groups": {(_elimination, "GROUP_COST"): 2e8},
}


@contextlib.contextmanager
def constants(setting):
    """Set constants of modules, and have kernels built with them."""
    before = {(module, name): getattr(module, name) for module, name in setting}
    try:
        for (module, name), value in setting.items():
            setattr(module, name, value)
        S_STEP.make.cache_clear()
        yield
    finally:
        for (module, name), value in before.items():
            setattr(module, name, value)
        S_STEP.make.cache_clear()


def time_steps(name, setting, rows, longest, first):
    """Print the line of a setting of the Arnoldi method; return whether the vectors are orthonormal."""
    steps, changed = setting

    def plan(bound):
        with constants(changed):
            return ops.ARNOLDI_S_STEP.plan(bound)

    op = ops.ARNOLDI_S_STEP.replace(name=f"arnoldi_s_step, {name}", plan=plan)
    taken, (basis, components) = milliseconds(
        Ours, lambda: perform_on_device(op, (*rows.parts, first), (STEPS, longest, steps)), 3
    )
    error = float(abs(basis @ basis.T - oxinp.eye(STEPS + 1)).max())
    is_right = error < MAX_ERROR and not host(components)[:, -1].any()
    print(f"arnoldi_s_step, {name:43} {taken:9.3f} ms, {error:.1e}{'' if is_right else ' WRONG'}", flush=True)
    return is_right


def time_products(which, matrix, chosen):
    """Print the lines of settings of products with a vector; return whether all give the same bits."""
    x = oxinp.array(np.random.default_rng(2).random(matrix.shape[1]))
    results = []
    for name in chosen:
        with constants(OF_PRODUCTS[name]):
            a = moved(Ours, matrix)
            taken, found = milliseconds(Ours, lambda a=a: a @ x, 50)
        results.append(host(found))
        is_right = np.array_equal(results[0], results[-1])
        print(f"matvec, {which}, {name:30} {taken:9.4f} ms{'' if is_right else ' WRONG'}", flush=True)
    return all(np.array_equal(results[0], result) for result in results)


def time_factors(name, setting, matrix):
    """Print the line of a setting of factors by fronts; return whether the system is solved."""
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
    chosen = [name for name in OF_ARNOLDI if re.search(options.regex, f"arnoldi_s_step, {name}")]
    if chosen:
        rows, longest = _compressed.of_rows(moved(Ours, laplacian(20 if options.quick else 2000)))
        first = oxinp.array(np.random.default_rng(0).normal(size=(1, rows.num_rows)))
        first = first / (first * first).sum() ** 0.5
        for name in chosen:
            is_right &= time_steps(name, OF_ARNOLDI[name], rows, longest, first)
    for which, make in MULTIPLIED.items():
        chosen = [name for name in OF_PRODUCTS if re.search(options.regex, f"matvec, {which}, {name}")]
        if chosen:
            is_right &= time_products(which, make(), chosen)
    for matrix in (laplacian(100), laplacian(21, 3)) if options.quick else (laplacian(500), laplacian(30, 3)):
        for name, setting in OF_FACTORS.items():
            if re.search(options.regex, f"splu of {matrix.shape[0]}, {name}"):
                is_right &= time_factors(name, setting, matrix)
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
