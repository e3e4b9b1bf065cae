"""Recording: many launches that come again with the same memory are captured once, and launched as one graph.

Launches of a graph follow each other about a microsecond sooner than those of a stream, what runs beside them is waited
for by the device alone, and the host makes one call instead of thousands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._driver import errors
from oxinp._driver import graph as driver_graph
from oxinp._driver.stream import Stream
from oxinp._runtime.collector import paused
from oxinp._runtime.counters import stats

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._driver.context import Context
    from oxinp._driver.graph import Executable
    from oxinp._runtime.branches import Branches
    from oxinp._runtime.timeline import Device

__all__ = ["Recorder", "recorded"]


class Recorder:
    """A stream whose work is captured, in the place of the stream that the work would go to.

    Attributes
    ----------
    stream : Stream
    """

    __slots__ = ("stream",)

    def __init__(self, context: Context) -> None:
        self.stream = Stream(context)


class _Replay:
    """Launches as one graph, which is queued where they were to be."""

    __slots__ = ("_backend", "_executable", "_num_launches")

    def __init__(self, backend: Device, executable: Executable, num_launches: int) -> None:
        self._backend, self._executable, self._num_launches = backend, executable, num_launches

    def __call__(self) -> None:
        with self._backend.turn:
            self._executable.launch(self._backend.stream)
            stats.launches += self._num_launches


def recorded(branches: Branches, queue: Callable[[], object]) -> Callable[[], None] | None:
    """Capture what a call queues instead of doing it, and return what does it; None where the device cannot have it.

    Parameters
    ----------
    branches : Branches
        Of a device whose lock and turn are held.
    queue : callable
        Every kernel that it launches has been launched before; it takes no memory, and reads nothing.
    """
    recorder, before = Recorder(branches.backend.context), stats.launches
    try:
        # Relaxed: other threads may give memory back meanwhile.
        with paused(), driver_graph.capture(recorder.stream, "relaxed") as graph, branches.launches.on(recorder):
            queue()
        executable = graph.instantiate()
    except (errors.OutOfMemory, errors.NotSupported):
        return None
    finally:
        num_launches, stats.launches = stats.launches - before, before
        branches.close(recorder.stream.handle)
        recorder.stream.close()
    graph.close()
    return _Replay(branches.backend, executable, num_launches)
