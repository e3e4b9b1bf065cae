"""Draws at full size on the device beside NumPy's on the host, as a program: numbers and end states, of every kind.

``python -m tests.random.full_size [--numbers N] [--only REGEX] [--threads T]`` draws N numbers (10**8 unless given) of
each kind in whose name REGEX is found, while T threads (12 unless given) draw as many of NumPy's, and prints how many
differ and by how many units in the last place at most, and whether the generators are in the same state. Ends with
status 1 where numbers or states differ.
"""

import argparse
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

import oxinp

SEED = 20_26
PIECE = 1 << 22  # elements that are compared at a time
BOUNDS = np.random.default_rng(SEED).integers(2, 5000, 10**8 // 8)


class Kind(NamedTuple):
    """A draw: who draws, and what."""

    generator: str
    draw: object


def _kinds(generator, **draws):
    return {f"{generator} {name}": Kind(generator, draw) for name, draw in draws.items()}


KINDS = {
    **_kinds(
        "PCG64",
        normal=lambda g, n: g.standard_normal(n),
        normal_f32=lambda g, n: g.standard_normal(n, "f4"),
        exponential=lambda g, n: g.standard_exponential(n),
        exponential_f32=lambda g, n: g.standard_exponential(n, "f4"),
        uniform=lambda g, n: g.random(n),
        uniform_f32=lambda g, n: g.random(n, "f4"),
        integers_u1=lambda g, n: g.integers(0, 200, n, "u1"),
        integers_u2=lambda g, n: g.integers(0, 40_000, n, "u2"),
        integers_i4=lambda g, n: g.integers(-1000, 1000, n, "i4"),
        integers_i8_of_halves=lambda g, n: g.integers(0, 5 * 2**29 + 1, n),
        integers_u8=lambda g, n: g.integers(0, 3 * 2**62, n, "u8"),
        words=lambda g, n: g.integers(0, 2**64 - 1, n, "u8", endpoint=True),
        normal_of_parameters=lambda g, n: g.normal(3.0, 0.5, n),
        lognormal=lambda g, n: g.lognormal(0.5, 0.75, n),
        gumbel=lambda g, n: g.gumbel(size=n),
        logistic=lambda g, n: g.logistic(size=n),
        laplace=lambda g, n: g.laplace(size=n),
        rayleigh=lambda g, n: g.rayleigh(2.0, n),
        triangular=lambda g, n: g.triangular(-1, 0.5, 2, n),
        cauchy=lambda g, n: g.standard_cauchy(n // 2),
        inverted=lambda g, n: g.standard_exponential(n, method="inv"),
        pareto=lambda g, n: g.pareto(3.0, n),
        weibull=lambda g, n: g.weibull(1.5, n),
        power=lambda g, n: g.power(2.5, n),
        integers_between=lambda g, n: g.integers(0, BOUNDS[: n // 8]),
        choice=lambda g, n: g.choice(1000, n // 4),
        permutation=lambda g, n: g.permutation(n // 8),
    ),
    **_kinds(
        "PCG64DXSM",
        normal=lambda g, n: g.standard_normal(n),
        exponential_f32=lambda g, n: g.standard_exponential(n, "f4"),
        integers_u2=lambda g, n: g.integers(0, 40_000, n, "u2"),
    ),
    **_kinds(
        "Philox",
        uniform=lambda g, n: g.random(n),
        uniform_f32=lambda g, n: g.random(n, "f4"),
        normal=lambda g, n: g.standard_normal(n),
        exponential_f32=lambda g, n: g.standard_exponential(n, "f4"),
        integers_u1=lambda g, n: g.integers(0, 200, n, "u1"),
    ),
    **_kinds(
        "MT19937",
        uniform=lambda g, n: g.random(n),
        normal=lambda g, n: g.standard_normal(n),
        exponential_f32=lambda g, n: g.standard_exponential(n, "f4"),
        integers_i4=lambda g, n: g.integers(-1000, 1000, n, "i4"),
        integers_u8=lambda g, n: g.integers(0, 3 * 2**62, n, "u8"),
        logistic=lambda g, n: g.logistic(size=n),
    ),
    **_kinds(
        "RandomState",
        rand=lambda g, n: g.rand(n),
        randn=lambda g, n: g.randn(n - 1),
        randint=lambda g, n: g.randint(0, 1000, n),
        exponential=lambda g, n: g.exponential(2.5, n),
        gumbel=lambda g, n: g.gumbel(size=n),
        pareto=lambda g, n: g.pareto(3.0, n),
        weibull=lambda g, n: g.weibull(1.5, n),
    ),
}


def generator(xp, kind):
    """Return a generator, with half a word left over or a normal."""
    if kind.generator == "RandomState":
        made = xp.random.RandomState(SEED)
        made.randn(3)
    else:
        made = xp.random.Generator(getattr(np.random, kind.generator)(SEED))
        made.random(dtype="f4")
    return made


def state(made):
    """What a generator's state says, as a list that compares."""
    held = made.get_state(legacy=False) if isinstance(made, np.random.RandomState) else made.bit_generator.state
    if held.get("has_uint32") == 0:
        held["uinteger"] = 0  # whatever was left before
    return _flat(held)


def _flat(held):
    return [x.tolist() if isinstance(x, np.ndarray) else _flat(x) if isinstance(x, dict) else x for x in held.values()]


def numpys(kind, count):
    """Return what NumPy draws, the state after it, and the seconds it took."""
    made, begin = generator(np, kind), time.perf_counter()
    drawn = kind.draw(made, count)
    return drawn, state(made), time.perf_counter() - begin


def compared(ours, others):
    """Return how many numbers differ and by how many units in the last place at most."""
    count, ulps = 0, 0.0
    for start in range(0, ours.size, PIECE):
        a, b = ours[start : start + PIECE], others[start : start + PIECE]
        at = np.flatnonzero(a != b)
        count += at.size
        if at.size:
            a, b = a[at], b[at]
            distance = np.abs(a - b) / np.spacing(np.abs(b)) if a.dtype.kind == "f" else np.inf
            ulps = max(ulps, float(np.max(distance)))
    return count, ulps


def main(arguments):
    """Draw, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--numbers", type=int, default=10**8, help="of each kind")
    parser.add_argument("--only", default="", help="kinds in whose names this is found")
    parser.add_argument("--threads", type=int, default=12, help="that draw NumPy's numbers")
    options = parser.parse_args(arguments)
    chosen = {name: kind for name, kind in KINDS.items() if re.search(options.only, name)}
    is_right = True
    with ThreadPoolExecutor(options.threads) as pool:
        others = {name: pool.submit(numpys, kind, options.numbers) for name, kind in chosen.items()}
        for name, kind in chosen.items():
            made, before = generator(oxinp, kind), oxinp.cuda.stats().launches
            drawn = kind.draw(made, options.numbers)
            after, ours = state(made), oxinp.asnumpy(drawn)
            launches = oxinp.cuda.stats().launches - before
            theirs, expected, seconds = others.pop(name).result()
            count, ulps = compared(ours, theirs)
            is_alike = ours.dtype == theirs.dtype and after == expected
            is_right &= is_alike and count == 0 and launches > 0
            sys.stdout.write(
                f"{name:32s} {count} of {ours.size} differ, by {ulps:g} ulp; state {'right' if is_alike else 'WRONG'}; "
                f"{launches} launches; NumPy {seconds:.2f} s\n"
            )
            sys.stdout.flush()
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
