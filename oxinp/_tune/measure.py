"""Measuring: what a run launched, written down so that it can be launched again, and how long that takes.

Times are those of the device: the launches of many runs are one graph, between two events. Runs go over several sets
of operands in turn, together larger than the second-level cache, as far as that takes no more than `MAX_SETS`.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from oxinp._config import config
from oxinp._driver.errors import CudaError
from oxinp._driver.graph import Executable, Graph, Node
from oxinp._driver.launch import Launcher
from oxinp.cuda import current

__all__ = ["MAX_SETS", "Call", "GraphTimer", "Recorder", "Recording", "Refused"]

MAX_SETS = 32
MAX_RUNS = 256
"""Of one graph."""


class Refused(Exception):
    """A candidate is not worth a run; says why."""


class Call(NamedTuple):
    """A launch: what `Backend.launcher` was given, and the parameters that vary."""

    kernel: Any
    grid: tuple[int, int, int]
    constants: tuple[Any, ...]
    varying: tuple[Any, ...]


class Recording:
    """The launches of a run, and the memory that they use.

    Attributes
    ----------
    calls : list of Call
    kept : list
        Buffers.
    result : ndarray
        What the run made.
    """

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.kept: list[Any] = []
        self.result: Any = None


class Recorder:
    """Stands in for a backend's launches and allocations inside `watching`.

    Parameters
    ----------
    backend : Backend
    """

    def __init__(self, backend: Any) -> None:
        self._backend = backend
        self._open: Recording | None = None
        self._planned: list[Any] | None = None

    def watching(self) -> contextlib.AbstractContextManager[None]:
        """Return the context in which runs can be recorded; what is planned inside is forgotten afterwards."""
        return current.wrapped(self._backend, {"launcher": self._launcher(), "allocate": self._allocate()})

    def kernels(self, run: Callable[[], Any]) -> list[Any]:
        """Return the kernels that a run would launch, none of which is: what it returns is not worth reading."""
        planned: list[Any] = []
        self._planned = planned
        try:
            run()
        finally:
            self._planned = None
            if planned:
                config.renew()  # what was planned does nothing
        return list(dict.fromkeys(planned))

    def record(self, run: Callable[[], Any]) -> Recording:
        """Run, and return what that launched."""
        recording = self._open = Recording()
        try:
            recording.result = run()
        finally:
            self._open = None
        return recording

    def _launcher(self) -> Callable[..., Any]:
        make, backend = self._backend.launcher, self._backend

        def launcher(
            kernel: Any, grid: tuple[int, int, int], num_varying: int, constants: tuple[Any, ...], *rest: Any
        ) -> Callable[..., None]:
            if self._planned is not None:
                self._planned.append(kernel)
                return _launch_nothing
            if self._open is not None:
                inspect(backend, kernel)
            launch = make(kernel, grid, num_varying, constants, *rest)

            def noted(*varying: Any) -> None:
                launch(*varying)
                if self._open is not None:
                    self._open.calls.append(Call(kernel, grid, constants, varying))

            return noted

        return launcher

    def _allocate(self) -> Callable[[int], Any]:
        allocate = self._backend.allocate

        def kept(nbytes: int) -> Any:
            buffer = allocate(nbytes)
            if self._open is not None:
                self._open.kept.append(buffer)
            return buffer

        return kept


def _launch_nothing(*_: Any) -> None:
    """Stand for a launch while kernels are only planned."""


def inspect(backend: Any, kernel: Any) -> None:
    """Raise Refused for a kernel that spills registers, or of which the device holds no block."""
    if backend.name != "cuda":
        return
    try:
        function = backend.function(kernel)
        if kernel.shared_nbytes:
            function.reserve_dynamic_shared(kernel.shared_nbytes)
        if function.attribute("local_nbytes"):
            raise Refused("registers spill")
        if function.attribute("max_threads_per_block") < kernel.num_threads:
            raise Refused("a multiprocessor holds no block")
    except CudaError as error:
        raise Refused(str(error)) from None


class GraphTimer:
    """Seconds that a run takes on the device.

    Parameters
    ----------
    backend : CudaBackend
    """

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def __call__(self, recordings: Sequence[Recording], seconds: float, repeats: int) -> float:
        """Return the median time of one of the recorded runs.

        Parameters
        ----------
        recordings : sequence of Recording
            Of runs that differ in their operands only; they are repeated in turn.
        seconds : float
            How long each of the repetitions should last, roughly.
        repeats : int
        """
        once = self._graph_seconds(recordings, len(recordings), 1) / len(recordings)
        if repeats == 1 and once > seconds:
            return once
        num_runs = max(1, min(MAX_RUNS, int(seconds / max(once, 1e-7))))
        return self._graph_seconds(recordings, num_runs, repeats) / num_runs

    def _graph_seconds(self, recordings: Sequence[Recording], num_runs: int, repeats: int) -> float:
        backend = self._backend
        with self._graph(recordings, num_runs) as executable:
            executable.launch(backend.stream)
            times = []
            for _ in range(repeats):
                start = backend.record_event()
                executable.launch(backend.stream)
                times.append(start.elapsed_ms(backend.record_event()) / 1e3)
        return statistics.median(times)

    @contextlib.contextmanager
    def _graph(self, recordings: Sequence[Recording], num_runs: int) -> Iterator[Executable]:
        """The launches of that many runs, one after the other."""
        graph = Graph(self._backend.context)
        made = [[(self._launcher(call), call.varying) for call in recording.calls] for recording in recordings]
        last: tuple[Node, ...] = ()
        for number in range(num_runs):
            for launcher, varying in made[number % len(made)]:
                last = (graph.add_kernel(launcher, *varying, after=last),)
        executable = graph.instantiate()
        try:
            yield executable
        finally:
            self._backend.finish()
            executable.close()
            graph.close()

    def _launcher(self, call: Call) -> Launcher:
        kernel = call.kernel
        return Launcher(
            self._backend.function(kernel),
            call.grid,
            kernel.block,
            kernel.shared_nbytes,
            kernel.param_format,
            len(call.varying),
            call.constants,
            cluster=kernel.cluster,
        )
