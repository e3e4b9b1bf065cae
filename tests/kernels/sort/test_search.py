"""Places of values among sorted elements, by halves and in trees."""

import numpy as np
import pytest

from oxinp._kernels.sort import search, search_tree
from oxinp._kernels.sort.search_tree import SearchTreeSpec
from oxinp._ptx.types import from_dtype
from tests.comparator import assert_same
from tests.kernels.machine import TINY_DEVICE, Session, machine


def check(x, values, plan_of):
    """Run the plans of both sides and compare the places with NumPy's."""
    session = Session(machine())
    for is_right in (False, True):
        output = np.empty(values.size, np.int64)
        session.run(plan_of(session.device, is_right), [output], [session.pointer(x), session.pointer(values)])
        assert_same(output, np.searchsorted(x, values, "right" if is_right else "left"))
    session.close()


@pytest.mark.parametrize("size", [1, 7, 64, 65, 500])
@pytest.mark.parametrize("dtype", [np.dtype(name) for name in ("?", "i2", "f4", "f8", "c16")], ids=str)
def test_places(dtype, size):
    rng = np.random.default_rng(size)
    x = np.sort((rng.random(size) * 90).astype(dtype))
    values = np.concatenate([(rng.random(700) * 110 - 10).astype(dtype), x[:50], x[-50:]])
    type_ = from_dtype(dtype)
    check(x, values, lambda device, is_right: search.search(size, values.size, type_, device, is_right=is_right))


@pytest.mark.parametrize("depth", [1, 3, 8])
@pytest.mark.parametrize("size", [1, 8, 64, 65, 500])
@pytest.mark.parametrize("dtype", [np.dtype(name) for name in ("u1", "i8", "f2", "f4", "f8")], ids=str)
def test_places_in_a_tree(dtype, size, depth):
    rng = np.random.default_rng(size)
    x = (rng.random(size) * 90).astype(dtype)
    greatest = np.array([np.nan, np.inf] if dtype.kind == "f" else [np.iinfo(dtype).max] * 2, dtype)
    x[: size // 4] = greatest[0]
    x[size // 4 : size // 3] = -x[size // 4 : size // 3] if dtype.kind != "u" else 0
    x.sort()
    values = np.concatenate([(rng.random(2500) * 110).astype(dtype), x[:50], x[-50:], greatest])
    type_ = from_dtype(dtype)

    def plan_of(device, is_right):
        spec = SearchTreeSpec(type_, is_right, depth, search_tree.num_tables(size, depth, type_))
        return search_tree.search(size, values.size, spec, device)

    check(x, values, plan_of)


def test_trees_are_for_many_real_values():
    for dtype, size, count, depth in (
        ("f8", 2**20, 2**24, 12), ("f4", 2**20, 2**24, 12), ("f8", 200, 2**24, 8), ("f8", 2**20, 2**16, None),
        ("c16", 2**20, 2**24, None), ("f8", 2**28, 2**24, None), ("f4", 10, 2**24, None),
    ):  # fmt: skip
        spec = search_tree.spec_of(size, count, from_dtype(np.dtype(dtype)), TINY_DEVICE, is_right=False)
        assert (spec and spec.depth) == depth
