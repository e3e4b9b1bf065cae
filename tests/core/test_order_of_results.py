"""What is joined, rounded or sorted lies in memory in NumPy's order of axes."""

import itertools

import numpy as np
import pytest

import oxinp
from oxinp._core.memory import layout as memory_layout
from oxinp._core.memory.layout import Layout

pytestmark = pytest.mark.usefixtures("on_device")

ORDERS = {
    "C": lambda _, x: x,
    "Fortran": lambda xp, x: xp.array(x, order="F"),
    "permuted": lambda _, x: x.transpose(1, 0, 2).copy().transpose(1, 0, 2),
    "backwards": lambda _, x: x[::-1, :, ::-1],
    "broadcast": lambda xp, x: xp.broadcast_to(x[:, :1], x.shape),
}
JOINS = {
    "concatenate": lambda xp, a, b: xp.concatenate([a, b]),
    "last axis": lambda xp, a, b: xp.concatenate([a, b], -1),
    "flat": lambda xp, a, b: xp.concatenate([a, b], None),
    "stack": lambda xp, a, b: xp.stack([a, b]),
    "stack along 1": lambda xp, a, b: xp.stack([a, b], 1),
    "vstack": lambda xp, a, b: xp.vstack([a[0], b[0]]),
    "hstack": lambda xp, a, b: xp.hstack([a[0], b[0]]),
    "dstack": lambda xp, a, b: xp.dstack([a[0, 0], b[0, 0]]),
    "column_stack": lambda xp, a, b: xp.column_stack([a[0], b[0, :, 0]]),
    "round": lambda xp, a, _: xp.round(a, 1),
    "round of integers": lambda _, __, b: b.astype(int).round(),
}


@pytest.mark.parametrize("name", JOINS)
def test_strides(name):
    for first, second in itertools.product(ORDERS.values(), repeat=2):
        ours, numpys = (
            JOINS[name](xp, *(order(xp, xp.arange(24.0).reshape(2, 3, 4) * 1) for order in (first, second)))
            for xp in (oxinp, np)
        )
        assert ours.strides == numpys.strides
        assert np.array_equal(oxinp.asnumpy(ours), numpys)


@pytest.mark.parametrize("axis", [0, 1, -1, None])
@pytest.mark.parametrize("name", ["sort", "argsort"])
def test_strides_of_what_is_sorted(name, axis):
    for order in ORDERS.values():
        ours, numpys = (
            getattr(xp, name)(order(xp, (xp.arange(24.0) * 7 % 24).reshape(2, 3, 4)), axis, kind="stable")
            for xp in (oxinp, np)
        )
        assert ours.strides == numpys.strides
        assert np.array_equal(oxinp.asnumpy(ours), numpys)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("name", ["argmax", "argmin", "nanargmax", "nanargmin"])
def test_strides_of_positions(name, axis, keepdims):
    for order in ORDERS.values():
        ours, numpys = (
            getattr(xp, name)(order(xp, (xp.arange(24.0) * 7 % 24).reshape(2, 3, 4)), axis, keepdims=keepdims)
            for xp in (oxinp, np)
        )
        assert ours.strides == numpys.strides
        assert np.array_equal(oxinp.asnumpy(ours), numpys)


def _steps(rng, shape):
    """Return steps of a view in some order of axes: forwards, backwards, repeated, in gaps."""
    strides, step = [0] * len(shape), 8
    for axis in rng.permutation(len(shape)) if rng.random() < 0.5 else range(len(shape))[::-1]:
        strides[axis] = int(step * rng.choice([1, 1, 1, -1, 0, 2]))
        step *= shape[axis] + int(rng.integers(0, 2))
    return tuple(strides)


def test_what_has_one_operand_in_rows_lies_in_rows():
    rng, num_rows = np.random.default_rng(4), 0
    for _ in range(3000):
        shape = tuple(int(n) for n in rng.integers(0, 4, rng.integers(2, 5)))
        given = [Layout.at(np.dtype(float), shape, _steps(rng, shape), 1 << 12) for _ in range(rng.integers(1, 4))]
        order = memory_layout._order_of(given)
        wanted = np.empty([shape[axis] for axis in order]).transpose(np.argsort(order))
        found = memory_layout.result_layout(np.dtype(float), shape, given)
        if 0 not in shape:
            steps = zip(shape, found.strides, wanted.strides, strict=True)
            assert all(ours == numpys for n, ours, numpys in steps if n > 1), given
        num_rows += any(memory_layout.is_in_rows(each) for each in given)
    assert num_rows > 100


def test_strides_of_sums_of_matrices():
    base = np.zeros((6, 8))
    parts = {
        shape: [
            view
            for rows, columns in ((1, 1), (1, 2), (2, 1), (2, 2))
            for view in (
                base[:: rows or 1, ::columns][: shape[0], : shape[1]],
                base.T[::columns, ::rows][: shape[0], : shape[1]],
                base[::-1, ::columns][: shape[0], : shape[1]],
                base[:, ::-1][: shape[0], : shape[1]],
                base[: shape[1], : shape[0]].T,
                np.broadcast_to(base[0, : shape[1]], shape),
                base[: shape[0], 0, None],
                base[: shape[0], : shape[1]].copy("F"),
                base[0, : shape[1]],
                base[0, 0],
            )
        ]
        for shape in ((2, 2), (3, 2), (1, 2), (2, 1), (1, 1), (0, 2), (2, 0))
    }
    for shape, views in parts.items():
        for first, second in itertools.product(views, repeat=2):
            found = np.add(first, second)
            if found.shape != shape:
                continue
            layouts = [Layout.at(x.dtype, x.shape, x.strides, 0) for x in (first, second)]
            assert memory_layout.result_layout(found.dtype, shape, layouts).strides == found.strides, (shape, layouts)
