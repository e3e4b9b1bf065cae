"""The search for crossovers: from which order of matrices, and from how many of them, the device beats LAPACK here.

Both sides begin with host arrays and end with host arrays, transfers, launches and waiting included; once more they
begin on the device, from where LAPACK's are fetched, and the device's results are only waited for. Orders go by factors
of the square root of two, numbers of matrices by two; of these the first that is faster on the device is found by
bisection, and where both sides take as long by the logarithms of the ratios beside it.
"""

from __future__ import annotations

import contextlib
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from oxinp._api.creation import asarray
from oxinp._config import config
from oxinp._core.host.exchange import is_array
from oxinp._core.lazy.evaluate import evaluate
from oxinp._core.lazy.handle import host_view
from oxinp._core.ops.crossover import MAX_COUNT, MAX_ORDER, SMALL, Crossover, choice
from oxinp._driver.errors import CudaError
from oxinp._kernels.choice import Choice
from oxinp._runtime.tuned import Row
from oxinp._tune.problems import PLACEMENT, Problem
from oxinp._tune.routines import ROUTINES, Routine, operands
from oxinp._tune.search import Outcome
from oxinp.cuda import synchronize

__all__ = ["Crossovers", "fetched", "from_device", "on_device"]

FEWEST_RUNS, MOST_RUNS = 3, 15
BRIEF_SECONDS = 0.02
"""What the runs of one measurement may take together, beyond the fewest."""
LARGEST_NBYTES = 1 << 30


def on_device(routine: Routine, arrays: Sequence[np.ndarray[Any, Any]]) -> None:
    """Compute from host arrays to host arrays, on the device."""
    for x in _results(routine.ours(*[asarray(x) for x in arrays])):
        if is_array(x):
            host_view(x)


def from_device(routine: Routine, held: Sequence[Any]) -> None:
    """Compute from arrays on the device, and wait."""
    evaluate(*[x for x in _results(routine.ours(*held)) if is_array(x)])
    synchronize()


def fetched(held: Sequence[Any]) -> None:
    """Fetch arrays from the device: their values, computed anew, have no copy on the host yet."""
    for x in held:
        host_view(x + x.dtype.type(0))


def _results(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


class Crossovers:
    """Measures crossovers, as `search.Tuner` searches choices.

    Parameters
    ----------
    backend : Backend
        The one in use.
    clock : callable
        Seconds.
    routines : dict
    """

    def __init__(
        self,
        backend: Any,
        clock: Callable[[], float] = time.perf_counter,
        routines: dict[str, Routine] | None = None,
    ) -> None:
        self.backend, self.clock = backend, clock
        self.routines = ROUTINES if routines is None else routines

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        """Let all work of ours go to the device inside a `with` block."""
        with config.override(offload_threshold=0, synchronous=False):
            yield

    def questions(self, problem: Problem) -> list[Choice]:
        """Return what is asked of a problem."""
        return [choice(problem.family.removeprefix(PLACEMENT), problem.dtype)]

    def tune(
        self, problem: Problem, deadline: float, tell: Callable[[Outcome], None] = lambda _: None
    ) -> Iterator[Outcome]:
        """Measure the crossovers of a routine until a time of the clock; yield what came of it."""
        search = _Search(self, problem, deadline, tell)
        interrupt: BaseException | None = None
        try:
            search.run()
        except KeyboardInterrupt as error:
            interrupt = error
        yield search.outcome
        if interrupt is not None:
            raise interrupt


class _Search:
    """The search of one routine and dtype."""

    def __init__(
        self, crossovers: Crossovers, problem: Problem, deadline: float, tell: Callable[[Outcome], None]
    ) -> None:
        self.problem, self.deadline, self.tell = problem, deadline, tell
        self.clock, self.device = crossovers.clock, crossovers.backend.capability.device_name
        (self.choice,) = crossovers.questions(problem)
        self.routine = crossovers.routines[problem.family.removeprefix(PLACEMENT)]
        self.outcome = Outcome(problem)
        self.times: dict[tuple[int, int, bool], tuple[float, float]] = {}

    def run(self) -> None:
        """Measure the crossovers; what there is no time for leaves no answer."""
        (largest,) = self.problem.shapes[0][-1:]
        orders = [(round(2 ** (half / 2)), 1) for half in range(10, 2 * (largest.bit_length() - 1) + 1)]
        most = LARGEST_NBYTES // (SMALL**2 * self.problem.dtype.itemsize)
        counts = [(SMALL, 1 << i) for i in range(15) if 1 << i <= most]
        found = []
        for sizes, which, never, is_resident in (
            (orders, 0, MAX_ORDER, False),
            (orders, 0, MAX_ORDER, True),
            (counts if self.routine.has_stacks else [], 1, MAX_COUNT, False),
        ):
            crossover = self.first(sizes, which, never, is_resident=is_resident)
            if crossover is None:
                return
            found.append(crossover)
        self.outcome.is_complete = True
        order, resident, count = found
        answer = Crossover(round(order), round(resident), math.ceil(count))
        # The nearest of what was measured: on the side that the answer chooses, and on the other one.
        single = [key for key in self.times if key[1:] == (1, False)]
        near = min(single, key=lambda key: abs(math.log(key[0] / order)))
        best, other = sorted(self.times[near])
        self.outcome.row = Row(*self.choice[:4], answer._asdict(), best, other, self.device)

    def first(self, sizes: list[tuple[int, int]], which: int, never: int, *, is_resident: bool) -> float | None:
        """Return where in a row of sizes the device begins to be faster: by order or by number of matrices.

        `never` is what it is where the device is not; None where the time was over before.
        """
        low, high = -1, len(sizes)  # the host is faster at the first, the device at the second
        while high - low > 1:
            middle = (low + high) // 2
            if self.is_late:
                return None
            host, device = self.measured(*sizes[middle], is_resident=is_resident)
            low, high = (low, middle) if device < host else (middle, high)
        if high == len(sizes):
            return never
        if low < 0:
            return sizes[high][which]
        (h0, d0), (h1, d1) = (self.times[*sizes[i], is_resident] for i in (low, high))
        lost, won = math.log(d0 / h0), math.log(h1 / d1)
        begin, end = (math.log(sizes[i][which]) for i in (low, high))
        return math.exp(begin + (end - begin) * (lost / (lost + won) if lost < math.inf else 1))

    @property
    def is_late(self) -> bool:
        """Whether the time is over."""
        return self.clock() >= self.deadline

    def measured(self, order: int, count: int, *, is_resident: bool) -> tuple[float, float]:
        """Return the seconds of the host and of the device, which are infinite where it cannot."""
        key = (order, count, is_resident)
        if key not in self.times:
            arrays, routine = operands(self.routine, self.problem.dtype, order, count), self.routine
            host = self.seconds(lambda: routine.theirs(*arrays))
            try:
                if is_resident:
                    held = [asarray(x) for x in arrays]
                    device = self.seconds(lambda: from_device(routine, held))
                    host += self.seconds(lambda: fetched(held))
                else:
                    device = self.seconds(lambda: on_device(routine, arrays))
            except (CudaError, MemoryError):
                device = math.inf
                self.outcome.num_refused += 1
            self.times[key] = host, device
            self.outcome.num_tried += 1
            self.tell(self.outcome)
        return self.times[key]

    def seconds(self, run: Callable[[], Any]) -> float:
        """Return the median time of a few runs after a first one."""
        run()
        begin = self.clock()
        times: list[float] = []
        while len(times) < FEWEST_RUNS or (len(times) < MOST_RUNS and sum(times) < BRIEF_SECONDS):
            run()
            end = self.clock()
            times.append(end - begin)
            begin = end
        return statistics.median(times)
