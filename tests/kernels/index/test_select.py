"""The elements that a mask chooses, and their numbers: a mask in memory, and one that a chain computes."""

import operator
import re

import numpy as np
import pytest

from oxinp._kernels.index import select
from oxinp._kernels.plan import Argument, Plan
from oxinp._kernels.problem import Instr, Operand
from oxinp._ptx.types import from_dtype, pred
from tests.comparator import assert_same
from tests.kernels.machine import TINY_DEVICE, Session, execute, machine

IS_LESS = Instr(lambda k, a, b: operator.lt(a, b), pred, (0, 1))  # noqa: ARG005 - what lowerings are given


def chosen(session, x, inputs, instrs, operands, size):
    """What is chosen of an array and which numbers it has, by a plan that reads how many."""
    types = [(each.type, True) for each in operands]
    results = []
    for type_, dtype in ((from_dtype(x.dtype), x.dtype), (None, np.dtype(np.int64))):
        output = np.empty(size, dtype)
        mask = select.Mask(types, instrs, len(inputs) + len(instrs) - 1)
        found, scratch_nbytes = mask.plan(size, operands, session.device)
        array = None if type_ is None else Argument(f"in{len(inputs)}")
        write = select.select(size, type_, found, array)
        plan = Plan(found.steps, scratch_nbytes, then=lambda words, write=write: write if words[0] else Plan(()))
        given = [session.pointer(each) for each in (*inputs, x)]
        (count,) = execute(session.machine, plan, [session.pointer(output)], given)
        session.fetch([output])
        results.append(output[:count])
    return results


@pytest.mark.parametrize("share", [0, 0.3, 1])
@pytest.mark.parametrize("size", [1, 1024, 5003])
@pytest.mark.parametrize("dtype", ["f8", "f4", "u1", "c16"])
def test_a_mask_in_memory(dtype, size, share):
    rng = np.random.default_rng(1)
    x, mask = (rng.random(size) * 200).astype(dtype), rng.random(size) < share
    session = Session(machine())
    elements, numbers = chosen(session, x, [mask], [], [Operand(pred, (1,))], size)
    session.close()
    assert_same(elements, x[mask])
    assert_same(numbers, np.flatnonzero(mask))


@pytest.mark.parametrize("size", [7, 3000])
def test_a_mask_that_a_chain_computes(size):
    rng = np.random.default_rng(2)
    x, y = rng.random(2 * size), rng.random(1)
    session, type_ = Session(machine()), from_dtype(x.dtype)
    operands = [Operand(type_, (2,)), Operand(type_, (0,))]
    elements, numbers = chosen(session, x, [x, y], [IS_LESS], operands, size)
    session.close()
    assert_same(numbers, np.flatnonzero(x[::2] < y))
    assert_same(elements, x[:size][x[::2] < y])


def test_far_elements_have_wide_distances():
    for size, is_wide in ((2**31, True), (2**20, False)):
        plan, _ = select.Mask([(pred, True)], [], 0).plan(size, [Operand(pred, (1,))], TINY_DEVICE)
        assert (re.search(r"mad\.lo\.s64|min\.s64", plan.steps[0].kernel.ptx) is not None) is is_wide
