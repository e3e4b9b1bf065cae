"""Windows: what is read of one is what lies there, and all that lies there is found."""

import numpy as np
import pytest

from oxinp._core.lazy import windows
from oxinp._core.memory.layout import Layout

ELEMENTS = np.random.default_rng(3).random((40, 30))
NBYTES = ELEMENTS.nbytes
VIEWS = {
    "all": lambda x: x,
    "transposed": lambda x: x.T,
    "a part": lambda x: x[1::2, 3:],
    "backwards": lambda x: x[::-1, ::-2],
    "a column": lambda x: x[:, 4],
    "a vector": lambda x: x.ravel(),
    "a cube": lambda x: x.reshape(8, 5, 30),
    "another dtype": lambda x: x.view("f4"),
}


def windowed(low, step, width):
    """Return a window of elements of `ELEMENTS`, `width` bytes at every `step` from `low` on."""
    flat = ELEMENTS.ravel().view(np.uint8)
    found = windows.Windowed((None, (), 0))
    found.low, found.step, found.width = low, step, width
    starts = [low] if step == width else range(low, NBYTES - width + 1, step)
    found.elements = np.concatenate([flat[start : start + width] for start in starts])
    found.reader = windows._Reader(0)
    found.seen = None, found.elements, 0, 1
    return found, {start + i for start in starts for i in range(width)}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("window", [(480, 2400, 2400), (0, 248, 8), (32, 240, 8), (16, 480, 16)], ids=str)
def test_elements_of_a_window(window, view):
    seen = view(ELEMENTS)
    offset = seen.__array_interface__["data"][0] - ELEMENTS.__array_interface__["data"][0]
    layout = Layout.at(seen.dtype, seen.shape, seen.strides, offset)
    found, inside = windowed(*window)
    assert windows.element_at(found, layout, (0,) * seen.ndim) is None  # of an array that has not been met
    found.seen = windows._seen(found, layout)
    is_looked_up = found.seen[0] is layout
    assert is_looked_up or window[2] not in (seen.itemsize, window[1])
    for place in np.ndindex(seen.shape):
        start = offset + sum(i * stride for i, stride in zip(place, seen.strides, strict=True))
        element = windows.element_at(found, layout, place)
        assert (element is not None) == (is_looked_up and {start, start + seen.itemsize - 1} <= inside)
        assert element is None or element.tobytes() == seen[place].tobytes()
    for wrong in (-1, seen.shape[-1], True, np.int64(1), slice(None)):
        assert windows.element_at(found, layout, (*[0] * (seen.ndim - 1), wrong)) is None
    assert windows.element_at(found, layout, ()) is None
