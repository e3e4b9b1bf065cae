"""Products of parametrisations of which few are run each time, and all with --full."""

import itertools

import pytest


def thinned(*values):
    """Return every combination of a value of each list, as parameters.

    All are slow but as many as the longest list has values, among which is each value of each list.
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
