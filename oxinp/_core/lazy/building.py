"""The locks of devices, and building what runs, planning, tracing and compiling, outside of them.

Each device has a lock, held while something is computed there and while the device side of a storage changes. A storage
is guarded by the lock of the device that it lies on, or that it will be computed on; one that is only on the host by
`storage.SIDES`. A thread takes the lock of its own device. Where it finds that something belongs to another one
(`claim`), the attempt ends and is repeated under the locks of all devices, which are always taken in the same order. So
threads on two devices wait for each other only where they share arrays, and never for good.

Where something has to be built is found out under a lock, too. `missing` then ends the attempt: the lock is given up,
what is missing is built, and the attempt is repeated. So a thread whose kernels exist never waits for another thread's
compiler.

Python collects garbage wherever something is allocated, and a user's `__del__` that runs then may use arrays. None runs
while something is built, where it would find modules half imported. One that runs inside of an attempt cannot end it:
what is missing for it is built on the spot.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from oxinp._config import config
from oxinp._runtime import here, hooks, select
from oxinp._runtime.backend import FIRST_LOCK, LOCKS

if TYPE_CHECKING:
    from types import CodeType, FrameType

    from oxinp._core.memory.storage import Storage
    from oxinp._runtime.backend import Backend

Result = TypeVar("Result")


class Missing(Exception):
    """Something has to be built before an attempt can succeed."""

    def __init__(self, build: Callable[[], object]) -> None:
        super().__init__("not built")
        self.build = build


class Elsewhere(Exception):
    """An attempt needs the lock of another device than its thread's."""


class _EveryLock:
    """The locks of all devices as one."""

    __slots__ = ("_taken",)

    def __init__(self) -> None:
        self._taken: list[tuple[Any, ...]] = []  # by the thread that has them

    def __enter__(self) -> None:
        locks = tuple(LOCKS)
        for lock in locks:
            lock.acquire()
        self._taken.append(locks)

    def __exit__(self, *exception: object) -> None:
        for lock in reversed(self._taken.pop()):
            lock.release()

    def _is_owned(self) -> bool:
        return all(lock._is_owned() for lock in LOCKS)


_EVERY_LOCK = _EveryLock()


def own_lock() -> Any:
    """Return the lock of the device that the calling thread's work goes to."""
    if not here.are_several:
        return FIRST_LOCK
    return here.thread.timeline.backend.lock if config.backend in select.ON_GPU else _EVERY_LOCK


def is_locked() -> bool:
    """Whether the calling thread is inside an attempt."""
    return any(lock._is_owned() for lock in LOCKS) if here.are_several else FIRST_LOCK._is_owned()


def missing(build: Callable[[], object]) -> None:
    """Have something built: outside the lock if one is held, for which this raises, else here."""
    if is_locked():
        raise Missing(_for_this_device(build) if here.are_several else build)
    _build(build)


def _build(build: Callable[[], object]) -> None:
    """Build something while no garbage is collected."""
    if not gc.isenabled():
        build()
        return
    gc.disable()
    try:
        build()
    finally:
        gc.enable()


_ATTEMPTS: set[CodeType] = set()
_Function = TypeVar("_Function", bound=Callable[..., Any])


def spells_attempt(function: _Function) -> _Function:
    """Let a function be known that takes the lock as `attempt` does, which it calls where something is missing."""
    _ATTEMPTS.add(function.__code__)
    return function


def is_finaliser(frame: FrameType | None) -> bool:
    """Return whether somebody else's code stands between a frame and the attempt that it is in, but for its own."""
    if frame is not None and frame.f_code in _ATTEMPTS:
        frame = frame.f_back
    while frame is not None and frame.f_code not in _ATTEMPTS:
        if not str(frame.f_globals.get("__name__")).startswith("oxinp."):
            return True
        frame = frame.f_back
    return False


@spells_attempt
def is_part() -> bool:
    """Whether machine code, which asks this, runs as a part of what has taken the lock, and is repeated with it."""
    return FIRST_LOCK._is_owned() and not is_finaliser(sys._getframe(0))


def _complete(build: Callable[[], object]) -> None:
    """Build something inside of an attempt, with what it misses in turn."""
    while True:
        try:
            _build(build)
        except Missing as found:
            _complete(found.build)
        else:
            return


def _for_this_device(build: Callable[[], object]) -> Callable[[], None]:
    """Return what builds for where the calling thread's work goes now, wherever that is when it is called."""
    timeline = here.thread.timeline

    def build_there() -> None:
        with here.on(timeline):
            build()

    return build_there


def claim(storage: Storage) -> None:
    """End the attempt unless the lock is held that guards a storage; where there are several devices only."""
    value = storage.value
    if value is None:
        return
    if value[0].nodes:
        origin = getattr(storage, "origin", None)
        lock = FIRST_LOCK if origin is None else origin.backend.lock
    elif (call := getattr(value[1][0], "call", None)) is not None:  # the result of one that has not run
        lock = getattr(call, "origin", here.thread.timeline).backend.lock
    else:
        backend = value[1][0].backend
        lock = FIRST_LOCK if backend is None else backend.lock
    if not lock._is_owned():
        raise Elsewhere


def claim_device(backend: Backend) -> None:
    """End the attempt unless the lock of a device is held."""
    if not backend.lock._is_owned():
        raise Elsewhere


@spells_attempt
def attempt(body: Callable[..., Result], *args: Any) -> Result:
    """Return ``body(*args)``, run under the lock of the thread's device, or of all where it has to do with several.

    It is run as often as it finds something missing, or somewhere else: what it does before that must do no harm when
    it is done again.
    """
    lock = own_lock() if here.are_several else FIRST_LOCK
    if lock._is_owned():
        while True:
            try:
                return body(*args)  # a part of what has taken the lock, and is repeated with it
            except Missing as found:
                if not is_finaliser(sys._getframe(1)):
                    raise
                build = found.build
            _complete(build)
    if here.are_several and is_locked():
        raise Elsewhere
    while True:
        try:
            with lock:
                return body(*args)
        except Missing as found:
            build = found.build
        except Elsewhere:
            lock = _EVERY_LOCK
            continue
        _build(build)


hooks.attempt = attempt
