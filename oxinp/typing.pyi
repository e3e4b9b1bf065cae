# Written by docs/type_stubs.py from the tables and NumPy 2.4 and SciPy 1.17; type checkers alone read it.

from numpy.typing import *
from numpy.typing import (
    ArrayLike as ArrayLike,
    DTypeLike as DTypeLike,
    NBitBase as NBitBase,
    NDArray as NDArray,
)
