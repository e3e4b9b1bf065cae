"""Partitions of rows: every type, special values, several tiles and rows."""

import numpy as np
import pytest

from oxinp._kernels.sort import partition
from oxinp._ptx.types import from_dtype
from tests.kernels.machine import Session, machine
from tests.kernels.sort.test_select import values

CASES = [(code, 2, 150, 70) for code in "?bBhHiIlLefd"] + [("f", 1, 90, rank) for rank in (0, 89)]
CASES += [("f", 2, 4500, 4000), ("l", 1, 4500, 9)]  # several tiles


@pytest.fixture
def session():
    session = Session(machine())
    yield session
    session.close()


@pytest.mark.parametrize(("code", "num_rows", "length", "rank"), CASES, ids=str)
def test_three_parts(session, num_rows, length, rank, code):
    x = values(np.dtype(code), (num_rows, length))
    elements, places = np.empty_like(x), np.empty(x.shape, np.int64)
    for make, output in ((partition.partition, elements), (partition.argpartition, places)):
        plan = make(num_rows, length, rank, from_dtype(x.dtype), session.device)
        session.run(plan, [output], [session.pointer(x)])
    assert elements.tobytes() == np.take_along_axis(x, places, 1).tobytes()
    for row, found, order in zip(x, elements, places, strict=True):
        ordered = np.sort(row)
        assert (np.sort(order) == np.arange(length)).all()
        assert np.array_equal(found[rank], ordered[rank], equal_nan=x.dtype.kind == "f")
        for part in (slice(None, rank), slice(rank, None)):
            assert np.array_equal(np.sort(found[part]), ordered[part], equal_nan=x.dtype.kind == "f")
