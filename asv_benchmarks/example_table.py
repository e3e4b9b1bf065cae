"""The programs in `examples/` that are plain NumPy, one row each: what they compute, at which sizes, how exactly."""

import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from oxinp._runner.finder import UsersLoader

FOLDER = Path(__file__).resolve().parents[1] / "examples"
MODULES_BESIDE = ("picture", "progress")


class Example(NamedTuple):
    """A program, as functions of its module.

    Attributes
    ----------
    name : str
        The file's, in `examples/`.
    problem : callable
        ``(module, size)`` -> NumPy arrays and numbers: what is not measured, made with NumPy for every side.
    solve : callable
        ``(module, problem, steps)`` -> the arrays that the program computes.
    sizes : dict
        (size, steps) by what they are for: "tiny" to test, "small" as the program has them by itself, "large" to take
        NumPy some seconds.
    waits_for : frozenset of str
        What of it has no kernel yet, by NumPy's names; empty where it computes on the device alone.
    tolerance : float
        How far a result may be from NumPy's, relative to the largest value of its array: the rounding of sums in
        another order and of functions within their bound, through all steps. 0 means the same bits.
    """

    name: str
    problem: Callable
    solve: Callable
    sizes: dict
    tolerance: float
    waits_for: frozenset = frozenset()

    def load(self, *, for_oxinp=False):
        """Import the program anew, with `numpy` bound as plain Python or as ``python -m oxinp`` binds it."""
        path = str(FOLDER / f"{self.name}.py")
        loader = UsersLoader(self.name, path) if for_oxinp else None
        spec = importlib.util.spec_from_file_location(self.name, path, loader=loader)
        module = importlib.util.module_from_spec(spec)
        with _beside():
            spec.loader.exec_module(module)
        module.progress = lambda count, label: range(count)  # noqa: ARG005 - silent
        return module


@contextlib.contextmanager
def _beside():
    """Let a program find the modules beside it, which are forgotten afterwards: they bind `numpy` too."""
    sys.path.insert(0, str(FOLDER))
    try:
        yield
    finally:
        sys.path.remove(str(FOLDER))
        for name in MODULES_BESIDE:
            sys.modules.pop(name, None)


def _picture(module, size):
    """Return noise as large as scikit-learn's photograph: what a filter costs does not depend on what it is given."""
    shape = (427, 640, 3) if size > 64 else (24, 36, 3)
    return (module.enlarge(np.random.default_rng(3).random(shape, dtype=np.float32), size),)


EXAMPLES = {
    row.name: row
    for row in (
        Example(
            "black_scholes",
            lambda module, size: module.contracts(size),
            lambda module, problem, steps: module.run(*problem, steps),
            {"tiny": (2_000, 3), "small": (200_000, 8), "large": (4_000_000, 4)},
            1e-11,
        ),
        Example(
            "heat_sink",
            lambda module, size: (size,),  # noqa: ARG005 - every row's signature
            lambda module, problem, steps: module.simulate(*problem, steps),
            {"tiny": (40, 30), "small": (128, 1000), "large": (2048, 30)},
            1e-12,
        ),
        Example(
            "kmeans",
            lambda module, size: module.blobs(size, 8 if size <= 100_000 else 16, 3),
            lambda module, problem, steps: module.cluster(*problem, steps),
            {"tiny": (3_000, 3), "small": (100_000, 20), "large": (2_000_000, 3)},
            1e-12,
        ),
        Example(
            "mandelbrot",
            lambda module, size: (size,),  # noqa: ARG005
            lambda module, problem, steps: (module.run(*problem, steps),),
            {"tiny": (48, 40), "small": (512, 200), "large": (2048, 30)},
            0.0,
        ),
        Example(
            "nbody",
            lambda module, size: module.plummer_sphere(size),
            lambda module, problem, steps: module.simulate(*problem, steps),
            {"tiny": (100, 3), "small": (1000, 50), "large": (8192, 1)},
            1e-12,
        ),
        Example(
            "pagerank",
            lambda module, size: (module.web(size),),
            lambda module, problem, steps: module.rank_pages(*problem, steps),
            {"tiny": (200, 30), "small": (2000, 100), "large": (12288, 100)},
            1e-12,
        ),
        Example(
            "photograph",
            _picture,
            lambda module, problem, steps: module.run(*problem, steps),
            {"tiny": (50, 2), "small": (427, 3), "large": (1024, 2)},
            1e-5,
        ),
    )
}
