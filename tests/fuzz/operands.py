"""Dtypes, shapes, data, indices and masks for the live names of a scope."""

import re
from dataclasses import dataclass, replace
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
