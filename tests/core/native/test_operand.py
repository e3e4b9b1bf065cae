"""Operands of statements in machine code: layouts of rows and of parts of arrays on the host, as Python makes them."""

import ctypes
import functools

import numpy as np
import pytest

import oxinp
from oxinp._core.lazy.handle import found
from oxinp._core.memory.layout import Layout, line_layout, make_layout
from oxinp._core.native import install, objects, operand
from oxinp._core.native.given import ROOM
from oxinp._core.native.making import Making
from oxinp._core.native.pages import mapped

pytestmark = pytest.mark.skipif(objects.VECTORCALL is None, reason="calls of functions have no other code")
FLOAT = np.dtype(float)


@functools.cache
def code(of_array):
    """Return the code of a row of two layouts as a function of both; or of what makes an array know its layout."""
    call = Making(oxinp.ndarray, None, ROOM)
    code = call.code
    call.begin()
    code.move("r12", "rbp")
    call.begin_made()
    code.set("r14", id(None))
    if of_array:
        operand.find_known(call, "rbx")
        call.keep("r14")
    else:
        operand._make_row(call)
        code.move("r14", "rax")
    code.jump("give back")
    code.label("undo")
    call.keep("r14")
    code.label("give back")
    call.drop_made()
    code.move("rax", "r14")
    call.end_body()
    (address,) = mapped([code.assembled()])
    return ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.py_object)(address)


@pytest.mark.parametrize("offset", [0, 8, 16, 256, 776, 2**40 + 32])
@pytest.mark.parametrize("step", [8, 16, -8, 0, 80])
@pytest.mark.parametrize("shape", [(2, 7), (640, 1), (9, 10_000), (1, 7)])
def test_rows_are_what_python_makes(offset, step, shape):
    vector = line_layout(FLOAT, shape[1], step, offset)
    matrix = make_layout(FLOAT, shape, (80_000, 8), 0)
    found = code(False)(vector, matrix)
    assert (found is None) == (shape[0] == 1)
    if found is not None:
        expected = make_layout(FLOAT, shape, (0, step), offset)
        assert {name: getattr(found, name) for name in Layout.__slots__} == {
            name: getattr(expected, name) for name in Layout.__slots__
        }


def test_rows_of_another_dtype_are_left_to_python():
    matrix = make_layout(FLOAT, (3, 7), (56, 8), 0)
    assert code(False)(line_layout(np.dtype("f4"), 7, 4, 0), matrix) is None


@pytest.mark.parametrize("key", ["1:", "3:9:2", "::-1", "2, 1:", "1:, 2", "1:, 1:", "0:0"])
def test_parts_of_arrays_on_the_host_know_their_layouts(key):
    install.install(oxinp.ndarray)
    whole = oxinp.array(np.arange(400.0).reshape(20, 20))
    assert whole._layout is whole._known
    part, other = (eval(f"whole[{key}]", {"whole": whole}) for _ in range(2))  # noqa: S307 - a table's
    code(True)(part, None)
    expected = found(other)
    known = part._known
    assert type(known) is Layout
    assert known.same(expected)
    again = part[:1]
    code(True)(again, None)  # of a part of a part Python finds it
    assert again._layout.offset == known.offset
