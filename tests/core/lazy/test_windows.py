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


def parts():
    """Yield layouts of parts of a vector of bytes, and the numbers of the bytes."""
    whole = np.arange(NBYTES)
    for start in range(0, NBYTES, 1009):
        for part in (slice(start, start + 700), slice(start, None, 64), slice(start, None, -96), slice(start, start)):
            seen = whole[part]
            first = int(seen[0]) if seen.size else start
            yield Layout.at(np.dtype("u1"), seen.shape, (part.step or 1,), first), set(seen.tolist())


@pytest.mark.parametrize("window", [(480, 2400, 2400), (0, 248, 8), (16, 480, 16), (0, NBYTES, NBYTES)], ids=str)
def test_what_is_left_of_a_window_has_not_been_written(window):
    found, inside = windowed(*window)
    flat = ELEMENTS.ravel().view(np.uint8)
    num_left = 0
    for layout, written in parts():
        left = windows.left_by(found, layout)
        if left is None:
            assert written
            assert min(written) <= max(inside)
            continue
        assert left is not found
        assert left == found
        starts = range(left.low, left.low + len(left.elements) // left.width * left.step, left.step)
        there = {start + i for start in starts for i in range(left.width)}
        assert there <= inside - written
        assert left.elements.tobytes() == flat[sorted(there)].tobytes()
        num_left += 1
        if not written:
            assert there == inside
    assert num_left


def test_the_larger_side_of_a_window_is_left():
    found, _ = windowed(480, 2400, 2400)
    for first, last, low, high in ((600, 700, 700, 2880), (2400, 9000, 480, 2400), (0, 481, 481, 2880)):
        left = windows.left_by(found, Layout.at(np.dtype("u1"), (last - first,), (1,), first))
        assert (left.low, left.low + left.step, len(left.elements)) == (low, high, high - low)
    assert windows.left_by(found, Layout.of(np.dtype("u1"), (9000,))) is None
