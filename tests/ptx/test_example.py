"""The example that the package's docstring gives runs, and ptxas takes it."""

import struct
import textwrap

import numpy as np

import oxinp._ptx as language
from oxinp._ptx import In, InOut, emulate, kernel
from oxinp._ptx.types import f32, u32
from tests.comparator import assert_same


def test_the_whole_language(assembled):
    text = language.__doc__.split("by example::")[1].split("The same with a signature")[0]
    names = {}
    exec(textwrap.dedent(text), names)  # noqa: S102
    assembled([names["kernel"]])


def test_signature_and_emulator():
    n = 1000
    text = language.__doc__.split("parameters::")[1].split("and on the emulator")[0]
    names = {"kernel": kernel, "In": In, "InOut": InOut, "f32": f32, "u32": u32}
    exec(textwrap.dedent(text), names)  # noqa: S102
    memory = emulate.Memory()
    x, y = memory.allocate(4 * n), memory.allocate(4 * n)
    memory.write(x, np.arange(n, dtype="f4"))
    memory.write(y, np.ones(n, "f4"))
    axpy = names["axpy"]
    emulate.run(axpy, memory, grid=4, param_bytes=struct.pack(axpy.param_format, x, y, 2.0, n))
    assert_same(memory.read(y, 4 * n).view("f4"), 2 * np.arange(n, dtype="f4") + 1)
