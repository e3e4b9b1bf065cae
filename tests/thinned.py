"""Tests with many cases, of which a part is run each time, and all with --full."""

import itertools
import zlib
from collections import defaultdict

import pytest

MANY = 4
"""Cases of a test from which on a part of them is run."""


def a_share(items, share):
    """Return the items that are run where one is of so many cases of a test: whichever, but the same ones every time.

    Of tests with fewer than `MANY` cases, all.
    """
    cases = defaultdict(list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)
    kept = set()
    for found in cases.values():
        found.sort(key=lambda item: zlib.crc32(item.nodeid.encode()))
        kept.update(found if len(found) < MANY else found[: -(-len(found) // share)])
    return [item for item in items if item in kept]


def thinned(*values):
    """Return every combination of a value of each list, as parameters.

    All are slow but as many as the longest list has values, among which is each value of each list. Of these the whole
    suite runs a share on the emulator, as of other cases.
    """
    quick = {
        tuple((i + i // len(each) * place) % len(each) for place, each in enumerate(values))
        for i in range(max(map(len, values)))
    }
    return [
        pytest.param(*(value for _, value in combination), marks=() if places in quick else pytest.mark.slow)
        for combination in itertools.product(*map(enumerate, values))
        for places in [tuple(place for place, _ in combination)]
    ]
