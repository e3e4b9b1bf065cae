import math
import struct

import numpy as np
import pytest

from oxinp._kernels.accumulate import Runnings, tree
from oxinp._kernels.problem import Launch, ReduceOp
from oxinp._ptx import Builder
from oxinp._ptx.types import f64, u32
from tests.kernels.machine import machine
from tests.kernels.operations import sum_op

COMPENSATED = sum_op(np.dtype("f8"))
PLAIN = ReduceOp("sum", f64, 0, COMPENSATED.combine)


def running_sum(op, values):
    """Sum by one thread, in order."""
    k = Builder("running_sum", block=32)
    out, x, n = k.pointer("out", f64, "w"), k.pointer("x", f64, "r"), k.scalar("n", u32)
    runnings = Runnings(k, op, 1)
    with k.range(0, n) as i:
        runnings.add([[x[i]]])
    with k.when(k.tid == 0):
        out[0] = runnings.totals()[0]
    here = machine()
    target, source = here.upload(np.zeros(1)), here.upload(values)
    here.launch(Launch(k.build(), (1, 1, 1), (len(values),)), [target, source])
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
    op = ReduceOp("join", f64, 0, lambda _, a, b: f"({a}{b})")
    assert tree(None, op, list("abcdefg")) == "(((ab)(cd))((ef)g))"
