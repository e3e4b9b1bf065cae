"""Plans on a GPU: their launches with every parameter bound, and how long these take."""

import statistics
import sys
from functools import partial

from oxinp._kernels.plan import Copy, Fill, in_order
from tests.kernels.machine import parameters


class Prepared:
    """The steps of a plan, bound to addresses; called, it enqueues them all.

    Parameters
    ----------
    backend : Backend
    plan : Plan
        Without reads.
    outputs, inputs : sequences
        Addresses, or values of inputs that are scalars.

    Attributes
    ----------
    scratch : Buffer or None
        The workspace.
    launches : list of (str, callable)
        Names of kernels, ``"fill"`` or ``"copy"``, and what enqueues each.
    """

    def __init__(self, backend, plan, outputs, inputs):
        self.scratch = backend.allocate(plan.scratch_nbytes) if plan.scratch_nbytes else None
        buffers = {f"out{i}": x for i, x in enumerate(outputs)} | {f"in{i}": x for i, x in enumerate(inputs)}
        buffers["scratch"] = self.scratch.ptr if self.scratch is not None else 0
        steps = list(in_order(plan.steps))
        launches = [step for step in steps if not isinstance(step, Fill | Copy)]
        if any(argument.buffer == "flags" for launch in launches for argument in launch.arguments):
            buffers["flags"] = backend.flags
        self.launches = [self._bound(backend, step, buffers) for step in steps]

    @staticmethod
    def _bound(backend, step, buffers):
        """Return the name of a step, and what enqueues it."""
        if isinstance(step, Fill):
            target = buffers[step.target.buffer] + step.target.offset
            return "fill", partial(backend.fill, target, step.byte, step.nbytes)
        if isinstance(step, Copy):
            ends = (buffers[end.buffer] + end.offset for end in (step.target, step.source))
            return "copy", partial(backend.copy, *ends, step.nbytes)
        values = (*parameters(backend, step, buffers), *step.constants)
        return step.kernel.name, backend.launcher(step.kernel, step.grid, 0, values)

    def __call__(self):
        for _, launch in self.launches:
            launch()


def milliseconds(backend, launch, repetitions=20, at_once=1):
    """Median time of a launch, of several that follow each other if there are to be more `at_once`."""
    for _ in range(3):
        launch()
    times = []
    for _ in range(repetitions):
        begin = backend.record_event()
        for _ in range(at_once):
            launch()
        end = backend.record_event()
        times.append(begin.elapsed_ms(end) / at_once)
    return statistics.median(times)


def write(line):
    """Print at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
