# Written by docs/type_stubs.py from the tables; type checkers alone read it.
from typing import Any

from scipy.fft import *  # type: ignore[import-untyped] # SciPy has types where scipy-stubs is installed

def __getattr__(name: str) -> Any: ...
