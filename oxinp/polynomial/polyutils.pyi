# Written by docs/type_stubs.py from the tables and NumPy 2.4 and SciPy 1.17; type checkers alone read it.

from numpy.polynomial.polyutils import *
from numpy.polynomial.polyutils import (
    as_series as as_series,
    format_float as format_float,
    getdomain as getdomain,
    mapdomain as mapdomain,
    mapparms as mapparms,
    trimcoef as trimcoef,
    trimseq as trimseq,
)
