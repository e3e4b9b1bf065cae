# Written by docs/type_stubs.py from the tables and NumPy 2.4 and SciPy 1.17; type checkers alone read it.

from numpy.lib import *
from numpy.lib import (
    Arrayterator as Arrayterator,
    NumpyVersion as NumpyVersion,
    add_docstring as add_docstring,
    add_newdoc as add_newdoc,
    array_utils as array_utils,
    format as format,
    introspect as introspect,
    mixins as mixins,
    npyio as npyio,
    scimath as scimath,
    stride_tricks as stride_tricks,
    tracemalloc_domain as tracemalloc_domain,
)
