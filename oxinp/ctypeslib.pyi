# Written by docs/type_stubs.py from the tables and NumPy 2.4 and SciPy 1.17; type checkers alone read it.

from numpy.ctypeslib import *
from numpy.ctypeslib import (
    as_array as as_array,
    as_ctypes as as_ctypes,
    as_ctypes_type as as_ctypes_type,
    c_intp as c_intp,
    load_library as load_library,
    ndpointer as ndpointer,
)
