# Written by docs/type_stubs.py from the tables and NumPy 2.4 and SciPy 1.17; type checkers alone read it.

from numpy.exceptions import *
from numpy.exceptions import (
    AxisError as AxisError,
    ComplexWarning as ComplexWarning,
    DTypePromotionError as DTypePromotionError,
    ModuleDeprecationWarning as ModuleDeprecationWarning,
    TooHardError as TooHardError,
    VisibleDeprecationWarning as VisibleDeprecationWarning,
)
