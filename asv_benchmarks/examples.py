"""The programs in `examples/`, unchanged, as ``python -m oxinp`` runs them, against NumPy on the same machine."""

import functools
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from asv_benchmarks import requirement
from asv_benchmarks.case import Case, Measurement, ValueCase
from asv_benchmarks.example_table import EXAMPLES, FOLDER
from asv_benchmarks.sides import NotApplicableError

MILLISECONDS = 1e3


@functools.lru_cache(maxsize=1)
def _problem(name, purpose):
    """Return what a program is to solve, made by NumPy, the same for every side."""
    example = EXAMPLES[name]
    return example.problem(example.load(), example.sizes[purpose][0])


class Program(Case):
    """What a program computes, from arrays that are where its library has them until all results are there.

    Not measured are what makes the data (random numbers, on the host), printing and drawing.
    """

    params = (tuple(sorted(EXAMPLES)), ("small", "large"))
    quick_params = (tuple(sorted(EXAMPLES)), ("tiny",))
    param_names = ("name", "purpose")
    peers = ("numpy",)
    rounds = 3

    def solver(self, side, name, purpose):
        """Return a function that solves the problem once, on arrays of the side's own."""
        example = EXAMPLES[name]
        if side.name == "oxinp" and example.waits_for:
            raise NotApplicableError(f"waits for kernels: {' '.join(sorted(example.waits_for))}")
        module = example.load(for_oxinp=side.name == "oxinp")
        problem = [side.asarray(value) if isinstance(value, np.ndarray) else value for value in _problem(name, purpose)]
        return functools.partial(example.solve, module, problem, example.sizes[purpose][1])

    def verify(self, side, name, purpose):
        """Assert that a side computes what NumPy does, within the program's tolerance."""
        example = EXAMPLES[name]
        computed = self.solver(side, name, purpose)()
        given = [np.array(value) if isinstance(value, np.ndarray) else value for value in _problem(name, purpose)]
        expected = example.solve(example.load(), given, example.sizes[purpose][1])
        for result, numpys in zip(computed, expected, strict=True):
            ours = side.to_host(result) if hasattr(result, "shape") else result
            bound = example.tolerance * float(np.abs(numpys).max())
            np.testing.assert_allclose(ours, numpys, rtol=0, atol=bound)

    def prepare(self, side, name, purpose):
        solve = self.solver(side, name, purpose)

        def measure():
            side.synchronize()
            began = time.perf_counter()
            results = solve()
            side.synchronize()  # which computes what is pending
            elapsed = time.perf_counter() - began
            del results
            return Measurement(MILLISECONDS * elapsed)

        if side.backend != "host":
            measure()  # compiles
        return measure

    def requirements(self, name, purpose):
        del name
        least = {"large": 10.0, "small": 1 / 1.2}.get(purpose)
        return () if least is None else (requirement.ratio("numpy", least),)


class ProfileCost(ValueCase):
    """A loop of short operations under ``--profile``: the time that the program prints, over that without.

    The least of several runs in turn of each: the speed of a shared host changes by more than the profile costs.
    """

    params = (("heat_sink",), (256,), (5_000,), (5,))
    quick_params = (("heat_sink",), (40,), (20,), (1,))
    param_names = ("name", "size", "steps", "turns")
    unit = "x"
    peers = ()

    def measure(self, side, name, size, steps, turns):
        program = [str(FOLDER / f"{name}.py"), "--size", str(size), "--steps", str(steps), "--picture", ""]
        with tempfile.TemporaryDirectory() as folder:
            profile = f"--profile={Path(folder) / 'profile.json'}"
            taken = [[self.seconds(side, [*options, *program]) for options in ([], [profile])] for _ in range(turns)]
        without, within = (min(seconds) for seconds in zip(*taken, strict=True))
        return within / without

    @staticmethod
    def seconds(side, arguments):
        """Return the time that a program says it took, in a process of its own."""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        environment["OXINP_BACKEND"] = side.backend
        command = [sys.executable, "-m", "oxinp", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        return float(re.search(r" in (\d+\.\d+) s$", done.stdout, re.MULTILINE)[1])

    def requirements(self, name, size, steps, turns):
        del name, size, steps, turns
        return (requirement.at_most(1.1, "x"),)
