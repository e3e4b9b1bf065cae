"""Tables that a kernel's module brings along."""

import numpy as np
import pytest

from oxinp._kernels.plan import Launch, outputs
from oxinp._ptx import Builder
from oxinp._ptx.types import c64, from_dtype
from tests.kernels.machine import Session, machine


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16", "u4"])
def test_a_kernel_reads_its_tables(dtype):
    first, second = np.arange(64).astype(dtype), (np.arange(64) * 3 + 1).astype(dtype)
    k = Builder("reads", block=64)
    out = k.pointer("out", from_dtype(np.dtype(dtype)), "w")
    out[k.tid] = k.table(first)[k.tid] + k.table(second)[k.tid]
    session, result = Session(machine()), np.empty(64, dtype)
    address = session.pointer(result)
    held = getattr(session.machine, "memory", None)
    before = held.allocated_nbytes if held is not None else 0
    session.machine.launch(Launch(k.build(), (1, 1, 1), outputs(1), ()), [address])
    session.fetch([result])
    assert held is None or held.allocated_nbytes == before
    session.close()
    assert (result == first + second).all()


def test_a_table_is_read_only():
    k = Builder("writes", block=32)
    table = k.table(np.zeros(4, np.complex64))
    assert table.type is c64
    with pytest.raises(TypeError, match="read-only"):
        table[0] = k.const(0, c64)
