"""What calls of ours gave beside those of NumPy or SciPy: exceptions and their words, dtypes, shapes."""

import warnings

import numpy as np

from tests.comparator import outcome


def silent_outcome(function):
    """What a call gives, or the exception that it raises, without warnings."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return outcome(lambda _: function(), None)


def parts(found):
    """The arrays of a result, however they are nested."""
    return [x for part in found for x in parts(part)] if isinstance(found, tuple | list) else [np.asarray(found)]


def assert_alike(found, expected, property_of=None):
    """Compare exceptions and their words, or dtypes and shapes of results, and a property of each array of these."""
    if isinstance(expected, Exception):
        assert type(found) is type(expected)
        assert str(found) == str(expected)
        return
    assert not isinstance(found, Exception), found
    for x, y in zip(parts(found), parts(expected), strict=True):
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        if property_of is not None:
            assert np.array_equal(property_of(x), property_of(y))
