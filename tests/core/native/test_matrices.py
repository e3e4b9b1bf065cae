"""Launches of chains on matrices that machine code finds: what Python finds, or nothing."""

import ctypes
import functools

import numpy as np
import pytest

import oxinp
from oxinp._core.lazy.chains import launch_of
from oxinp._core.memory.layout import make_layout
from oxinp._core.native import matrices, objects
from oxinp._core.native.given import ROOM
from oxinp._core.native.making import ENTRY, Making
from oxinp._core.native.pages import mapped

pytestmark = [
    pytest.mark.skipif(objects.VECTORCALL is None, reason="calls of functions have no other code"),
    pytest.mark.usefixtures("on_device", "unwatched"),
]
FLOAT = np.dtype(float)


@functools.cache
def code():
    """Return the code as a function of a structure in a tuple, the layout of the result, and all layouts."""
    call = Making(oxinp.ndarray, None, ROOM)
    code = call.code
    call.begin()
    code.move("r13", "rbx")
    code.move("r12", "rbp")
    code.load("r14", "rsp", 0)
    call.begin_made()
    call.keep_at(ENTRY, "r14")
    matrices.find_matrix(call, "in Python")
    code.move("r14", "r15")
    call.keep("r14")
    code.jump("give back")
    code.label("undo")
    code.label("in Python")
    code.set("r14", id(None))
    code.label("give back")
    call.drop_made()
    code.move("rax", "r14")
    call.end_body()
    (address,) = mapped([code.assembled()])
    return ctypes.PYFUNCTYPE(ctypes.py_object, *[ctypes.py_object] * 3)(address)


def part(rows, columns, pitch, offset=0):
    return make_layout(FLOAT, (rows, columns), (8 * pitch, 8), 8 * offset)


def row(rows, columns, offset=0):
    return make_layout(FLOAT, (rows, columns), (0, 8), 8 * offset)


@pytest.fixture(scope="module")
def structure():
    """That of the sum of two matrices, which has run on parts of several that lie alike."""
    made, rows = None, 40
    with oxinp.config.override(offload_threshold=0):
        x = oxinp.ones((rows, 640)) + 0.0
        v = oxinp.ones(640) + 0.0
        for begin in range(8):
            for step in range(4):
                y = x[begin:, begin + step :] + x[: rows - begin, : 640 - begin - step]
                made = y._storage.value[0].structure
                x[begin:, begin + step :] = y * 1.0
                x[begin:, begin + step :] = x[begin:, begin + step :] + x[: rows - begin, : 640 - begin - step]
                x[begin:, begin + step :] = x[begin:, begin + step :] + v[begin + step :]
                x[begin:, begin + step :] += v[begin + step :]
        for begin in range(6):
            for width in (2, 3, 4, 8, 12):
                x[begin:, 1 : 1 + width] = x[begin:, 1 : 1 + width] + v[1 : 1 + width]
                x[begin:, 4 : 4 + width] = x[begin:, 8 : 8 + width] + x[: rows - begin, :width]
    assert made is not None
    return made


NARROW = 2, 3, 4, 8, 12
CASES = [
    *((lambda m=m, n=n: (part(m, n, 640), part(m, n, 640), part(m, n, 640))) for m in (2, 9, 64) for n in (64, 633)),
    *(
        (lambda m=m, n=n: (part(m, n, 640, 1), part(m, n, 640, 3), part(m, n, 640, 2)))
        for m in (8, 63)
        for n in (5, 600)
    ),
    *(
        (lambda m=m, n=n: (part(m, n, 640, 1), part(m, n, 640, 3), row(m, n, 1)))
        for m in (8, 63, 299)
        for n in (5, 128)
    ),
    *((lambda m=m, n=n: (part(m, n, 640, 1), part(m, n, 640, 1), row(m, n, 1))) for m in (2, 9, 299) for n in NARROW),
    *(
        (lambda m=m, n=n: (part(m, n, 640, 4), part(m, n, 640, 8), part(m, n, 640)))
        for m in (2, 9, 299)
        for n in NARROW
    ),
    *((lambda n=n: (part(60_000, n, 640, 4), part(60_000, n, 640, 8), part(60_000, n, 640))) for n in NARROW),
    lambda: (part(1, 640, 640),) * 3,
    lambda: (part(640, 1, 640),) * 3,
    lambda: (part(64, 640, 640),) * 3,
    lambda: (part(64, 128, 2**26),) * 3,
    lambda: (part(40_000, 40_000, 40_001),) * 3,
    lambda: (make_layout(FLOAT, (4, 64, 64), (8 * 4096, 512, 8), 0),) * 3,
    lambda: (make_layout(FLOAT, (64, 64), (8, 512), 0),) * 3,
    lambda: (make_layout(FLOAT, (64, 64), (512, 8), 4),) * 3,
]


@pytest.mark.parametrize("make", CASES)
def test_launches_are_pythons(structure, make):
    layout, *leaves = make()
    expected = launch_of(structure, layout, tuple(leaves), is_looked_for=False)
    found = code()((structure,), layout, (layout, *leaves))
    assert found is None or found == expected
    assert found is None or found[0] is expected[0]


def test_most_launches_are_found(structure):
    found = []
    for make in CASES[:16]:
        layout, *leaves = make()
        if launch_of(structure, layout, tuple(leaves), is_looked_for=False) is not None:
            found.append(code()((structure,), layout, (layout, *leaves)) is not None)
    assert sum(found) >= 4, found


def test_launches_of_narrow_matrices_are_found(structure):
    found = []
    for make in CASES[16:46]:
        layout, *leaves = make()
        if launch_of(structure, layout, tuple(leaves), is_looked_for=False) is not None:
            found.append(code()((structure,), layout, (layout, *leaves)) is not None)
    assert len(found) >= 20
    assert sum(found) >= 15, found
