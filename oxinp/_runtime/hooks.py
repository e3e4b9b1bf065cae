"""What the layers above want done at certain moments; they append, this layer calls.

The lists are read each time, in order. A callable takes no argument and its result is ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

__all__ = [
    "addresses",
    "after_waiting",
    "attempt",
    "before_capture",
    "before_fork",
    "before_growth",
    "before_leaving",
    "before_leaving_stream",
    "before_out_of_memory",
    "before_synchronize",
    "in_forked_child",
    "on_host",
    "telling_of_work",
    "to_evict",
    "when_several",
    "while_starting",
]

addresses: list[Callable[[Any, bool], DeviceAddress | None]] = []
"""Asked for where an array's elements are in device memory, for kernels that are not ours to use them.

A callable takes an object, and whether the memory has to stay the array's own for good; it returns None for what it
does not know. Small arrays are moved to the device, pending ones computed.
"""


class DeviceAddress(NamedTuple):
    """Where the elements of an array are.

    Attributes
    ----------
    ptr : int
    nbytes : int
        Bytes from the first element to the end of the last.
    is_contiguous : bool
        They follow each other in C order.
    owner : object
        What keeps the memory.
    """

    ptr: int
    nbytes: int
    is_contiguous: bool
    owner: Any


def _call(body: Callable[[], object]) -> object:
    return body()


attempt: Callable[[Callable[[], object]], object] = _call
"""Not a list: the one function that the layer above puts in its place.

It is called with what asks `addresses` and queues what uses them, and calls that while no other thread moves or writes
to arrays of the device; again where that is found to be too little, so that all before the last step does no harm when
it is done again.
"""

while_starting: list[Callable[[], object]] = []
"""Called while the driver starts, which takes it longer: to import what the first kernel is going to need."""

before_synchronize: list[Callable[[], object]] = []
"""Called before a backend waits for the device: pending work is launched here."""

before_leaving_stream: list[Callable[[], object]] = []
"""Called before the calling thread's work goes to another stream, or something is queued behind what it has asked for:
what is pending on its device is launched here.
"""

after_waiting: list[Callable[[], object]] = []
"""Called after a backend has waited for the device: what kernels have reported is raised here.

What the host was to be given has arrived by then.
"""

before_capture: list[Callable[[], object]] = []
"""Called before a graph is captured, in which nothing can be copied to the device: what was on it and has been on the
host since is brought up to date here.
"""

before_growth: list[Callable[[int], object]] = []
"""Called with the number of bytes that no array uses, before a pool takes more memory while arrays use much: pending
work that keeps more than `config.pending_share` of these and its own is launched here. None is called from inside one.
"""

before_out_of_memory: list[Callable[[], object]] = []
"""Called before a failed allocation is given up: pending work that holds on to memory is launched here.

No lock of this layer is held. A callable that needs memory itself and does not get it may let the MemoryError pass: the
next one is called, and none is called again from inside.
"""

before_leaving: list[Callable[[], object]] = []
"""Called before another backend, or the host, takes the place of the one in use: arrays leave it here.

What one raises is raised by the assignment to `config.backend`, which changes nothing then.
"""

to_evict: list[Callable[[Any, int], int]] = []
"""Called with a backend and a number of bytes when none of its memory is left, caches and garbage given back: arrays
make room for so much. Each returns how much it has made free; they are called again until that is enough, or nothing.
"""

before_fork: list[Callable[[], object]] = []
"""Called before the process forks: what a child needs and could not read from the device is read here. None raises."""

in_forked_child: list[Callable[[], object]] = []
"""Called in a child that has just been forked, once no lock is held there."""

on_host: list[Callable[[str], object]] = []
"""Called once with the reason where `config.backend` is "auto" and the GPU that was looked for cannot be used."""

telling_of_work: list[Callable[[Callable[[str], object]], AbstractContextManager[object]]] = []
"""Called with whom to tell what the device was given to do: each returns a block in which that is told, after the
launches of each operation or chain, in the thread that made them.
"""

when_several: list[Callable[[], object]] = []
"""Called once, when there is a second stream or device for work to go to."""
