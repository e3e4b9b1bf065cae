"""Rules for functions that no operator stands for: those that give NumPy's bits, and those that round by themselves."""

import numpy as np

from tests.fuzz.rules_library import normwise, numbers, real_arrays
from tests.fuzz.scope import Scope

# {a} and {b} are arrays, {p} has no negative zero, {q} is 1 or NaN, and {i} a matrix of zeros and ones.
EXACT = (
    "np.diagflat({a}[..., :2])", "np.identity(3) + {a}", "np.tri(3, 4, 1)", "np.diag({a}[:90])", "np.linspace(0, 8, 9)",
    "np.mgrid[0:3, 0:2]", "np.ogrid[0:3, 0:2][0]", "np.diag_indices_from(np.zeros((3, 3)))[0]",
    "np.tril_indices_from({i})[0]", "np.triu_indices(len({a}[:90]), 1)[0]", "np.iscomplex({a})", "np.isreal({a})",
    "np.isneginf({a})", "np.isposinf({a})", "np.isinf({a})", "np.isclose({a}, {b})", "np.block([[{a}], [{a}]])",
    "np.column_stack([{a}, {b}])", "np.dstack([{a}, {b}])", "np.concat([{a}, {b}])", "np.ediff1d({a})",
    "np.nan_to_num({a})", "np.nan_to_num({a}, nan=7)", "np.cumulative_sum({i}, axis=-1)", "np.real_if_close({a})",
    "np.cumulative_prod({i} + 1, axis=0)", "np.unique_values({a} > 1)", "np.unique_counts({a} > 1)[1]",
    "np.unique_all({a} > 1)[2]", "np.intersect1d({i}, [1, 2])", "np.setdiff1d({i}, [1])", "np.union1d({i}, [3])",
    "np.sort_complex({i})", "np.sort({i}.ravel()[np.argpartition({i}.ravel(), 0)])", "np.ptp({p}, axis=-1)",
    "np.digitize({a}, [0, 1, 3])", "np.quantile({p}, 0.5, method='lower')", "np.bitwise_and({a}, 3)",
    "np.bitwise_or({a}, {b})", "np.bitwise_not({a})", "np.invert({a})", "np.bitwise_invert({a})",
    "np.left_shift({a}, 2)", "np.right_shift({a}, 1)", "np.bitwise_left_shift({a}, 1)",
    "np.bitwise_right_shift({a}, 1)",
    "np.atleast_3d({a})", "np.fliplr({a})", "np.flipud({a})", "np.hsplit({a}, [1])[0]", "np.vsplit({a}, [1])[-1]",
    "np.dsplit(np.atleast_3d({a}), [1])[0]", "np.permute_dims({a})", "np.rollaxis({a}, -1)", "np.unstack({a})[0]",
    "np.absolute(np.real({a}))", "np.ceil({a})", "np.conj({a})", "np.conjugate({a}) + {b}", "np.fabs({a})",
    "np.floor_divide({a}, {b})", "np.fmin({p}, 2)", "np.lcm({a}, 6)", "np.mod({a}, {b})", "np.remainder({a}, 3)",
    "np.positive({a})", "np.square({a})", "np.amax({p}, axis=-1)", "np.amin({p})", "np.cumprod({i} + 1, axis=0)",
    "np.nanmax({p})", "np.nanmin({p}, axis=0)", "np.nansum({q}, axis=-1)", "np.nanprod({q}, axis=0)",
    "np.nanargmax({q}, axis=-1)", "np.nanargmin({p})", "np.lexsort(({a} > 1, {a} > 2))", "np.greater({a}, {b})",
    "np.greater_equal({a}, {b})", "np.less_equal({a}, {b})", "np.not_equal({a}, {b})", "np.matvec({i}, {i}[0])",
    "np.vecmat({i}[:, 0], {i})", "np.vdot({i}, {i})", "np.polyadd({i}[0], [1, 2])", "np.polysub({i}[0], [1, 2])",
    "np.polyder({i}[0])", "np.around({a})", "np.round({a}, 1)", "np.nanmedian({q})", "np.nanmean({q}, axis=0)",
    "np.argpartition({i}, 0, axis=-1).shape and np.argsort({i}, axis=-1, stable=True)",
)  # fmt: skip
OBJECTS = (
    "np.allclose({a}, {b})", "np.array_equiv({a}, {b})", "np.empty_like({a}).shape", "np.isfortran({a})",
    "np.isrealobj({a})", "np.common_type({a})", "np.einsum_path('i...,i...', {a}, {a})[0]", "np.iscomplexobj({a})",
    "np.testing.assert_array_equal({a}, {b})", "np.testing.assert_allclose({a}, {a})",
    "np.testing.assert_equal({a}, {a})", "np.testing.assert_array_less({a}, {b})",
    "[v.shape for v in np.unstack({a})]", "[v.shape for v in np.atleast_3d({a}, {b})]", "np.min_scalar_type({a})",
)  # fmt: skip
# {x} has real numbers of at most nine. Sums that cancel are compared beside a number that does not.
ROUNDED = (
    "np.sin({x})", "np.cos({x})", "np.tan({x})", "np.arcsin({x} / 9)", "np.arccos({x} / 9)", "np.arctan({x})",
    "np.sinh({x})", "np.cosh({x})", "np.tanh({x})", "np.arcsinh({x})", "np.arccosh(abs({x}) + 1)",
    "np.arctanh({x} / 10)", "np.exp({x})", "np.exp2({x})", "np.expm1({x})", "np.log(abs({x}) + 0.5)",
    "np.log2(abs({x}) + 0.5)", "np.log10(abs({x}) + 0.5)", "np.log1p(abs({x}))", "np.cbrt({x})", "np.deg2rad({x})",
    "np.rad2deg({x})", "np.degrees({x})", "np.radians({x})", "np.sinc({x} / 7)", "np.i0({x} / 3)",
    "np.angle({x} + 1j)", "np.acos({x} / 9)", "np.asin({x} / 9)", "np.atan({x})", "np.acosh(abs({x}) + 1)",
    "np.asinh({x})", "np.atanh({x} / 10)", "np.exp({x} * 1j)", "np.sin({x} + 1j)", "np.log({x} + 1j)",
    "np.sqrt({x} * 1j)", "np.tanh({x} / 9 + 1j)", "np.hypot({x}, 3)", "np.arctan2({x}, 2.5)", "np.atan2({x}, -1)",
    "np.logaddexp({x}, 1)", "np.logaddexp2({x}, {x})", "np.power(abs({x}) + 0.5, 1.5)", "np.float_power({x}, 3)",
    "np.pow(abs({x}) + 0.5, {x} / 9)", "np.reciprocal({x} + 20.5)", "np.nanmean({x}, axis=-1) + 1",
    "np.nanstd({x} * 1.0) + 1", "np.nanvar({x} * 1.0, axis=0) + 1", "np.nanmedian({x})", "np.nanpercentile({x}, 30)",
    "np.quantile({x}, 0.3, axis=0)", "np.cov({x}) + 1", "np.average({x}, axis=0) + 1",
    "np.corrcoef(np.append({x}, [20, -30]), np.append({x}, [-70, 90]))", "np.trapezoid({x}, axis=-1) + 1",
    "np.gradient({x} * 1.0)",
    "np.unwrap({x} * 1.0)", "np.hanning(17)", "np.bartlett(9)", "np.blackman(12)", "np.hamming(8)",
    "np.kaiser(12, 5.0)",
    "np.geomspace(1, 100, 7)", "np.logspace(0, 2, 5)", "np.linspace(0, {x}.max(), 7)",
    "np.cumulative_sum({x} * 0.1, axis=-1)",
    "np.cumsum({x} * 0.1)", "np.median({x} * 0.1, axis=-1)", "np.polyval([0.5, 1, 2], {x})",
    "np.std({x} * 1.0, axis=0) + 1",
    "np.exp({x}) / np.exp({x}).sum()", "np.log1p(np.exp({x}))", "np.sin({x}) ** 2 + np.cos({x}) ** 2",
    "{P}.chebyshev.chebval({x} / 9, [1, 2, 3])", "{P}.legendre.legval({x} / 9, [1, 2, 3])",
    "{P}.hermite.hermval({x} / 9, [1, 2, 3])", "{P}.hermite_e.hermeval({x} / 9, [1, 2])",
    "{P}.laguerre.lagval({x} / 9, [1, 2, 3])", "{P}.polynomial.polyvander({x} / 9, 3)",
    "{P}.chebyshev.chebvander({x} / 9, 3)", "{P}.polynomial.polyval2d({x} / 9, {x} / 9, [[1, 2], [3, 4]])",
    "{P}.polynomial.polygrid2d({x}.ravel()[:4], {x}.ravel()[:3], [[1, 2], [3, 4]])",
    "{P}.legendre.legvander({x} / 9, 2)", "{P}.chebyshev.chebder([1, 2, 3.5])",
    "{P}.polynomial.polyfit([1, 2, 3], [1, 2, 4], 1)",
    "np.tanh({x}).sum(axis=-1)", "np.polyint({x}.ravel()[:4])", "np.vander({x}.ravel()[:4], 3) * 1.0",
)  # fmt: skip


def exact_function(scope: Scope) -> None:
    """Bind what a function gives to the bit."""
    names = [name for name in scope.arrays() if np.size(scope.values[name]) * 4 <= scope.max_size]
    if not names:
        return
    draw, a = scope.draw, scope.pick(names)
    forms = {"a": a, "b": draw.choice((a, scope.pick(names))), "p": f"({a} + 0)"}
    forms["q"] = f"np.where({a} > 1, 1.0, numpy.nan)"
    forms["i"] = f"((np.atleast_2d({a}) > 1) + 0)"
    if draw.chance(12):
        scope.emit("exact_function", f"{scope.fresh('o')} = {draw.choice(OBJECTS).format(**forms)}")
    else:
        scope.emit("exact_function", f"{scope.target()} = {draw.choice(EXACT).format(**forms)}")


def rounded_function(scope: Scope) -> None:
    """Bind what a function gives that rounds as it likes, to a name that is only compared."""
    names = real_arrays(scope, 0)
    if names:
        normwise(
            scope,
            "rounded_function",
            scope.draw.choice(ROUNDED).format(x=numbers(scope.pick(names)), P="np.polynomial"),
        )
