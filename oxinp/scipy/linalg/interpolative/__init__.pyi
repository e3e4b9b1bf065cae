# Written by docs/type_stubs.py from the tables and NumPy 2.4 and SciPy 1.17; type checkers alone read it.

from typing import Any

from scipy.linalg.interpolative import *  # type: ignore[import-untyped] # SciPy has types where scipy-stubs is installed

def __getattr__(name: str) -> Any: ...
