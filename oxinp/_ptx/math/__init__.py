"""Elementary functions in the kernel language: ``f(k, x) -> Value`` under NumPy's names, for f16, f32 and f64.

Each is within 1 ulp of the true value for every input, subnormal ones and results included, with NumPy's zeros,
infinities and NaN; a function's docstring says how close it comes. f32 is computed in f32 and f64 in f64; f16 goes
through f32. Common arguments take a straight path without branches; what is rare and long stands behind `k.when`.
"""

from oxinp._ptx.math.exponential import exp, exp2, expm1
from oxinp._ptx.math.hyperbolic import cosh, sinh, tanh
from oxinp._ptx.math.inverse_hyperbolic import arccosh, arcsinh, arctanh
from oxinp._ptx.math.inverse_trigonometric import arccos, arcsin, arctan, arctan2
from oxinp._ptx.math.logarithm import log, log1p, log2, log10
from oxinp._ptx.math.logarithm_of_sum import logaddexp, logaddexp2
from oxinp._ptx.math.power import power
from oxinp._ptx.math.roots import cbrt, hypot
from oxinp._ptx.math.trigonometric import cos, sin, tan

__all__ = [
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "cbrt",
    "cos",
    "cosh",
    "exp",
    "exp2",
    "expm1",
    "hypot",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logaddexp2",
    "power",
    "sin",
    "sinh",
    "tan",
    "tanh",
]
