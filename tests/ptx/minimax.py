"""Polynomials of `oxinp._ptx.math`, made again: ``python -m tests.ptx.minimax [REGEX]``.

Every row of `FITS` names a constant of a module and says what it approximates. The command fits it in
multiple precision (Lawson's iteration, refined), rounds the coefficients to the type one after the other, lowest power
first, correcting the rest after each, writes them into the module, and prints the weighted error that is left.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import mpmath
import numpy as np
from mpmath import mpf

mpmath.mp.dps = 70

MODULES = Path(__file__).resolve().parents[2] / "oxinp" / "_ptx" / "math"
GRID = 300
ROUNDS = 60
BITS = {"f32": 24, "f64": 53}


class Fit(NamedTuple):
    """A polynomial in t of `num` coefficients that minimises ``|weight(t) * (target(t) - P(t))|``.

    `given` are coefficients from the lowest power on that are fixed.
    """

    module: str
    name: str
    type: str
    target: Callable
    weight: Callable
    interval: tuple
    num: int
    given: tuple = ()


def rounded(value, type):
    """`value` as the nearest number of a type, kept as mpf."""
    with mpmath.workprec(BITS[type]):
        return +mpf(value)


def evaluate(coefficients, t):
    """Horner's rule over an array of mpf."""
    total = t * 0
    for c in reversed(coefficients):
        total = total * t + c
    return total


def grid_of(interval):
    """Points that crowd at the ends, as an array of mpf."""
    low, high = (mpf(end) for end in interval)
    middle, half = (low + high) / 2, (high - low) / 2
    tiny = half * mpf("1e-18")  # keeps clear of 0, where targets are quotients
    return np.array([middle - (half - tiny) * mpmath.cos(mpmath.pi * i / (GRID - 1)) for i in range(GRID)], object)


def correction(t, residual, weights, powers):
    """Change of the coefficients of some powers that nearly minimises the largest weighted residual (Lawson 1961)."""
    size, middle = max(abs(residual * weights)), max(abs(t))
    goal = (residual * weights / size).astype(float)
    columns = np.stack([(weights * (t / middle) ** p).astype(float) for p in powers], axis=1)
    largest, best = np.inf, None
    importance = np.full(len(t), 1 / len(t))
    for _ in range(ROUNDS):
        root = np.sqrt(importance)
        solution = np.linalg.lstsq(columns * root[:, None], goal * root, rcond=None)[0]
        error = abs(goal - columns @ solution)
        if error.max() < largest:
            largest, best = error.max(), solution
        importance *= error
        importance /= importance.sum()
    return [mpf(c) * size / middle**p for c, p in zip(best, powers, strict=True)]


def fit(row):
    """Coefficients of a row, lowest power first, and the largest weighted error after rounding."""
    t = grid_of(row.interval)
    wanted = np.array([row.target(x) for x in t], object)
    weights = np.array([abs(row.weight(x)) for x in t], object)
    coefficients = [rounded(c, row.type) for c in row.given] + [mpf(0)] * (row.num - len(row.given))
    for done in range(len(row.given), row.num):
        powers = range(done, row.num)
        for _ in range(3 if done == len(row.given) else 1):
            changes = correction(t, wanted - evaluate(coefficients, t), weights, powers)
            for power, change in zip(powers, changes, strict=True):
                coefficients[power] += change
        coefficients[done] = rounded(coefficients[done], row.type)
    return [float(c) for c in coefficients], float(max(weights * abs(wanted - evaluate(coefficients, t))))


def exp_tail(r):
    return (mpmath.expm1(r) - r) / r**2


def log_tail(f):
    return (mpmath.log1p(f) - f) / f**2


def log_odd(z):
    # 2 atanh(s) = log((1 + s) / (1 - s)), and z = s**2
    s = mpmath.sqrt(z)
    return (2 * mpmath.atanh(s) / s - 2) / z


LOG_S = mpf(1) / 5


def power_tail(z):
    # 2 atanh(s) / log(2) = s (2 + z (2 / 3 + z P(z))) / log(2), and z = s**2
    s = mpmath.sqrt(z)
    return (2 * mpmath.atanh(s) / s - 2 - 2 * z / 3) / z**2 / mpmath.log(2)


POWER_S = (mpmath.sqrt(2) - 1) / (mpmath.sqrt(2) + 1)


def sin_tail(z):
    r = mpmath.sqrt(z)
    return (mpmath.sin(r) / r - 1) / z


def cos_tail(z):
    return (mpmath.cos(mpmath.sqrt(z)) - 1) / z


def atan_tail(z):
    t = mpmath.sqrt(z)
    return (mpmath.atan(t) / t - 1) / z


TAN_PI_8 = mpmath.tan(mpmath.pi / 8)


def sinh_tail(z):
    r = mpmath.sqrt(z)
    return (mpmath.sinh(r) / r - 1) / z


def cosh_tail(z):
    return (mpmath.cosh(mpmath.sqrt(z)) - 1) / z


HYPERBOLIC = mpf("0.55") ** 2
QUARTER = mpf("0.79") ** 2

FITS = [
    # exp: the error is relative to exp(r)
    *(
        Fit(
            "exponential", f"EXP_{type.upper()}", type, exp_tail, lambda r: r**2 / mpmath.exp(r), (-0.3467, 0.3467), num
        )
        for type, num in (("f32", 5), ("f64", 10))
    ),
    *(
        Fit(
            "exponential",
            f"EXP2_{type.upper()}",
            type,
            lambda r: mpmath.expm1(r * mpmath.log(2)) / r,
            lambda r: r / mpmath.power(2, r),
            (-0.5, 0.5),
            num,
        )
        for type, num in (("f32", 6), ("f64", 11))
    ),
    # expm1: relative to expm1(r)
    *(
        Fit(
            "exponential", f"EXPM1_{type.upper()}", type, exp_tail, lambda r: r**2 / mpmath.expm1(r), (-0.42, 0.42), num
        )
        for type, num in (("f32", 6), ("f64", 11))
    ),
    Fit("logarithm", "LOG_F32", "f32", log_tail, lambda f: f**2 / mpmath.log1p(f), (-0.25, 0.5), 10, (-0.5,)),
    Fit("logarithm", "LOG_F64", "f64", log_odd, lambda z: z, (0, LOG_S**2), 8),
    *(
        Fit("power", f"LOG2_{type.upper()}", type, power_tail, lambda z: z**2, (0, POWER_S**2 * mpf("1.001")), num)
        for type, num in (("f32", 4), ("f64", 8))
    ),
    *(
        Fit("trigonometric", f"SIN_{type.upper()}", type, sin_tail, lambda z: z, (0, QUARTER), num)
        for type, num in (("f32", 4), ("f64", 6))
    ),
    *(
        Fit("trigonometric", f"COS_{type.upper()}", type, cos_tail, lambda z: z, (0, QUARTER), num, (-0.5,))
        for type, num in (("f32", 4), ("f64", 7))
    ),
    *(
        Fit("inverse_trigonometric", f"ATAN_{type.upper()}", type, atan_tail, lambda z: z, (0, TAN_PI_8**2), num)
        for type, num in (("f32", 5), ("f64", 11))
    ),
    *(
        Fit("hyperbolic", f"SINH_{type.upper()}", type, sinh_tail, lambda z: z, (0, HYPERBOLIC), num)
        for type, num in (("f32", 3), ("f64", 6))
    ),
    *(
        Fit("hyperbolic", f"COSH_{type.upper()}", type, cosh_tail, lambda z: z, (0, HYPERBOLIC), num)
        for type, num in (("f32", 3), ("f64", 6))
    ),
]


def text(row, coefficients):
    """The constant as it stands in its module."""
    digits = ".9g" if row.type == "f32" else ".17g"
    return f"{row.name} = (\n{''.join(f'    {format(c, digits)},{chr(10)}' for c in coefficients)})"


def main(pattern):
    """Write the constants whose name matches into their modules, and print the errors that are left."""
    for row in FITS:
        if not re.search(pattern, f"{row.module}.{row.name}"):
            continue
        coefficients, error = fit(row)
        path = MODULES / f"{row.module}.py"
        constant = re.compile(rf"^{row.name} = \((?:\)|\n.*?^\))", re.MULTILINE | re.DOTALL)
        source, count = constant.subn(text(row, coefficients), path.read_text(encoding="utf-8"))
        assert count == 1, f"{path.name} has no constant {row.name}"
        path.write_text(source, encoding="utf-8")
        sys.stdout.write(f"{row.module}.{row.name}: weighted error 2**{np.log2(error):.2f}\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
