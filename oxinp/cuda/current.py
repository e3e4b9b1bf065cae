"""Current: the backend as this package sees it, and what it does to pending work."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from oxinp import _runtime
from oxinp._config import config
from oxinp._runtime import here, hooks, timeline
from oxinp._runtime.forking import free_in_children

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from oxinp._runtime.cuda import CudaBackend

__all__ = ["address_of", "cuda_backend", "find_line", "flush", "queue", "user_line", "wrapped"]

_OURS = os.path.dirname(os.path.dirname(__file__))  # noqa: PTH120 - compared with the names that frames have
_NUMPYS = os.path.dirname(np.__file__)  # noqa: PTH120
_SCIPYS = os.path.join(os.path.dirname(_NUMPYS), "scipy")  # noqa: PTH118, PTH120 - which need not be imported
_LIBRARIES = (*(folder + os.sep for folder in (_OURS, _NUMPYS, _SCIPYS)), "<frozen ")


_wrapping = free_in_children(threading.Lock())


def cuda_backend() -> CudaBackend | None:
    """Return the backend in use if it is a GPU; elsewhere work is done as soon as it is asked for."""
    backend = _runtime.current()
    return cast("CudaBackend", backend) if backend is not None and backend.name == "cuda" else None


def flush() -> None:
    """Launch everything that is pending on the current device, without waiting for it."""
    for hook in tuple(hooks.before_leaving_stream):
        hook()


def address_of(value: Any, *, is_kept: bool = False) -> hooks.DeviceAddress | None:
    """Return where an array's elements are in device memory, None for what is no array.

    Parameters
    ----------
    value : object
        An array of ours, or of others that have `__cuda_array_interface__`.
    is_kept : bool
        The memory has to stay the array's own for good.
    """
    for ask in hooks.addresses:
        found = ask(value, is_kept)
        if found is not None:
            return found
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is None:
        return None
    shape, strides = interface["shape"], interface.get("strides")
    nbytes = int(interface["typestr"][2:])
    dense, size = [], nbytes
    for extent in reversed(shape):
        dense.insert(0, size)
        size *= extent
    return hooks.DeviceAddress(interface["data"][0], size, strides is None or tuple(strides) == tuple(dense), value)


def queue(
    backend: Any, stream: int | None, find: Callable[[], tuple[Iterable[tuple[int, bool]], Callable[[], object]]]
) -> None:
    """Queue what uses memory of arrays, behind what it must not overtake, wherever that was queued.

    Parameters
    ----------
    backend : Backend
    stream : int or None
        Handle of the stream that is queued on; None for the current one.
    find : Callable
        Asks `address_of` where arrays are, and returns the addresses that are used, whether they are written to, and
        what queues; no other thread moves or writes to arrays between. It may be called more than once.
    """
    if stream is not None and backend.name == "cuda":
        timeline.separate(backend)  # which takes locks that come before those of an attempt

    def attempt() -> None:
        accesses, launch = find()
        _queue(backend, stream, tuple(accesses), launch)

    hooks.attempt(attempt)


def _queue(
    backend: Any, stream: int | None, accesses: tuple[tuple[int, bool], ...], launch: Callable[[], object]
) -> None:
    if backend.name != "cuda":
        launch()
        return
    with backend.turn:  # a launcher is called by one thread at a time
        if not here.are_several:
            launch()
            return
    line = timeline.current(backend) if stream is None else backend.timeline(stream)

    def launch_in_order() -> None:
        line.order(accesses)
        launch()

    timeline.in_turn(backend, launch_in_order)


@contextlib.contextmanager
def wrapped(backend: Any, methods: dict[str, Any]) -> Iterator[None]:
    """Put other methods in the place of a backend's; programs take them anew at the beginning and at the end.

    Raises
    ------
    RuntimeError
        Somebody has done so already.
    """
    for method in methods.values():
        method.is_wrapped = True
    with _wrapping:
        replaced = {name: vars(backend)[name] for name in methods if name in vars(backend)}
        if any(hasattr(value, "is_wrapped") for value in replaced.values()):
            raise RuntimeError("another profile, trace or leak detector is open: end it first")
        vars(backend).update(methods)
    config.renew()
    try:
        yield
    finally:
        with _wrapping:
            vars(backend).update(replaced)  # first: other threads find one or the other
            for name in methods.keys() - replaced.keys():
                del vars(backend)[name]
        if here.are_several and backend.name == "cuda":
            backend.tell_apart()
        config.renew()


find_line: Callable[[], str] | None = None
"""What knows better where work comes from than the stack; the runner does."""


def user_line() -> str:
    """Return the innermost line that is none of oxinp's, NumPy's or SciPy's, "file:line"."""
    if find_line is not None:
        return find_line()
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_LIBRARIES):
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
