# Written by docs/type_stubs.py from the tables; type checkers alone read it.
from numpy.random import *
