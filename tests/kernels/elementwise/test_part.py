"""Chains that are written to a part of an array, whose other elements stay."""

import numpy as np
import pytest

from oxinp._kernels.elementwise.part import PartChains
from oxinp._kernels.problem import Instr, Operand
from oxinp._ptx.types import from_dtype
from tests.comparator import assert_same
from tests.kernels.layouts import random_values
from tests.kernels.machine import Session, machine

# Shapes; what is written; what is read, by how far each axis is moved.
PARTS = [
    ((40,), (slice(1, -1),), [(-1,), (0,), (1,)]),
    ((41, 300), (slice(1, -1), slice(1, -1)), [(-1, 0), (1, 0), (0, -1), (0, 1)]),
    ((5, 7), (slice(2, 5), slice(None)), [(-2, 0)]),
    ((33, 65), (slice(None), slice(3, 60)), [(0, -3), (0, 2)]),
    ((6, 9, 130), (slice(1, -1), slice(2, -2), slice(1, 128)), [(-1, 1, 0), (1, -2, 2)]),
    ((3, 4, 5, 6), (slice(1, 3), slice(0, 3), slice(2, 3), slice(1, -1)), [(-1, 0, 1, 1), (0, 1, 2, -1)]),
]


@pytest.fixture
def session():
    session = Session(machine())
    yield session
    session.close()


def moved(key, shape, by):
    """Return slices moved along each axis."""
    bounds = [part.indices(n) for part, n in zip(key, shape, strict=True)]
    return tuple([slice(low + d, high + d) for (low, high, _), d in zip(bounds, by, strict=True)])


@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "c16", "?"])
@pytest.mark.parametrize(("shape", "key", "moves"), PARTS)
def test_parts(session, shape, key, moves, dtype):
    dtype = np.dtype(dtype)
    rng = np.random.default_rng([dtype.num, *shape])
    before = np.ascontiguousarray(random_values(rng, shape, dtype))
    row = np.ascontiguousarray(random_values(rng, shape[-1:], dtype))
    wanted, instrs, number, count = before.copy(), [], 0, len(moves) + 1
    parts = [*[before[moved(key, shape, by)] for by in moves], np.broadcast_to(row[key[-1]], before[key].shape)]
    total = parts[0]
    type_ = from_dtype(dtype)

    def add(_, x, y):
        return x | y if dtype.kind == "b" else x + y

    for place, part in enumerate(parts[1:], 1):
        total = total | part if dtype.kind == "b" else total + part
        instrs.append(Instr(add, type_, (number, place)))
        number = count + place - 1
    wanted[key] = total
    lows = [part.indices(n)[0] for part, n in zip(key, shape, strict=True)]
    made = PartChains(type_, [(type_, True)] * count, instrs, number)
    operands = [Operand(type_, tuple([step // dtype.itemsize for step in part.strides])) for part in parts]
    plan = made.plan(shape, list(zip(lows, before[key].shape, strict=True)), operands)
    given, out = session.pointer(before), np.empty_like(before)
    rows = session.pointer(row)
    starts = [given + (part.ctypes.data - before.ctypes.data) for part in parts[:-1]]
    starts.append(rows + (parts[-1].ctypes.data - row.ctypes.data))
    session.run(plan, [out], [given, *starts])
    assert_same(out, wanted)
