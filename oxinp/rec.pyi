# Written by docs/type_stubs.py from the tables and NumPy 2.4 and SciPy 1.17; type checkers alone read it.

from numpy.rec import *
from numpy.rec import (
    array as array,
    find_duplicate as find_duplicate,
    format_parser as format_parser,
    fromarrays as fromarrays,
    fromfile as fromfile,
    fromrecords as fromrecords,
    fromstring as fromstring,
    recarray as recarray,
    record as record,
)
