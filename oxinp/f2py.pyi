# Written by docs/type_stubs.py from the tables and NumPy 2.4 and SciPy 1.17; type checkers alone read it.

from numpy.f2py import *
from numpy.f2py import (
    get_include as get_include,
    run_main as run_main,
)
