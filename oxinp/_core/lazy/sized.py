"""Plans that read how much they have found, of sizes that may never come again: they are run without being compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp._core.lazy import executor
from oxinp._core.lazy.placement import device
from oxinp._kernels.plan import Read
from oxinp._runtime import here

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from oxinp._kernels.plan import Plan
    from oxinp._runtime.memory import Buffer


def run_sized_once(
    plan: Plan, leaves: tuple[Any, ...], sizes_of: Callable[[tuple[int, ...]], Sequence[int]]
) -> tuple[list[Buffer], tuple[int, ...]] | None:
    """Run a plan that reads a word, and may never run again, as `Executable.run_sized` does.

    None where an `Executable` is needed: see `run_once`; or where outputs have no bounds.
    """
    *steps, read = plan.steps
    if plan.bounded is None or plan.then is None or type(read) is not Read or here.are_several:
        return None
    following, bounds = plan.bounded
    launches, rest = executor.ready(steps), executor.ready(following.steps)
    if launches is None or rest is None:
        return None
    backend = device()
    scratch = backend.allocate(plan.scratch_nbytes)  # held while the steps are queued
    values: dict[str, Any] = {"scratch": scratch.ptr}
    for name, entry in zip(executor.INPUT_NAMES, leaves, strict=False):
        values[name] = getattr(entry, "ptr", entry)
    executor.run_ready(steps, launches, values)
    made: list[Buffer] = []

    def follow(sizes: Sequence[int]) -> None:
        for name, nbytes in zip(executor.OUTPUT_NAMES, sizes, strict=False):
            buffer = backend.allocate(nbytes)
            made.append(buffer)
            values[name] = buffer.ptr
        executor.run_ready(following.steps, rest, values)

    is_early = sum(bounds) >= executor.MIN_BOUNDED and backend.pool.has_room(sum(bounds))
    if is_early:
        try:
            with backend.pool.keeping_arrays:
                follow(bounds)
        except MemoryError:  # others have taken the room
            made.clear()
            is_early = False
    found = np.empty(read.count, np.int64)
    backend.download(found, values[read.source.buffer] + read.source.offset)
    words = tuple(found.tolist())
    sizes = sizes_of(words)
    if not is_early:
        if plan.then(words).steps:
            follow(sizes)
        else:
            made += [backend.allocate(nbytes) for nbytes in sizes]
        return made, words
    for buffer, nbytes in zip(made, sizes, strict=True):
        backend.pool.shrink(buffer, nbytes)
    return made, words
