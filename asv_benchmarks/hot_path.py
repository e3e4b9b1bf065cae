"""The hot path: what recording and launching a short chain of operations costs the host.

Chains of 1, 2, 4 and 8 operations on arrays of 128 KB, large enough to live on the device and small enough that the
kernel (about 2 us) hides behind the host. Every iteration materialises its chain, and the launches are counted.
"""

import numpy as np

from asv_benchmarks import requirement
from asv_benchmarks.case import HostCase, random_array

NUM_ELEMENTS = 32768


def chain_1(a, b):
    return a + b


def chain_2(a, b, c):
    return (a + b) * c


def chain_4(a, b, c, d, e):
    return ((a + b) * c + d) * e


def chain_8(a, b, c, d, e, f, g, h, i):
    return ((((a + b) * c + d) * e + f) * g + h) * i


# Operations in the chain: the chain, and the host time an iteration may take on the H200, in microseconds.
CHAINS = {1: (chain_1, 5.5), 2: (chain_2, 6.5), 4: (chain_4, 8.5), 8: (chain_8, 12.0)}


class Chain(HostCase):
    """Host time per materialised chain, with placement, pool, locks and stream checks in."""

    params = (tuple(CHAINS),)
    param_names = ("operations",)

    def iteration(self, side, operations):
        chain, _ = CHAINS[operations]
        side.place_by_size()  # one operation of this size may be learned to be the host's
        hosts = [random_array(NUM_ELEMENTS, "float32", seed) for seed in range(operations + 1)]
        leaves = [side.asarray(host) for host in hosts]
        assert np.array_equal(side.to_host(chain(*leaves)), chain(*hosts))
        chain = side.compiled(chain)
        materialise = side.materialise
        if materialise is None:
            return lambda: chain(*leaves)
        return lambda: materialise(chain(*leaves))

    def launches_per_iteration(self, operations):
        del operations
        return 1

    def requirements(self, operations):
        return (requirement.at_most(CHAINS[operations][1], "us"), requirement.launches(1))
