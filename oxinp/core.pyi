# Written by docs/type_stubs.py from the tables and NumPy 2.4 and SciPy 1.17; type checkers alone read it.

from numpy.core import *
from numpy.core import (
    _dtype as _dtype,
    _dtype_ctypes as _dtype_ctypes,
    _internal as _internal,
    _multiarray_umath as _multiarray_umath,
    arrayprint as arrayprint,
    defchararray as defchararray,
    einsumfunc as einsumfunc,
    fromnumeric as fromnumeric,
    function_base as function_base,
    getlimits as getlimits,
    multiarray as multiarray,
    numeric as numeric,
    numerictypes as numerictypes,
    overrides as overrides,
    records as records,
    shape_base as shape_base,
    umath as umath,
)
