"""What NumPy refuses is refused when it does, with its exceptions and in its words, wherever the arrays are."""

# ruff: noqa: ICN001 - oxinp is np in the calls

import re

import numpy
import pytest
import scipy

import oxinp
from tests.api.refused_calls import CALLS

NEEDS = {"same_value": "2.4", "out=...": "2.3"}
"""Since which version of NumPy's there is what a call has in it."""


def outcome(np, code):
    """Return the type and text of the exception that a call raises, or what it gives, or leaves in its arrays."""
    names = {
        "np": np,
        "sp": scipy if np is numpy else oxinp.scipy,
        "a": np.arange(6.0).reshape(2, 3),
        "v": np.arange(3.0),
        "z": np.array(2.0),
        "i": np.arange(3),
        "b": np.array([True, False, True]),
    }
    try:
        with numpy.errstate(all="ignore"):
            try:
                given = eval(code, names)  # noqa: S307 - our own code
            except SyntaxError:
                exec(code, names)  # noqa: S102
                given = [names[name] for name in "avzib"]
    except Exception as error:  # noqa: BLE001 - the exception is the outcome
        return type(error).__name__, re.sub(r"0x[0-9a-f]+", "0x", str(error))
    return [_described(x) for x in (given if isinstance(given, list | tuple) else [given])]


def _described(value):
    array = numpy.asarray(value)
    return repr(array.tolist()), array.dtype, array.shape, isinstance(value, oxinp.ndarray)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("threshold", [0, 65536])
@pytest.mark.parametrize("code", CALLS)
def test_as_numpy_does(code, threshold, config):
    since = next((version for part, version in NEEDS.items() if part in code), None)
    if since is not None and numpy.lib.NumpyVersion(numpy.__version__) < f"{since}.0":
        pytest.skip(f"NumPy has this since {since}")
    config.offload_threshold = threshold
    assert outcome(oxinp, code) == outcome(numpy, code)
