import math
import struct

import numpy as np
import pytest

from oxinp._kernels.plan import Launch
from oxinp._kernels.problem import Element, ReduceOp
from oxinp._kernels.reduce.accumulate import Running, tree
from oxinp._ptx import Builder
from oxinp._ptx.types import f64, u32
from tests.kernels.machine import machine
from tests.kernels.operations import add, sum_op

COMPENSATED = sum_op(np.dtype("f8"))
PLAIN = ReduceOp("sum", f64, 0, add)


def running_sum(op, values):
    """Sum by one thread, in order."""
    k = Builder("running_sum", block=32)
    out, x, n = k.pointer("out", f64, "w"), k.pointer("x", f64, "r"), k.scalar("n", u32)
    running = Running(k, op)
    with k.range(0, n) as i:
        running.take([Element(x[i])])
    with k.when(k.tid == 0):
        total = running.total()
        out[0] = total if op.finish is None else op.finish(k, total)
    here = machine()
    target, source = here.upload(np.zeros(1)), here.upload(values)
    here.launch(Launch(k.build(), (1, 1, 1), (), (len(values),)), [target, source])
    (result,) = struct.unpack("d", here.download(target, 8).tobytes())
    here.free(target)
    here.free(source)
    return result


def test_a_compensated_sum_keeps_what_a_plain_one_loses():
    values = np.full(2000, 1e-16)
    values[0] = 1.0
    assert running_sum(PLAIN, values) == 1.0
    assert running_sum(COMPENSATED, values) == math.fsum(values.tolist()) > 1.0


@pytest.mark.parametrize(
    "values", [[1.0, np.inf, 2.0], [-np.inf, 1.0], [np.inf, -np.inf], [np.nan, 1.0], [1e308] * 3, [-1e308] * 3, [-0.0]]
)
def test_a_compensated_sum_ends_where_a_plain_one_does(values):
    plain, compensated = (running_sum(op, np.array(values)) for op in (PLAIN, COMPENSATED))
    assert np.array_equal(plain, compensated, equal_nan=True)
    assert math.copysign(1, plain) == math.copysign(1, compensated) or math.isnan(plain)


def test_a_tree_combines_neighbours_first():
    assert tree(None, lambda _, a, b: f"({a}{b})", list("abcdefg")) == "(((ab)(cd))((ef)g))"
