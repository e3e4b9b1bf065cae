"""Products that take several launches and have a guard: their plans made for the emulator, with memory."""

import numpy as np
import pytest

from oxinp._kernels.gemm.multistage import kernel as multistage
from oxinp._kernels.gemm.multistage.spec import MultistageSpec
from oxinp._kernels.gemm.operand import Source
from oxinp._ptx.types import from_dtype
from tests.kernels.machine import execute

H200_SHARED_NBYTES = 227 * 1024


class GuardedPlan:
    """A plan, its operands stored as wanted, and its launches: those for tensor cores are `multiply`'s.

    Parameters
    ----------
    here : machine
        An emulator.
    a, b : ndarray
    majors : (str, str)
        The contiguous axes.
    alignment : int
        Of the pointers. Rows have elements between them that are not used, but for one of 256.
    """

    def __init__(self, here, a, b, majors, alignment):
        self.here, self.dtype = here, a.dtype
        (m, depth), n = a.shape, b.shape[1]
        self.shape, extra = (m, n), int(alignment < 256)
        stored = [x if major == wanted else x.T for x, major, wanted in zip((a, b), majors, ("k", "mn"), strict=True)]
        stored = [np.pad(x, ((0, 0), (0, extra)), constant_values=np.nan) for x in stored]
        type_ = from_dtype(a.dtype)
        self.sources = [
            Source(buffer, type_, major, len(x), x.shape[1] - extra, x.shape[1], 0, 1, alignment)
            for buffer, major, x in zip(("in0", "in1"), majors, stored, strict=True)
        ]
        spec = MultistageSpec(type_, type_, type_, *majors, 0, 0, "fma", 32, 32, 8, 16, 16, 3, is_guarded=True)
        fallback = multistage.plan(spec, (m, n, depth), (n, *[source.pitch for source in self.sources]))
        self.plan = self.planned(fallback)
        self.buffers = {"out0": here.upload(np.full((m, n), np.nan, a.dtype))}
        self.buffers["scratch"] = here.allocate(self.plan.scratch_nbytes)
        self.buffers |= {f"in{i}": here.upload(np.ascontiguousarray(x)) for i, x in enumerate(stored)}

    def planned(self, fallback):
        """The plan, whose last launch is the fallback."""
        raise NotImplementedError

    def multiply(self, step):
        """Do what a launch for tensor cores does, or leave it."""

    def run(self):
        """Launch everything."""
        out, scratch, *inputs = self.buffers.values()
        execute(self.here, self.plan, [out], inputs, scratch, self.multiply)

    def read(self, argument, dtype, shape):
        """An array where an argument points to."""
        nbytes = np.dtype(dtype).itemsize * int(np.prod(shape))
        return self.here.download(self.buffers[argument.buffer] + argument.offset, nbytes).view(dtype).reshape(shape)

    @property
    def is_unfit(self):
        """Whether the guard has the fallback compute the product."""
        return bool(self.read(self.plan.steps[-1].arguments[-1], np.uint32, ()))

    def check_guard(self, name, fit, unfit):
        """Hold the guard's opinion of a case against what it has to be."""
        assert not (self.is_unfit and name in fit)
        assert self.is_unfit or name not in unfit

    @property
    def result(self):
        """What C is now."""
        return self.read(self.plan.steps[-1].arguments[0], self.dtype, self.shape)

    def close(self):
        """Free the memory."""
        for address in self.buffers.values():
            self.here.free(address)


def fixture_of(plan):
    """A fixture that makes plans of a class, and closes them."""

    @pytest.fixture
    def planned():
        plans = []

        def make(*arguments):
            plans.append(plan(*arguments))
            return plans[-1]

        yield make
        for each in plans:
            each.close()

    return planned
