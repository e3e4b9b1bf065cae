"""What a benchmark case is: inputs, one body that every side runs, how it is timed, what it must reach.

Three kinds cover everything: `DeviceCase` (device time per call, by events), `HostCase` (host time per iteration, in
bursts) and `ValueCase` (anything else: one number per round). asv runs them through `track_oxinp`; `compare` runs the
same classes on several sides, a round of each in turn, so that clocks that drift drift for all.
"""

import abc
import dataclasses
import functools
import math
import statistics
import time

import numpy as np

from asv_benchmarks import sides

# Inputs of a device case are rotated until together they are well beyond any L2 (60 MB on an H200).
ROTATED_NBYTES = 256 << 20
MAX_ROTATED = 64
# A device batch lasts at least this long, so that the events' resolution (0.5 us) and first-call effects vanish.
BATCH_SECONDS = 3e-3
MAX_BATCH = 100


@dataclasses.dataclass(frozen=True)
class Measurement:
    """One round: the case's value, and per call the host time and the number of kernel launches."""

    value: float
    host_us: float | None = None
    launches: float | None = None


def median(measurements):
    """Return the field-wise median of several rounds."""

    def of(name):
        values = [getattr(m, name) for m in measurements if getattr(m, name) is not None]
        return statistics.median(values) if values else None

    return Measurement(of("value"), of("host_us"), of("launches"))


@functools.lru_cache(maxsize=9)
def random_array(shape, dtype, seed=0):
    """Return uniform random values in [0.5, 1.5): so that long chains neither overflow nor vanish."""
    values = np.random.default_rng(seed).random(shape, dtype=dtype)
    values += np.dtype(dtype).type(0.5)
    return values


class Case(abc.ABC):
    """One benchmark, for every combination of its `params`."""

    params = ()
    quick_params = None
    param_names = ()
    unit = "ms"
    rounds = 9
    peers = ("cupy", "torch", "jax")
    is_of_device = True  # what it measures means something on a device only
    # asv: the rounds are ours, one call is enough.
    timeout = 600

    def setup(self, *params):
        """Tell asv to skip the case where there is no device: host times are no device times."""
        del params
        if self.is_of_device and sides.load("oxinp").backend != "cuda":
            raise NotImplementedError

    @abc.abstractmethod
    def prepare(self, side, *params):
        """Set one side up, warm. Return the function that measures one round."""

    def verify(self, side, *params):
        """Assert that a side computes what NumPy does, where a case says how; nothing by default."""
        del side, params

    def requirements(self, *params):
        """Return what oxinp must reach on the H200 (`requirement.Requirement`); nothing by default."""
        del params
        return ()

    def nbytes_moved(self, *params):
        """Return the bytes that any implementation must move through device memory, None where that is no limit."""
        del params

    def track_oxinp(self, *params):
        """Measure oxinp alone; this is what asv calls."""
        side = sides.load("oxinp")
        with side.measuring():
            measure = self.prepare(side, *params)
            value = median([measure() for _ in range(self.rounds)]).value
        side.release()
        return value


class DeviceCase(Case):
    """Device time per call, from the side's own events around a batch of calls, and the host time to enqueue one."""

    @abc.abstractmethod
    def inputs(self, *params):
        """Return the NumPy arrays that the body takes."""

    @abc.abstractmethod
    def body(self, xp, arrays, *params):
        """Run one call on a side's arrays and return the array it made or wrote."""

    def verify(self, side, *params):
        """Assert that a side computes what NumPy does; sums may differ by their order."""
        hosts = self.inputs(*params)
        ours = side.to_host(self.body(side.xp, [side.asarray(host) for host in hosts], *params))
        # NumPy works on copies: a body may write into its inputs.
        numpys = self.body(np, [host.copy() for host in hosts], *params)
        np.testing.assert_allclose(ours, numpys, rtol=1e-5)

    def prepare(self, side, *params):
        hosts = self.inputs(*params)
        nbytes = sum(host.nbytes for host in hosts)
        count = max(1, min(MAX_ROTATED, math.ceil(ROTATED_NBYTES / nbytes))) if side.backend == "cuda" else 1
        rotation = [[side.asarray(host) for host in hosts] for _ in range(count)]

        body = side.compiled(lambda arrays: self.body(side.xp, arrays, *params))

        def call(i):
            result = body(rotation[i % count])
            if side.materialise is not None:
                side.materialise(result)
            return result

        def batch(num_calls):
            side.synchronize()
            launches = side.launches()
            start = side.record()
            began = time.perf_counter()
            for i in range(num_calls):
                call(i)
            enqueued = time.perf_counter() - began
            stop = side.record()
            side.synchronize()
            return Measurement(
                side.elapsed_ms(start, stop) / num_calls,
                1e6 * enqueued / num_calls,
                None if launches is None else (side.launches() - launches) / num_calls,
            )

        batch(2)  # compiles
        warm = batch(2 if side.backend != "cuda" else max(3, count))
        num_calls = max(1, min(MAX_BATCH, math.ceil(1e3 * BATCH_SECONDS / max(warm.value, 1e-6))))
        if side.backend != "cuda":
            num_calls = min(num_calls, 3)
        return functools.partial(batch, num_calls)


class HostCase(Case):
    """Host time per iteration, in microseconds: the median over bursts that each begin after a synchronisation."""

    unit = "us"
    rounds = 15
    burst = 500
    quick_burst = 5

    @abc.abstractmethod
    def iteration(self, side, *params):
        """Return the function of no arguments that runs one iteration, materialised."""

    def launches_per_iteration(self, *params):
        """Return the launches that one iteration must make on a device, None where that is not fixed."""
        del params

    def prepare(self, side, *params):
        run = self.iteration(side, *params)
        burst = self.burst if side.backend == "cuda" or side.name == "numpy" else self.quick_burst
        expected = self.launches_per_iteration(*params)

        def measure():
            side.synchronize()
            launches = side.launches()
            began = time.perf_counter()
            for _ in range(burst):
                run()
            elapsed = time.perf_counter() - began
            per_iteration = None if launches is None else (side.launches() - launches) / burst
            if expected is not None and per_iteration is not None:
                # A burst that deferred or dropped work would be fast and mean nothing.
                assert per_iteration == expected, f"{per_iteration} launches per iteration, not {expected}"
            side.synchronize()
            return Measurement(1e6 * elapsed / burst, 1e6 * elapsed / burst, per_iteration)

        measure()  # compiles
        return measure


class ValueCase(Case):
    """One number per round, measured by the case itself; smaller is better, as everywhere here."""

    rounds = 5
    clock = staticmethod(time.perf_counter)

    @abc.abstractmethod
    def measure(self, side, *params):
        """Return one round's value."""

    def prepare(self, side, *params):
        def measure():
            return Measurement(self.measure(side, *params))

        measure()
        return measure
