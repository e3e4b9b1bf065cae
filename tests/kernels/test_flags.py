"""Instructions that raise floating-point flags: what ptxas makes of them."""

import numpy as np

from oxinp._core.lazy.flagged import _variant
from oxinp._core.lazy.record import COPY
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.ufunc import exceptions
from oxinp._core.ufunc.objects import ROWS, UFUNC_OBJECTS
from oxinp._kernels.elementwise import plan as elementwise
from oxinp._kernels.problem import Instr, Operand, Output, ScalarOperand
from oxinp._ptx.types import u64
from tests.kernels.assembled import check_assembled
from tests.kernels.machine import TINY_DEVICE
from tests.kernels.test_catalog import renamed

SIZE = 1 << 12
RULED = [row for row in ROWS.values() if exceptions.OF_UFUNCS.get(row.numpy) is not None]
BASIC = {"add", "multiply", "divide", "floor_divide", "divmod", "square", "reciprocal", "sqrt", "ldexp", "exp"}


def kernel_of(operation, rule, dtypes, output=None, *, is_masked=False, kinds=15):
    """Return the kernel that computes a flagged operation of contiguous arrays."""
    extra = (np.dtype(bool), np.dtype(np.uint64)) if is_masked else (np.dtype(np.uint64),)
    loop = _variant(operation, rule, kinds, is_masked, output).find_loop((*dtypes, *extra))
    types = [DEVICE_TYPES[dtype] for dtype in loop.inputs[:-1]]
    inputs = [*[Operand(type_, (1,), 256) for type_ in types], ScalarOperand(u64)]
    result = DEVICE_TYPES[loop.output]
    instrs = (Instr(loop.lower, result, tuple(range(len(inputs)))),)
    outputs = [Output(len(inputs), Operand(result, (1,), 256))]
    return elementwise.plan((SIZE,), inputs, instrs, outputs, TINY_DEVICE).steps[0].kernel


def kernels():
    made = {}
    for row in RULED:
        operation = UFUNC_OBJECTS[row.name].operations[0]
        for char in "efdilFD" if row.name in BASIC else "f":
            dtypes = [np.dtype(char)] * row.numpy.nin
            if row.name == "ldexp":
                dtypes[1] = np.dtype("i")
            if f"{''.join(x.char for x in dtypes)}->" not in " ".join(row.numpy.types):
                continue
            loop = operation.find_loop(tuple(dtypes))
            made[row.name, char] = kernel_of(operation, operation.raises, loop.inputs)
    for source, target in ("fi", "dB", "dl", "df", "fe", "dL"):
        made[source, target] = kernel_of(COPY, COPY.raises, [np.dtype(source)], np.dtype(target))
    operation = UFUNC_OBJECTS["divide"].operations[0]
    made["divide", "masked"] = kernel_of(operation, operation.raises, [np.dtype("f")] * 2, is_masked=True, kinds=11)
    return made


SPILLED = {("sqrt", "D"): 8}  # bytes, by which ptxas reaches a rounder number of blocks


def test_kernels_assemble_without_spills():
    made = kernels()
    assert len(made) > 70
    named = {key: renamed(kernel, number, "sm_80") for number, (key, kernel) in enumerate(made.items())}
    check_assembled(list(named.values()), spills={named[key].name: nbytes for key, nbytes in SPILLED.items()})
