"""THE TABLE OF FLOATING-POINT EXCEPTIONS: which elements of a ufunc raise which, as NumPy's loops do."""

from __future__ import annotations

import numpy as np

OF_UFUNCS = {
    *(np.add, np.subtract, np.multiply, np.divide, np.floor_divide, np.remainder, np.divmod, np.fmod, np.power),
    *(np.float_power, np.square, np.reciprocal, np.sqrt, np.nextafter, np.spacing, np.ldexp, np.deg2rad, np.radians),
    *(np.rad2deg, np.degrees, np.exp, np.exp2, np.expm1, np.log, np.log2, np.log10, np.log1p, np.sin, np.cos, np.tan),
    *(np.sinh, np.cosh, np.arcsin, np.arccos, np.arccosh, np.arctanh, np.arctan2, np.hypot, np.logaddexp),
    np.logaddexp2,
}
