"""Where the largest element of a line is: its launch is kept for each length, and gives what its plan does."""

import numpy  # noqa: ICN001
import pytest

import oxinp as np
from oxinp._kernels.reduce.plan import Reduction

pytestmark = pytest.mark.usefixtures("on_device", "unwatched")
N = 90


@pytest.fixture
def planned(monkeypatch):
    """Count what takes more than a look-up."""
    counts = []
    before = Reduction._planned
    monkeypatch.setattr(Reduction, "_planned", lambda self, *given: counts.append(given) or before(self, *given))
    return counts


PLACES = {
    "column": lambda n, a, k: n.argmax(n.abs(a[k:, k])),
    "row": lambda n, a, k: n.argmin(a[k, k:]),
    "backwards": lambda n, a, k: n.argmax(a[k, ::-1][: N - k]),
    "two": lambda n, a, k: n.argmax(a[k:, k] - a[k, k:]),
    "kept": lambda n, a, k: n.argmax(a[k:, 0], axis=0, keepdims=True)[0],
    "equal": lambda n, a, k: n.argmax((a[k:, k] * 3).astype(int)),
    "nan": lambda n, a, k: n.argmax(n.sqrt(a[k:, k] - 0.5)),
    "flat": lambda n, a, k: n.argmax(a[k:]),
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_places_are_found_again_by_a_look_up(place, planned):
    given = numpy.random.default_rng(8).random((N, N))
    a = np.array(given) + 0.0
    np.evaluate(a)
    with numpy.errstate(invalid="ignore"), np.errstate(invalid="ignore"):
        wanted = [int(place(numpy, given, k)) for k in range(N - 2)]
        for turn in range(4):
            planned.clear()
            assert [int(place(np, a, k)) for k in range(N - 2)] == wanted
            assert turn < 2 or not planned or place is PLACES["flat"]


def test_places_in_other_settings_and_tables_that_are_full(planned, monkeypatch, config):
    monkeypatch.setattr("oxinp._kernels.reduce.known.MAX_KEPT", 4)
    given = numpy.random.default_rng(9).random((N, N))
    a = np.array(given) + 0.0
    wanted = [int(numpy.argmax(given[k:, k] * 0.5)) for k in range(20)]
    for _ in range(3):
        assert [int(np.argmax(a[k:, k] * 0.5)) for k in range(20)] == wanted
        config.renew()
    assert planned
