"""The branches of all streams of a device, and what is queued on them: work that runs beside other work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._config import config
from oxinp._runtime import here, timeline
from oxinp._runtime.branch import Branch
from oxinp._runtime.collector import paused
from oxinp._runtime.counters import after_launch

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._runtime.launches import Launches
    from oxinp._runtime.timeline import Device

__all__ = ["Branches"]


class Branches:
    """The branches of the streams of one device.

    Parameters
    ----------
    backend : Device
    launches : Launches
        Of the device.

    Attributes
    ----------
    backend : Device
    launches : Launches
    """

    def __init__(self, backend: Device, launches: Launches) -> None:
        self.backend, self.launches = backend, launches
        self._made: dict[int, Branch] = {}

    def beside(self, urgent: Callable[[], object], rest: Callable[[], object]) -> None:
        """Queue what may run at the same time, the urgent work first on a branch; see `Backend.beside`."""
        is_watched = config.synchronous or after_launch() is not None  # launch by launch
        branch = None if is_watched else self._of_current()
        if branch is None or branch.is_open:
            urgent()
            rest()
            return
        with self.backend.turn:
            branch.fork()
        try:
            with paused(), self.launches.on(branch):  # a finaliser would read what it has before the branch is joined
                urgent()
            rest()
        finally:
            with self.backend.turn:
                branch.is_open = False
                branch.join()

    def _of_current(self) -> Branch | None:
        """The branch of the stream that work goes to now; None where that is a branch itself."""
        outer = here.thread.branch
        if isinstance(outer, Branch):
            return None
        stream = self.backend.stream if outer is None else outer.stream.handle
        branch = self._made.get(stream)
        if branch is None:
            branch = self._made[stream] = Branch(self.backend.context, stream)
        if here.are_several:
            timeline.current(self.backend).branch = branch
        return branch

    def close(self, stream: int) -> None:
        """Destroy the branch of a stream, whose work is done."""
        branch = self._made.pop(stream, None)
        if branch is not None:
            branch.close()
