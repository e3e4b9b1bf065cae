"""A family of the tests' own, and a search with a clock that counts launches."""

from typing import NamedTuple

import numpy as np

import oxinp
from oxinp import _runtime
from oxinp._driver.errors import DeviceFault
from oxinp._kernels.choice import Choice, decide
from oxinp._tune.measure import Refused
from oxinp._tune.problems import Problem
from oxinp._tune.search import Tuner


class Toy(NamedTuple):
    """Adds `launches` - 1 zeros to twice a number, or so it should."""

    launches: int
    factor: int = 2
    fault: str = ""


FAULTS = {"refuses": Refused("no"), "cannot": ValueError("no such plan"), "faults": DeviceFault("an illegal address")}
CANDIDATES = [Toy(n) for n in (5, 4, 3, 2)]


def toy(candidates=CANDIDATES, default=CANDIDATES[0]):
    choice = Choice("toy/adds", ("f64",), (), (1000,), Toy, lambda _: True, lambda: default, lambda: candidates)

    def run(x):
        answer = decide(choice, _runtime.current().capability)
        if answer.fault:
            raise FAULTS[answer.fault]
        y = x * answer.factor
        for _ in range(answer.launches - 1):
            oxinp.evaluate(y)
            y = y + 0
        return y

    return Problem("toy", "toy", np.dtype("f8"), ((1000,),), run, result_nbytes=8000)


def tuner_of(backend, seconds=None, clock=lambda: 0.0):
    def count(recordings, *_):
        return 1e-6 * len(recordings[0].calls)

    return Tuner(backend, seconds or count, backend.capability.replace(l2_nbytes=0), clock)


def tune(tuner, problem, deadline=1.0):
    with tuner.open():
        return list(tuner.tune(problem, deadline))
