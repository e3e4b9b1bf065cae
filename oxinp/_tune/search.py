"""The search: candidates are run, compared with what the planner chooses by itself, and timed; the fastest stays.

First the most promising ones, then the neighbours of the best so far (answers that differ from it in one field), as
long as that helps and time is left. All are timed briefly; the best few then thoroughly, in turn with the default.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oxinp._api.creation import asarray
from oxinp._config import config
from oxinp._core.lazy.evaluate import evaluate
from oxinp._driver.errors import CudaError, DeviceFault
from oxinp._kernels.choice import Choice
from oxinp._runtime.tuned import Row
from oxinp._tune.measure import MAX_SETS, Recorder, Recording, Refused
from oxinp._tune.problems import Problem

__all__ = ["Outcome", "Tuner"]

BREADTH = 12  # candidates that are tried before neighbours are
AT_ONCE = 16  # candidates whose kernels are compiled side by side
FINALISTS = 4
BRIEF_SECONDS, BRIEF_REPEATS = 3e-4, 1
THOROUGH_SECONDS, THOROUGH_REPEATS = 2e-3, 7
LEAST_GAIN = 0.02  # by which a candidate has to be faster than the default to replace it
ROTATED = 1.5  # times the size of the second-level cache: what the sets of operands take together

Timer = Callable[[Sequence[Recording], float, int], float]


@dataclass
class Outcome:
    """What came of one choice.

    Attributes
    ----------
    problem : Problem
    row : Row or None
        None where not even the default could be run.
    num_tried, num_refused : int
        Candidates that were timed, and those that no kernel came of: they spill, or do not fit.
    wrong : list
        Answers whose results differ from the default's.
    is_complete : bool
        The search ended by itself.
    """

    problem: Problem
    row: Row | None = None
    num_tried: int = 0
    num_refused: int = 0
    wrong: list[Any] = field(default_factory=list)
    is_complete: bool = False

    @property
    def gain(self) -> float:
        """How many times faster than the default."""
        return 1.0 if self.row is None else self.row.default_seconds / self.row.seconds


class Oracle:
    """What planners are told by while a search goes on: nothing, but for the choice that is searched."""

    def __init__(self) -> None:
        self.asked: dict[tuple[Any, ...], Choice] = {}
        self._forced: dict[tuple[Any, ...], dict[str, Any]] = {}

    def __call__(self, choice: Choice) -> dict[str, Any] | None:
        self.asked[choice[:4]] = choice
        return self._forced.get(choice[:4])

    @contextlib.contextmanager
    def forcing(self, choice: Choice, answer: Any) -> Iterator[None]:
        """Give an answer inside a `with` block; everything is planned anew then, and once more afterwards."""
        self._forced[choice[:4]] = answer._asdict()
        config.renew()
        try:
            yield
        finally:
            self._forced.clear()
            config.renew()


class Tuner:
    """Finds the best answers of problems.

    Parameters
    ----------
    backend : Backend
        The one in use.
    timer : callable
        See `measure.GraphTimer.__call__`.
    capability : Capability, optional
        What is planned for, if not for what the backend is.
    clock : callable
        Seconds.
    """

    def __init__(
        self, backend: Any, timer: Timer, capability: Any = None, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self.backend, self.timer, self.clock = backend, timer, clock
        self.capability = backend.capability if capability is None else capability
        self.oracle = Oracle()
        self.recorder = Recorder(backend)
        self._best: dict[tuple[Any, ...], list[Any]] = {}  # answers that were best for others of a family and key

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        """Let planners ask here, and all work go to the device, inside a `with` block."""
        before = self.backend.capability
        self.backend.capability = self.capability.replace(tuned=self.oracle)
        try:
            with config.override(offload_threshold=0, synchronous=False), self.recorder.watching():
                yield
        finally:
            self.backend.capability = before

    def questions(self, problem: Problem) -> list[Choice]:
        """Run a problem; return the choices of its family that were asked."""
        self.oracle.asked.clear()
        arrays = [asarray(x) for x in problem.whole()]
        self.run(problem, arrays)
        return [choice for choice in self.oracle.asked.values() if choice.family.startswith(problem.family)]

    def tune(
        self, problem: Problem, deadline: float, tell: Callable[[Outcome], None] = lambda _: None
    ) -> Iterator[Outcome]:
        """Search the choices of a problem until a time of the clock; yield what came of each.

        Parameters
        ----------
        problem : Problem
        deadline : float
        tell : callable
            Called with the outcome so far after every trial.

        Notes
        -----
        Interrupted from the keyboard, it yields the best so far, and raises KeyboardInterrupt after that. So it does
        with the DeviceFault of a candidate that reaches beyond its memory: nothing runs after that.
        """
        for choice in self.questions(problem):
            search = _Search(self, problem, choice, deadline, tell)
            interrupt: BaseException | None = None
            try:
                search.run()
                search.finish()
            except KeyboardInterrupt as error:
                search.finish()
                interrupt = error
            except DeviceFault as error:
                interrupt = error
            self._best.setdefault(choice[:2], []).extend(search.winner)
            yield search.outcome
            if interrupt is not None:
                raise interrupt

    def known(self, choice: Choice) -> list[Any]:
        """Answers that were best for others of the family and key, the last first."""
        return self._best.get(choice[:2], [])[::-1]

    def run(self, problem: Problem, arrays: list[Any]) -> Recording:
        """Compute a problem; return what that launched."""
        return self.recorder.record(lambda: self.compute(problem, arrays))

    @staticmethod
    def compute(problem: Problem, arrays: list[Any]) -> Any:
        """Return what a problem makes of arrays, computed."""
        result = problem.run(*arrays)
        evaluate(result)
        return result


class _Search:
    """The search of one choice."""

    def __init__(
        self, tuner: Tuner, problem: Problem, choice: Choice, deadline: float, tell: Callable[[Outcome], None]
    ) -> None:
        self.tuner, self.problem, self.choice, self.deadline, self.tell = tuner, problem, choice, deadline, tell
        self.outcome = Outcome(problem)
        self.times: dict[Any, float] = {}
        self.seen: set[Any] = set()
        self.winner: list[Any] = []
        self.default = choice.default()
        count = math.ceil(ROTATED * tuner.capability.l2_nbytes / max(1, problem.nbytes))
        self.whole = [asarray(x) for x in problem.whole()]
        self.sets = [[asarray(x) for x in problem.random()] for _ in range(max(1, min(MAX_SETS, count)))]

    def run(self) -> None:
        """Try what is worth it."""
        with self.tuner.oracle.forcing(self.choice, self.default):
            self.expected = self.results()
        self.try_each([self.default])
        self.try_each(self.promising())
        self.climb()
        self.outcome.is_complete = not self.is_late

    @property
    def is_late(self) -> bool:
        """Whether the time is over."""
        return self.tuner.clock() >= self.deadline

    def promising(self) -> list[Any]:
        """What others of the family and key were best with, then what the planner finds promising."""
        known = [answer for answer in dict.fromkeys(self.tuner.known(self.choice)) if self.choice.is_legal(answer)]
        self.legal = list(dict.fromkeys(self.choice.candidates()))
        return [*known[: BREADTH // 2], *self.legal[:BREADTH]]

    def climb(self) -> None:
        """Try neighbours of the best as long as one is better."""
        best = None
        while self.times and best != (best := min(self.times, key=self.times.__getitem__)) and not self.is_late:
            self.try_each(answer for answer in self.legal if _distance(answer, best) == 1)

    def try_each(self, answers: Iterable[Any]) -> None:
        """Run, compare and time answers that have not been tried."""
        fresh = [answer for answer in dict.fromkeys(answers) if answer not in self.seen]
        for first in range(0, len(fresh), AT_ONCE):
            for answer in self.compiled(fresh[first : first + AT_ONCE]):
                if self.is_late and self.times:
                    return
                self.seen.add(answer)
                self.attempt(answer)
                self.tell(self.outcome)

    def compiled(self, answers: list[Any]) -> list[Any]:
        """The answers, when the kernels that they lead to have been compiled, side by side."""
        tuner, backend = self.tuner, self.tuner.backend
        if len(answers) < 2 or self.is_late or backend.name != "cuda" or backend.loader.trouble is not None:
            return answers
        seen: dict[Any, None] = {}
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for answer in answers:
                kernels: list[Any] = []
                # What cannot be planned or compiled is found out again when it is run.
                with contextlib.suppress(ValueError), tuner.oracle.forcing(self.choice, answer):
                    kernels = tuner.recorder.kernels(lambda: tuner.compute(self.problem, self.whole))
                for kernel in kernels:
                    if kernel not in seen:
                        pool.submit(backend.compile, kernel)
                seen.update(dict.fromkeys(kernels))
        return answers

    def attempt(self, answer: Any) -> None:
        """Run, compare and time an answer."""
        try:
            with self.tuner.oracle.forcing(self.choice, answer):
                if not self.is_right():
                    self.outcome.wrong.append(answer)
                    return
                self.times[answer] = self.seconds(BRIEF_SECONDS, BRIEF_REPEATS)
        except DeviceFault:
            self.outcome.wrong.append(answer)
            raise
        except (Refused, CudaError, MemoryError, ValueError):
            self.outcome.num_refused += 1
        self.outcome.num_tried += 1

    def results(self) -> list[Any]:
        """What is made of whole numbers and of the first set of operands."""
        return [self.tuner.run(self.problem, arrays).result for arrays in (self.whole, self.sets[0])]

    def is_right(self) -> bool:
        """Whether the result is the default's: the same of whole numbers, and nearly so of others."""
        (exact, near), (same, close) = self.expected, self.results()
        if bool((same != exact).any()):
            return False
        dtype = near.dtype
        if dtype.kind not in "fc":
            return not bool((close != near).any())
        sums = np.finfo(np.float32 if dtype.itemsize == 2 else dtype).eps
        tolerance = 8 * math.sqrt(self.problem.depth) * sums + 2 * np.finfo(dtype).eps
        return float(abs(close - near).max()) <= tolerance * float(abs(near).max())

    def seconds(self, seconds: float, repeats: int) -> float:
        """What a run takes."""
        return self.tuner.timer([self.tuner.run(self.problem, arrays) for arrays in self.sets], seconds, repeats)

    def finish(self) -> None:
        """Time the best few thoroughly, and keep the one that is clearly faster than the default."""
        default = self.default
        if default not in self.times:
            return
        ranked = sorted(self.times, key=self.times.__getitem__)[:FINALISTS]
        contenders = dict.fromkeys([default, *ranked])
        times = {}
        for answer in contenders:
            with self.tuner.oracle.forcing(self.choice, answer):
                times[answer] = self.seconds(THOROUGH_SECONDS, THOROUGH_REPEATS)
        best = min(times, key=times.__getitem__)
        if times[best] > (1 - LEAST_GAIN) * times[default]:
            best = default
        self.winner = [best]
        device = self.tuner.backend.capability.device_name
        self.outcome.row = Row(*self.choice[:4], best._asdict(), times[best], times[default], device)


def _distance(a: Any, b: Any) -> int:
    """In how many fields two answers differ."""
    return sum(x != y for x, y in zip(a, b, strict=True))
