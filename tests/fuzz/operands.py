"""Dtypes, shapes, data, indices and expressions over the live names of a scope."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

import numpy as np

from tests.fuzz.program import Reduction
from tests.fuzz.scope import Scope

# Without uint32: NumPy's scalar and vector loops differ on the floats that it does not hold.
DTYPES = (
    *("np.float64", "np.float32", "np.int64", "np.int32", "np.float32", "np.float64", "np.int32", "np.bool_"),
    *("np.float64", "np.float32", "np.int64", "np.int32", "np.float32", "np.float64", "np.int32", "np.bool_"),
    *("np.int8", "np.int16", "np.uint8", "np.uint16", "np.uint64", "np.float16", "np.complex64", "np.complex128"),
)
INTEGERS = ("0", "1", "2", "3", "-1", "-4", "7", "100")
FLOATS = ("0.0", "1.0", "2.0", "0.5", "-1.5", "3.0", "-0.0", "0.1", "1e-3", "-7.0")
SPECIAL_FLOATS = (
    "numpy.nan",
    "numpy.inf",
    "-numpy.inf",
    "-0.0",
    "0.0",
    "5e-324",
    "1e-45",
    "-1e-310",
    "1e-38",
    "3e38",
    "1.7e308",
    "16777217.0",
    "2147483648.0",
    "-2147483649.0",
    "9.3e18",
    "0.1",
    "-2.5",
)
SPECIAL_INTEGERS = ("2147483647", "-2147483648", "0", "-1", "65536", "16777217")
SPECIAL_NARROW = ("127", "0", "1", "100")
SPECIAL_INT64 = ("9223372036854775807", "-9223372036854775808", "9007199254740993", "4294967296", "-2147483649")
PYTHON_SCALARS = (
    "2",
    "1",
    "0",
    "-1",
    "3",
    "2.0",
    "0.5",
    "-1.5",
    "0.1",
    "True",
    "numpy.inf",
    "numpy.nan",
    "-0.0",
    "2147483648",
    "-2147483649",
    "9223372036854775808",
    "10**30",
    "1e300",
    "1e-320",
    "200",
    "-129",
    "65536",
    "1j",
    "(2-0.5j)",
)
NUMPY_SCALARS = (
    "np.float32(2.5)",
    "np.float64(0.1)",
    "np.int32(3)",
    "np.int64(-2)",
    "np.bool_(True)",
    "np.float32(numpy.nan)",
    "np.int32(2147483647)",
    "np.int64(4294967296)",
    "np.float64(-0.0)",
    "np.int8(-5)",
    "np.uint8(200)",
    "np.uint64(9223372036854775808)",
    "np.float16(0.1)",
    "np.complex64(1-2j)",
)
HOST_NAME = re.compile(r"\bh\d+")
SHORT = range(1, 8)  # dimensions for which a list is written out
STEPS = ("", "", "", ":2", ":-1", ":-1", ":3", ":-2")


@dataclass(frozen=True)
class Operand:
    """A piece of code, NumPy's value of it, and the reductions in it that must be exact.

    Where NumPy raises, `fails` is True and there is no value.
    """

    code: str
    value: Any
    exact: tuple[Reduction, ...] = ()
    fails: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value."""
        return () if self.fails else np.shape(self.value)


# Shapes and data ------------------------------------------------------------------------------------------------------


def shape(scope: Scope) -> tuple[int, ...]:
    """Return a shape made of the program's dimensions: a tail of them, some replaced by 1."""
    ndim = scope.draw.integer(0, len(scope.dims))
    dims = list(scope.dims[len(scope.dims) - ndim :])
    for i in range(ndim):
        if scope.draw.chance(12):
            dims[i] = 1
        elif scope.draw.chance(3):
            dims[i] = 0
    return tuple(dims)


def dtype(scope: Scope) -> str:
    """Return a dtype as code."""
    return scope.draw.choice(DTYPES)


def data(scope: Scope, dtype_code: str, count: int | None = None) -> str:
    """Return a list of values for a dtype as code; `numpy.resize` repeats it to any size."""
    draw = scope.draw
    count = count or draw.integer(1, 11)
    if dtype_code == "np.bool_":
        values = [draw.choice(("True", "False")) for _ in range(count)]
    elif dtype_code in ("np.int32", "np.int64"):
        special = SPECIAL_INTEGERS + (SPECIAL_INT64 if dtype_code == "np.int64" else ())
        values = [draw.choice(special if draw.chance(30) else INTEGERS) for _ in range(count)]
    elif dtype_code.startswith(("np.int", "np.uint")):
        values = [draw.choice(SPECIAL_NARROW if draw.chance(30) else INTEGERS) for _ in range(count)]
        if dtype_code.startswith("np.uint"):
            values = [value.lstrip("-") for value in values]
    elif dtype_code.startswith("np.complex"):
        values = [f"complex({draw.choice(FLOATS)}, {draw.choice(FLOATS)})" for _ in range(count)]
        if draw.chance(30):
            values[0] = f"complex({draw.choice(SPECIAL_FLOATS)}, {draw.choice(SPECIAL_FLOATS)})"
    else:
        special = draw.chance(60)
        values = [draw.choice(SPECIAL_FLOATS if special and draw.chance(60) else FLOATS) for _ in range(count)]
    return f"[{', '.join(values)}]"


# Indices --------------------------------------------------------------------------------------------------------------


def position(scope: Scope, size: int) -> int:
    """Return an index into a dimension, rarely out of bounds."""
    if size == 0 or scope.draw.chance(1):
        return scope.draw.choice((size, -size - 1))
    return scope.draw.integer(-size, size - 1)


def slice_code(scope: Scope, size: int) -> str:
    """Return a slice of one dimension."""
    draw = scope.draw
    if draw.chance(35):
        return draw.choice((":", "::-1", "1:", ":-1", "::2"))
    bounds = [str(draw.integer(-size - 1, size + 1)) if draw.chance(40) else "" for _ in range(2)]
    return f"{bounds[0]}:{bounds[1]}{draw.choice(STEPS)}"


def basic_index(scope: Scope, dims: tuple[int, ...], integers: int = 25) -> str:
    """Return a basic index: slices, integers (that many of 100), newaxis, ellipsis."""
    draw = scope.draw
    items = [str(position(scope, size)) if draw.chance(integers) else slice_code(scope, size) for size in dims]
    if draw.chance(15) and items:
        start = draw.integer(0, len(items) - 1)
        items[start : draw.integer(start, len(items))] = ["..."]
    elif draw.chance(30):
        del items[draw.integer(0, len(items)) :]
    for _ in range(2):
        if draw.chance(8) and len(items) < 5:
            items.insert(draw.integer(0, len(items)), "None")
    return ", ".join(items) or "..."


def element_index(scope: Scope, dims: tuple[int, ...]) -> str:
    """Return the index of one element."""
    return ", ".join(str(position(scope, size)) for size in dims) or "()"


def fancy_index(scope: Scope, dims: tuple[int, ...]) -> str:
    """Return an index with one integer list or array, among basic ones."""
    draw = scope.draw
    axis = draw.integer(0, len(dims) - 1)
    size = dims[axis]
    places = [str(draw.integer(-size, size - 1)) for _ in range(draw.integer(1, 7))] if size else []
    listed = f"[{', '.join(places)}]" if places else "np.zeros(0, dtype=np.int64)"
    if draw.chance(30) and places:
        listed = f"np.array({listed})"
    before = [slice_code(scope, dims[i]) if draw.chance(30) else ":" for i in range(axis)]
    after = [slice_code(scope, dims[axis + 1])] if axis + 1 < len(dims) and draw.chance(30) else []
    return ", ".join([*before, listed, *after])


def is_torn(target: Any, value: Any) -> bool:
    """Whether NumPy reads what it has just written: `a[::2] = a[:3]`, one dimension, with steps that differ.

    NumPy copies overlapping sources first, but of this case it believes that the order of writing takes care.
    """
    return (
        isinstance(target, np.ndarray)
        and isinstance(value, np.ndarray)
        and target.ndim == 1
        and value.ndim >= 1
        and target.strides[0] != value.strides[-1]
        and np.may_share_memory(target, value)
    )


def mask_code(scope: Scope, name: str) -> str:
    """Return a boolean mask for an array: a comparison of it or a live bool array that fits."""
    dims = np.shape(scope.values[name])
    masks = [other for other in scope.arrays() if _is_mask(scope.values[other], dims)]
    if masks and scope.draw.chance(40):
        return scope.draw.choice(masks)
    return f"{name} {scope.draw.choice(('>', '<=', '==', '!='))} {scope.draw.choice(PYTHON_SCALARS[:9])}"


def _is_mask(value: Any, dims: tuple[int, ...]) -> bool:
    return bool(value.dtype == np.bool_ and 0 < value.ndim <= len(dims) and value.shape == dims[: value.ndim])


def into_ours(x: "Operand") -> "Operand":
    """Return an expression that gives one of our arrays or scalars: what NumPy arrays take part in is copied into ours.

    A NumPy array and a scalar of ours may give either library's array.
    """
    if x.fails or not HOST_NAME.search(x.code):
        return x
    if np.asarray(x.value).dtype == object:
        return Operand("np.ones(2)", np.ones(2))
    return replace(x, code=f"np.array({x.code})", value=np.array(x.value))


# Expressions ----------------------------------------------------------------------------------------------------------


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


def _one_zero(*values: Any) -> bool:
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
        Operation("np.maximum({x}, {y})", 2, _one_zero),
        Operation("np.minimum({x}, {y})", 2, _one_zero),
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
        Operation("np.fmax({x}, {y})", 1, _one_zero),
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
    """Return a Python or NumPy scalar."""
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
