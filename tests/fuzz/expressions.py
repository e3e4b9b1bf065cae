"""Expressions over the live names of a scope: a table of operations, and how they are put together."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

import numpy as np

from tests.fuzz.operands import NUMPY_SCALARS, PYTHON_SCALARS, SHORT, Operand, basic_index, data
from tests.fuzz.program import Reduction
from tests.fuzz.scope import Scope


@dataclass(frozen=True)
class Operation:
    """One row of the table of operations that expressions are made of.

    Attributes
    ----------
    template : str
        Code, with {x}, {y}, {z} for the operands.
    weight : int
        How often.
    accepts : callable(*values) or None
        Whether NumPy's result for these operands is well defined.
    """

    template: str
    weight: int
    accepts: Callable[..., bool] | None = None
    arity: int = field(default=0)

    def with_arity(self) -> "Operation":
        """Return the row with its number of operands."""
        return replace(self, arity=sum(f"{{{name}}}" in self.template for name in "xyz"))


def one_zero(*values: Any) -> bool:
    """NumPy's choice between +0 and -0 depends on its vector width."""
    parts = [part for v in values for part in (np.real(v), np.imag(v)) if np.asarray(part).dtype.kind == "f"]
    zeros = [np.signbit(part)[part == 0] for part in map(np.asarray, parts)]
    return np.unique(np.concatenate([np.atleast_1d(z).ravel() for z in zeros])).size <= 1 if zeros else True


# NumPy before 2.2 crashes where it compares a view of negative stride with a Python integer that does not fit.
COMPARES_ANY_INTEGER = np.lib.NumpyVersion(np.__version__) >= "2.2.0"


def comparable(*values: Any) -> bool:
    """Tell whether NumPy survives comparing these."""
    return COMPARES_ANY_INTEGER or not any(is_large(v) for v in values)


def is_large(value: Any) -> bool:
    """Tell whether a value is a Python integer that not every dtype holds."""
    return type(value) is int and not 0 <= value < 128


def is_real(*values: Any) -> bool:
    """NumPy's roots of complex numbers are the C library's, correct to an ulp or two."""
    return not any(np.iscomplexobj(v) for v in values)


def _all_integers(*values: Any) -> bool:
    return all(is_integer(v) for v in values)


def _all_real(*values: Any) -> bool:
    return not any(np.asarray(v).dtype.kind == "c" for v in values)


def _no_nan(*values: Any) -> bool:
    """The sign of a NaN is nobody's promise."""
    return not any(np.asarray(v).dtype.kind in "fc" and np.isnan(v).any() for v in values)


OPERATIONS = tuple(
    row.with_arity()
    for row in (
        Operation("({x} + {y})", 30),
        Operation("({x} - {y})", 22),
        Operation("({x} * {y})", 26),
        Operation("({x} / {y})", 14),
        Operation("np.add({x}, {y})", 4),
        Operation("np.subtract({x}, {y})", 2),
        Operation("np.multiply({x}, {y})", 2),
        Operation("np.true_divide({x}, {y})", 2),
        Operation("np.add({x}, {y}, dtype=np.float64)", 2),
        Operation("np.multiply({x}, {y}, dtype=np.float32)", 1),
        Operation("(lambda x: x * x + x)({x})", 4),
        Operation("np.sqrt({x})", 10, is_real),
        Operation("({x} < {y})", 4, comparable),
        Operation("({x} <= {y})", 3, comparable),
        Operation("({x} > {y})", 4, comparable),
        Operation("({x} >= {y})", 3, comparable),
        Operation("({x} == {y})", 4, comparable),
        Operation("({x} != {y})", 3, comparable),
        Operation("np.less({x}, {y})", 1, comparable),
        Operation("np.where({x}, {y}, {z})", 8),
        Operation("np.where({x} > {y}, {x}, {y})", 3, comparable),
        Operation("({x}).astype(np.float64)", 3),
        Operation("({x}).astype(np.float32)", 5),
        Operation("({x}).astype(np.int64)", 3),
        Operation("({x}).astype(np.int32)", 4),
        Operation("({x}).astype(np.float16)", 1),
        Operation("({x}).astype(np.uint8)", 1),
        Operation("({x}).astype(np.complex64)", 1),
        Operation("({x}).astype(bool)", 3),
        Operation("(-{x})", 4),
        Operation("abs({x})", 3, _all_real),
        Operation("({x} ** 2)", 2),
        Operation("np.maximum({x}, {y})", 2, one_zero),
        Operation("np.minimum({x}, {y})", 2, one_zero),
        Operation("({x} // {y})", 2),
        Operation("({x} % {y})", 2),
        Operation("({x} == None)", 1),
        Operation("({x} & {y})", 1),
        Operation("(~{x})", 1),
        Operation("np.floor({x})", 1),
        Operation("np.isnan({x})", 2),
        Operation("({x} | {y})", 1),
        Operation("({x} ^ {y})", 1),
        Operation("({x} << {y})", 1),
        Operation("({x} >> {y})", 1),
        Operation("np.bitwise_count({x})", 1),
        Operation("np.fmod({x}, {y})", 1),
        Operation("divmod({x}, {y})[1]", 1),
        Operation("np.divmod({x}, {y})[0]", 1),
        Operation("np.modf({x})[0]", 1),
        Operation("np.frexp({x})[1]", 1),
        Operation("np.ldexp({x}, 3)", 1),
        Operation("np.sign({x})", 1, _all_real),
        Operation("np.signbit({x})", 1, _no_nan),
        Operation("np.copysign({x}, {y})", 1, _no_nan),
        Operation("np.nextafter({x}, {y})", 1),
        Operation("np.spacing({x})", 1),
        Operation("np.heaviside({x}, {y})", 1),
        Operation("np.rint({x})", 1, _all_real),
        Operation("np.trunc({x})", 1),
        Operation("np.isfinite({x})", 1),
        Operation("np.logical_and({x}, {y})", 1),
        Operation("np.logical_not({x})", 1),
        Operation("np.fmax({x}, {y})", 1, one_zero),
        Operation("np.gcd({x}, {y})", 1),
        Operation("({x} ** 3)", 1, _all_integers),
        Operation("({x} ** abs({y} % 5))", 1, _all_integers),
        Operation("({x} ** -1)", 1, _all_integers),
        Operation("np.add({x}, {y}, dtype=np.float64, casting='unsafe')", 1, _all_real),
        Operation("np.clip({x}, -2, 5)", 1, _all_integers),
        Operation("numpy.add({x}, {y})", 2),
        Operation("numpy.sqrt({x})", 1, is_real),
        Operation("(numpy.where({x}, {y}, {z}) * 1)", 1),
    )
)
OPERATION_WEIGHTS = tuple(accumulate(row.weight for row in OPERATIONS))


def scalar(scope: Scope) -> Operand:
    """Return a Python or NumPy scalar, which may be one that others have, too."""
    numbers = scope.numbers()
    if numbers and scope.draw.chance(50):
        name = scope.pick(numbers)
        return Operand(name, scope.values[name])
    code = scope.draw.choice(PYTHON_SCALARS if scope.draw.chance(70) else NUMPY_SCALARS)
    return Operand(code, scope.evaluate(code))


def named(scope: Scope, like: tuple[int, ...] | None = None) -> Operand:
    """Return a live name or a view of one, whose shape broadcasts with `like` where one does."""
    names = scope.operands()
    if like is not None:
        fitting = [name for name in names if _broadcasts(np.shape(scope.values[name]), like)]
        names = names if not fitting or scope.draw.chance(2) else fitting
    if not names:
        return scalar(scope)
    if like and like[-1] in SHORT and scope.draw.chance(3):
        code = data(scope, "np.int32", like[-1])
        return Operand(code, scope.evaluate(code))
    name = scope.pick(names)
    value = scope.values[name]
    if not isinstance(value, np.ndarray) or not scope.draw.chance(30):
        return Operand(name, value)
    code = f"{name}.T" if scope.draw.chance(25) else f"{name}[{basic_index(scope, value.shape, integers=10)}]"
    view, has_value = scope.try_evaluate(code)
    if not has_value or (like is not None and not _broadcasts(np.shape(view), like)):
        return Operand(name, value)
    return Operand(code, view)


def expression(scope: Scope, depth: int, like: tuple[int, ...] | None = None, scalars: int = 15) -> Operand:
    """Return an expression of at most `depth` levels whose shape broadcasts with `like` (mostly).

    An expression of no level is a scalar in `scalars` of 100 cases, else a name or a view of one.
    """
    draw = scope.draw
    if depth == 0 or draw.chance(10):
        return scalar(scope) if draw.chance(scalars) else named(scope, like)
    if draw.chance(5):
        reduced = inner_reduction(scope, depth - 1, like)
        if reduced is not None:
            return reduced
    row = draw.weighted(OPERATIONS, OPERATION_WEIGHTS)
    operands = [expression(scope, depth - 1, like, scalars=6)]
    while len(operands) < row.arity:
        if draw.chance(8):
            operands.append(operands[0])  # one node used twice
        else:
            shared = like or operands[0].shape or None
            operands.append(expression(scope, draw.integer(0, depth - 1), shared, scalars=35))
    return combine(scope, row, operands)


def reading(scope: Scope, name: str) -> Operand:
    """Return an operation with a name (or a view of it) as one operand."""
    row = scope.draw.weighted(OPERATIONS, OPERATION_WEIGHTS)
    x = Operand(name, scope.values[name])
    if scope.draw.chance(30):
        code = f"{name}[{basic_index(scope, x.shape, integers=10)}]"
        view, has_value = scope.try_evaluate(code)
        x = Operand(code, view) if has_value else x
    others = [expression(scope, 0, x.shape, scalars=35) for _ in range(row.arity - 1)]
    others.insert(scope.draw.integer(0, len(others)), x)
    return combine(scope, row, others)


def combine(scope: Scope, row: Operation, operands: list[Operand]) -> Operand:
    """Return the operation of the operands, or the first operand where that is undefined or raises (mostly)."""
    failing = next((x for x in operands if x.fails), None)
    if failing is not None:
        return failing
    if any(isinstance(x.value, list) for x in operands) and not any(isinstance(x.value, np.ndarray) for x in operands):
        return scalar(scope)  # lists alone add up to longer lists
    names = dict(zip("xyz", operands, strict=False))
    values = {name: x.value for name, x in names.items()}
    if row.accepts is not None and not row.accepts(*values.values()):
        return operands[0]
    code = row.template.format(**{name: x.code for name, x in names.items()})
    exact = sum((x.exact for x in operands), ())
    if joint_size(*(x.shape for x in operands)) > scope.max_size:
        return operands[0]
    value, has_value = scope.try_evaluate(
        row.template.format(x="_x", y="_y", z="_z"), **{f"_{name}": value for name, value in values.items()}
    )
    if not has_value:
        return Operand(code, None, exact, fails=True) if scope.draw.chance(25) else operands[0]
    if np.asarray(value).dtype == object:
        return operands[0]
    return Operand(code, value, exact)


def joint_size(*shapes: tuple[int, ...]) -> int:
    """Return the number of elements of what shapes broadcast to; 0 where they do not."""
    try:
        return math.prod(np.broadcast_shapes(*shapes))
    except ValueError:
        return 0


def inner_reduction(scope: Scope, depth: int, like: tuple[int, ...] | None) -> Operand | None:
    """Return an exact reduction to broadcast back, like x / x.sum(), or None."""
    x = expression(scope, depth, like)
    if x.fails or not isinstance(x.value, np.ndarray) or x.value.size == 0:
        return None
    name = scope.draw.choice(("sum", "max"))
    axis = scope.draw.integer(-x.value.ndim, x.value.ndim - 1) if x.value.ndim and scope.draw.chance(50) else None
    needed = reduction(name, x, None, axis, keepdims=True)
    if not needed.is_exact(x.value):
        return None
    code = f"np.{name}({x.code}, axis={axis}, keepdims=True)" if axis is not None else f"({x.code}).{name}()"
    return Operand(code, scope.evaluate(code), (*x.exact, needed))


def reduction(name: str, x: Operand, dtype_code: str | None, axis: Any, *, keepdims: bool) -> Reduction:
    """Return the record of a reduction."""
    accumulated = str(np.dtype(eval(dtype_code, {"np": np}))) if dtype_code else None  # noqa: S307 - our own code
    return Reduction(name, x.code, accumulated, axis, keepdims)


def _broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return all(m == n or 1 in (m, n) for m, n in zip(a[::-1], b[::-1], strict=False))


def weighted_index(scope: Scope, weights: list[int]) -> int:
    """Return an index, index i with weight weights[i]."""
    return scope.draw.weighted(range(len(weights)), tuple(accumulate(weights)))


def is_integer(value: Any) -> bool:
    """Tell whether a value is of an integer or bool dtype."""
    return np.asarray(value).dtype.kind in "biu"
