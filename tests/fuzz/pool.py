"""Many programs over many processes, and one process that can be asked about single programs."""

import pkgutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any

from tests.fuzz.generate import generate_seeded
from tests.fuzz.program import Program, Statement
from tests.fuzz.twin import Difference, InvalidProgramError, find_difference

SPAWN = get_context("spawn")  # a CUDA context does not survive a fork
HANG_SECONDS = 120.0
PROGRESS_SECONDS = 10.0
# Runs under any working namespace: a process where it does not has lost its device.
CANARY = Program((Statement("compute", "a1 = np.arange(5) + 1"),))


@dataclass(frozen=True)
class Settings:
    """The namespace under test and its configuration.

    Attributes
    ----------
    namespace : str
        Module, or module:object, to import.
    config : dict
        Attributes to set on its `config`.
    """

    namespace: str = "oxinp"
    config: dict[str, Any] = field(default_factory=dict)

    @property
    def threshold(self) -> float:
        """`config.offload_threshold`."""
        return float(self.config.get("offload_threshold", 0))

    def load(self) -> Any:
        """Import the namespace and configure it."""
        xp = pkgutil.resolve_name(self.namespace)
        for name, value in self.config.items():
            setattr(xp.config, name, value)
        return xp


@dataclass(frozen=True)
class Failure:
    """The first difference of a run."""

    index: int
    difference: Difference


@dataclass
class Summary:
    """What a run did."""

    programs: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    counters: Counter[str] = field(default_factory=Counter)
    failure: Failure | None = None


def _counters(xp: Any) -> Counter[str]:
    """Return the namespace's own counters, which show that programs ran where they should."""
    if not hasattr(xp, "cuda"):
        return Counter()
    stats = xp.cuda.stats()
    names = ("launches", "compiled", "cache_hits", "h2d_bytes", "d2h_bytes")
    counted = Counter({name: getattr(stats, name) for name in names})
    counted["fallbacks"] = sum(stats.fallbacks.values())
    return counted


def _work(settings: Settings, seed: int, indices: range, slot: int, shared: dict[str, Any]) -> None:
    """Run programs until one differs or another process found one that does."""
    xp = settings.load()
    kinds: Counter[str] = Counter()
    failure = None
    for index in indices:
        if shared["stop"].is_set():
            break
        shared["index"][slot] = index
        shared["began"][slot] = time.monotonic()
        program = generate_seeded(seed, index, settings.threshold)
        difference = find_difference(program, xp)
        shared["done"][slot] += 1
        kinds.update(program.kinds())
        if difference is not None:
            failure = Failure(index, difference)
            shared["stop"].set()
            break
    shared["began"][slot] = 0.0
    shared["results"].put((slot, kinds, _counters(xp), failure))


def run(
    settings: Settings, programs: int, seed: int, jobs: int, report: Callable[[str], None], start: int = 0
) -> Summary:
    """Run programs `start` to `start + programs` of a seed until the first difference.

    Parameters
    ----------
    settings : Settings
        What is tested.
    programs, seed, jobs : int
        How many, which, over how many processes.
    report : callable(str)
        Called with a line of progress now and then.
    start : int
        Index of the first program.
    """
    shared = {
        "index": SPAWN.Array("q", [-1] * jobs, lock=False),
        "began": SPAWN.Array("d", jobs, lock=False),
        "done": SPAWN.Array("q", jobs, lock=False),
        "stop": SPAWN.Event(),
        "results": SPAWN.Queue(),
    }
    processes = [
        SPAWN.Process(target=_work, args=(settings, seed, range(start + i, start + programs, jobs), i, shared))
        for i in range(jobs)
    ]
    for process in processes:
        process.start()
    summary = Summary()
    waiting = set(range(jobs))
    began = reported = time.monotonic()
    while waiting:
        waiting -= _collect(shared, summary)
        for slot in sorted(waiting):
            lost = _lost(processes[slot], shared, slot)
            if lost is not None:
                # Its result may have come in meanwhile.
                waiting -= _collect(shared, summary)
            if lost is not None and slot in waiting:
                shared["stop"].set()
                waiting.discard(slot)
                summary.failure = summary.failure or lost
        if time.monotonic() - reported > PROGRESS_SECONDS:
            reported = time.monotonic()
            report(f"{sum(shared['done'])} of {programs} programs, {reported - began:.0f} s")
    for process in processes:
        process.join()
    summary.programs = sum(shared["done"])
    return summary


def _collect(shared: dict[str, Any], summary: Summary) -> set[int]:
    """Take in the results that have come; return the slots they came from."""
    slots = set()
    time.sleep(0.05)
    while not shared["results"].empty():
        slot, kinds, counters, failure = shared["results"].get()
        slots.add(slot)
        summary.kinds += kinds
        summary.counters += counters
        if failure is not None and (summary.failure is None or failure.index < summary.failure.index):
            summary.failure = failure
    return slots


def _lost(process: Any, shared: dict[str, Any], slot: int) -> Failure | None:
    """Return a failure if a process died or hangs."""
    index, began = shared["index"][slot], shared["began"][slot]
    if not process.is_alive():
        return Failure(index, Difference(0, f"the process died with exit code {process.exitcode}"))
    if began and time.monotonic() - began > HANG_SECONDS:
        process.kill()
        return Failure(index, Difference(0, f"no end after {HANG_SECONDS:.0f} s"))
    return None


def _answer(settings: Settings, pipe: Any) -> None:
    """Answer questions about programs; end when the device is lost."""
    xp = settings.load()
    is_well = True
    while is_well:
        program = pipe.recv()
        try:
            difference = find_difference(program, xp, validate=True)
        except InvalidProgramError:
            difference = None
        is_well = difference is None or find_difference(CANARY, xp) is None
        pipe.send((difference, is_well))


class Judge:
    """Tells whether a program differs, in a process of its own that may die or hang."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._process: Any = None
        self._pipe: Any = None

    def __call__(self, program: Program) -> Difference | None:
        """Return the first difference of a program, or None."""
        if self._process is None:
            self._pipe, theirs = SPAWN.Pipe()
            self._process = SPAWN.Process(target=_answer, args=(self._settings, theirs), daemon=True)
            self._process.start()
            theirs.close()
        self._pipe.send(program)
        try:
            if not self._pipe.poll(HANG_SECONDS):
                self.close()
                return Difference(0, f"no end after {HANG_SECONDS:.0f} s")
            difference, is_well = self._pipe.recv()
        except (EOFError, ConnectionResetError):
            self._process.join()
            message = f"the process died with exit code {self._process.exitcode}"
            self.close()
            return Difference(0, message)
        if not is_well:
            self.close()
        return difference

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None
