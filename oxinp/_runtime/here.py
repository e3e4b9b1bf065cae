"""Here: where the calling thread's work goes, once there is more than one stream or device to choose from.

What is chosen is a `timeline.Timeline`; nothing here looks into it.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["enter", "leave", "on", "thread"]

are_several = False
"""Whether there are timelines to choose from; `timeline.separate` sets it, once and for all."""


class _Thread(threading.local):
    """What is current in the calling thread.

    Attributes
    ----------
    timeline : Timeline
        Where its work goes; every thread begins with the first one there was.
    branch : Branch or None
        The branch of that timeline that the thread's launches go to.
    before : list of Timeline or None
        What it had chosen outside the `with` blocks that it is in.
    """

    timeline: Any  # a Timeline; of the class, until the thread chooses another one
    branch: Any = None

    def __init__(self) -> None:
        self.before: list[Any] = []


thread = _Thread()


def start(timeline: Any) -> None:
    """Let there be timelines: this one to begin with, in every thread."""
    global are_several
    _Thread.timeline = timeline
    are_several = True


def enter(timeline: Any) -> None:
    """Let the calling thread's work go to a timeline from now on, or where it goes already."""
    thread.before.append(vars(thread).get("timeline"))
    if timeline is not None:
        thread.timeline = timeline


def leave() -> None:
    """Let it go to where it went before the last `enter`."""
    before = thread.before.pop()
    if before is not None:
        thread.timeline = before
    else:
        vars(thread).pop("timeline", None)


@contextlib.contextmanager
def on(timeline: Any) -> Iterator[None]:
    """Let the calling thread's work go to a timeline inside a `with` block."""
    enter(timeline)
    try:
        yield
    finally:
        leave()
