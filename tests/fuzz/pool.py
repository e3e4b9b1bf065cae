"""Many programs over many processes, and one process that can be asked about single programs."""

import gc
import importlib
import math
import pkgutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any

from tests.fuzz.generate import generate_seeded
from tests.fuzz.program import Program, Statement
from tests.fuzz.regressions import PROGRAMS
from tests.fuzz.twin import Difference, InvalidProgramError, find_difference

SPAWN = get_context("spawn")  # a CUDA context does not survive a fork
HANG_SECONDS = 600.0
PROGRESS_SECONDS = 10.0
MAX_REPLACED = 20  # processes that end before their work does: something else is wrong then
MAX_NOT_STARTED = 3
# Kernels that are kept are millions of objects: left to the garbage collector they take half of a process's time.
FREEZE_EVERY = 200  # programs
GC_THRESHOLD = 20_000
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

    def load(self, *, is_written: bool = True) -> Any:
        """Import the namespace and configure it; `is_written` is whether its machine code is so before any call."""
        xp = pkgutil.resolve_name(self.namespace)
        for name, value in self.config.items():
            setattr(xp.config, name, value)
        if is_written and self.namespace == "oxinp":
            importlib.import_module("tests.machine_code").write_all()
        return xp


@dataclass(frozen=True)
class Work:
    """The programs of a run, by position: those that always run, then programs `start` to `start + num` of a seed."""

    seed: int
    num: int
    start: int = 0

    def __len__(self) -> int:
        return len(PROGRAMS) + self.num

    def program(self, position: int, threshold: float) -> Program:
        """Return one program."""
        index = position - len(PROGRAMS)
        return PROGRAMS[position] if index < 0 else generate_seeded(self.seed, self.start + index, threshold)


@dataclass(frozen=True)
class Failure:
    """A program that differs."""

    position: int
    difference: Difference


@dataclass
class Summary:
    """What a run did."""

    programs: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    counters: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    is_whole: bool = True


def _counters(xp: Any) -> Counter[str]:
    """Return the namespace's own counters, which show that programs ran where they should."""
    if not hasattr(xp, "cuda"):
        return Counter()
    stats = xp.cuda.stats()
    names = ("launches", "compiled", "cache_hits", "h2d_bytes", "d2h_bytes")
    counted = Counter({name: getattr(stats, name) for name in names})
    counted["fallbacks"] = sum(stats.fallbacks.values())
    return counted


def _work(settings: Settings, work: Work, positions: range, slot: int, shared: dict[str, Any]) -> None:
    """Run programs, telling which of them differ; end early if the device is lost."""
    xp = settings.load(is_written=slot % 2 == 0)  # in every other process it is while programs run
    kinds: Counter[str] = Counter()
    gc.set_threshold(GC_THRESHOLD)
    for i, position in enumerate(positions):
        if shared["stop"].is_set():
            break
        if i % FREEZE_EVERY == 0:
            gc.collect()
            gc.freeze()
        shared["position"][slot] = position
        shared["began"][slot] = time.monotonic()
        program = work.program(position, settings.threshold)
        difference = find_difference(program, xp)
        shared["done"][slot] += 1
        kinds.update(program.kinds())
        if difference is not None:
            shared["results"].put((slot, Failure(position, difference)))
            if find_difference(CANARY, xp) is not None:
                break
    shared["began"][slot] = 0.0
    shared["results"].put((slot, (kinds, _counters(xp))))


class _Pool:
    """Processes that share the work: process i of n has every n-th program from i on."""

    def __init__(
        self, settings: Settings, work: Work, jobs: int, report: Callable[[str], None], seconds: float
    ) -> None:
        self._settings, self._given, self._jobs, self._report = settings, work, jobs, report
        self._seconds = seconds
        self._shared: dict[str, Any] = {
            "position": SPAWN.Array("q", [-1] * jobs, lock=False),
            "began": SPAWN.Array("d", jobs, lock=False),
            "done": SPAWN.Array("q", jobs, lock=False),
            "stop": SPAWN.Event(),
            "results": SPAWN.Queue(),
        }
        self._processes: dict[int, Any] = {}
        self._first: dict[int, int] = {}
        self._num_replaced = 0
        self._num_not_started = 0
        self.summary = Summary()

    def run(self) -> Summary:
        """Run all programs."""
        for slot in range(self._jobs):
            self._start(slot, slot)
        began = reported = time.monotonic()
        while self._processes:
            self._collect()
            for slot in sorted(self._processes):
                self._check(slot)
            if time.monotonic() - reported > PROGRESS_SECONDS:
                reported = time.monotonic()
                done = f"{sum(self._shared['done'])} of {len(self._given)} programs"
                self._report(f"{done}, {len(self.summary.failures)} differences, {reported - began:.0f} s")
            if not any(self._shared["done"]):
                began = time.monotonic()  # a busy machine takes long to start processes
            elif time.monotonic() - began > self._seconds:
                self._shared["stop"].set()
        self.summary.programs = sum(self._shared["done"])
        self.summary.failures.sort(key=lambda failure: failure.position)
        return self.summary

    def _start(self, slot: int, first: int) -> None:
        positions = range(first, len(self._given), self._jobs)
        self._shared["position"][slot] = -1
        self._first[slot] = first
        arguments = (self._settings, self._given, positions, slot, self._shared)
        process = self._processes[slot] = SPAWN.Process(target=_work, args=arguments)
        process.start()

    def _collect(self) -> None:
        """Take in the results that have come."""
        time.sleep(0.05)
        results = self._shared["results"]
        while not results.empty():
            slot, result = results.get()
            if isinstance(result, Failure):
                self._note(result)
                continue
            kinds, counters = result
            self.summary.kinds += kinds
            self.summary.counters += counters
            self._processes.pop(slot).join()
            self._go_on(slot)

    def _note(self, failure: Failure) -> None:
        self.summary.failures.append(failure)
        origin = self._given.program(failure.position, self._settings.threshold).origin
        self._report(f"{origin}: {failure.difference.message.splitlines()[0]}")

    def _check(self, slot: int) -> None:
        """Replace a process that died or hangs."""
        process, position = self._processes[slot], self._shared["position"][slot]
        began = self._shared["began"][slot]
        if not process.is_alive():
            self._collect()  # its result may have come in meanwhile
            if self._processes.get(slot) is not process:
                return
            what = f"the process died with exit code {process.exitcode}"
        elif began and time.monotonic() - began > HANG_SECONDS:
            process.kill()
            what = f"no end after {HANG_SECONDS:.0f} s"
        else:
            return
        process.join()
        del self._processes[slot]
        if position < 0:  # of a machine at its limits, perhaps
            self._num_not_started += 1
            if self._num_not_started > MAX_NOT_STARTED:
                raise RuntimeError(f"{what} before its first program")
            self._start(slot, self._first[slot])
            return
        self._shared["done"][slot] += 1
        self._note(Failure(position, Difference(0, what)))
        self._go_on(slot)

    def _go_on(self, slot: int) -> None:
        """Start another process for what one has left undone."""
        following = max(self._shared["position"][slot], slot - self._jobs) + self._jobs
        if following >= len(self._given) or self._shared["stop"].is_set():
            return
        self._num_replaced += 1
        if self._num_replaced > MAX_REPLACED:
            self.summary.is_whole = False
            self._shared["stop"].set()
            self._report(f"{MAX_REPLACED} processes have died: no more are started")
            return
        self._start(slot, following)


def run(settings: Settings, work: Work, jobs: int, report: Callable[[str], None], seconds: float = math.inf) -> Summary:
    """Run programs to the end, or until time is up, differences or not.

    Parameters
    ----------
    settings : Settings
        What is tested.
    work : Work
        The programs.
    jobs : int
        Processes.
    report : callable(str)
        Called with each difference, and with a line of progress now and then.
    seconds : float
        After which no program is begun.
    """
    return _Pool(settings, work, jobs, report, seconds).run()


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
