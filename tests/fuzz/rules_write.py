"""Rules that write: in-place operators, `out=`, assignment to slices, overlapping copies, fancy and boolean indices."""

import numpy as np

from tests.fuzz import operands
from tests.fuzz.operands import Operand
from tests.fuzz.scope import Scope

OPERATORS = ("+=", "-=", "*=", "/=", "+=", "*=", "-=", "//=", "&=")
OVERLAPS = (("1:", ":-1"), (":-1", "1:"), ("::-1", ":"), (":", "::-1"), ("2:", ":-2"), (":-2", "2:"), ("::2", "1::2"),
            ("1:-1", "2:"), ("1:-1", ":-2"), ("::-2", "::2"), ("1::2", "::2"))  # fmt: skip
UFUNCS = (
    "add",
    "subtract",
    "multiply",
    "true_divide",
    "sqrt",
    "less",
    "equal",
    "maximum",
    "negative",
    "add",
    "multiply",
)
UNARY = ("sqrt", "negative")


def whole(scope: Scope) -> None:
    """Apply an in-place operator to a whole array (or view held by a name)."""
    names = scope.operands()
    if not names:
        return
    name = scope.pick(names)
    x = _value(scope, np.shape(scope.values[name]))
    scope.emit("whole", f"{name} {scope.draw.choice(OPERATORS)} {x.code}", x.exact)


def part(scope: Scope) -> None:
    """Assign to a slice, or apply an in-place operator to it."""
    names = scope.arrays()
    if not names:
        return
    name = scope.pick(names)
    target = f"{name}[{operands.basic_index(scope, np.shape(scope.values[name]))}]"
    if scope.draw.chance(10):
        target = f"{name}.T[...]"
    dims = np.shape(scope.try_evaluate(target)[0])
    x = _value(scope, dims)
    sign = "=" if scope.draw.chance(60) else scope.draw.choice(OPERATORS)
    scope.emit("part", f"{target} {sign} {x.code}", x.exact)


def overlap(scope: Scope) -> None:
    """Write a part of an array from an overlapping part of it, by assignment, operator or `out=`."""
    draw = scope.draw
    names = [name for name in scope.arrays() if np.ndim(scope.values[name])]
    if not names:
        return
    name = scope.pick(names)
    prefix = ":, " * draw.integer(0, np.ndim(scope.values[name]) - 1)
    into, source = draw.choice(OVERLAPS)
    target, read = f"{name}[{prefix}{into}]", f"{name}[{prefix}{source}]"
    if draw.chance(12):
        target, read = f"{name}[...]", f"{name}.T"
    other = _value(scope, np.shape(scope.try_evaluate(target)[0]))
    exact: tuple[operands.Reduction, ...] = ()
    value = read
    form = draw.integer(0, 9)
    if form >= 4:
        value = draw.choice((f"{read} + {other.code}", f"{read} * 2 - {target}", f"({target} + {read}) * 0.5",
                             f"np.where({read} > 1, {target}, {read})", f"{other.code} + {read} * {read}"))  # fmt: skip
        exact = other.exact
    sign = draw.choice(("=", "=", "=", "+=", "-=", "*="))
    if draw.chance(25):
        scope.emit("overlap", f"np.{draw.choice(('add', 'multiply'))}({read}, {other.code}, out={target})", other.exact)
    else:
        scope.emit("overlap", f"{target} {sign} {value}", exact)


def out(scope: Scope) -> None:
    """Call a ufunc with `out=`: another array, an input, a view overlapping an input."""
    draw = scope.draw
    names = scope.arrays()
    if not names:
        return
    name = scope.pick(names)
    dims = np.shape(scope.values[name])
    target = name if draw.chance(60) else f"{name}[{operands.basic_index(scope, dims)}]"
    ufunc = draw.choice(UFUNCS)
    dims = np.shape(scope.try_evaluate(target)[0])
    inputs = [_value(scope, dims) for _ in range(1 if ufunc in UNARY else 2)]
    if ufunc == "maximum" and not all(operands.is_integer(x.value) for x in inputs if not x.fails):
        ufunc = "add"
    casting = ", casting='unsafe'" if draw.chance(12) else ""
    arguments = ", ".join(x.code for x in inputs)
    bound = f"{scope.fresh()} = " if draw.chance(20) else ""
    scope.emit("out", f"{bound}np.{ufunc}({arguments}, out={target}{casting})", sum((x.exact for x in inputs), ()))


def fancy_read(scope: Scope) -> None:
    """Bind an integer-array or boolean index of an array: a copy."""
    name = _indexable(scope)
    if name is None:
        return
    scope.emit("fancy_read", f"{scope.target()} = {name}[{_advanced(scope, name)}]")


def fancy_write(scope: Scope) -> None:
    """Write through an integer-array or boolean index, from another index of the same array or an expression."""
    draw = scope.draw
    name = _indexable(scope)
    if name is None:
        return
    target = f"{name}[{_advanced(scope, name)}]"
    value, has_value = scope.try_evaluate(target)
    if draw.chance(25):
        x = Operand(f"{name}[{_advanced(scope, name)}]", None)
    else:
        x = _value(scope, np.shape(value) if has_value else ())
    scope.emit("fancy_write", f"{target} {draw.choice(('=', '=', '+=', '*='))} {x.code}", x.exact)


def fancy_failing(scope: Scope) -> None:
    """Read or write out of bounds: IndexError, nothing written.

    The reading is fetched in the same statement, because a device may report a bad index as late as that.
    """
    name = _indexable(scope)
    if name is None:
        return
    index = f"[0, {len(np.asarray(scope.values[name])) + 3}]"
    code = scope.draw.choice((f"str({name}[{index}])", f"{name}[{index}] = 1\nstr({name})"))
    scope.emit("fancy_failing", code)


def _indexable(scope: Scope) -> str | None:
    names = [name for name in scope.arrays() if np.ndim(scope.values[name])]
    return scope.pick(names) if names else None


def _advanced(scope: Scope, name: str) -> str:
    if scope.draw.chance(50):
        return operands.mask_code(scope, name)
    return operands.fancy_index(scope, np.shape(scope.values[name]))


def _value(scope: Scope, dims: tuple[int, ...]) -> Operand:
    """Return an expression that can be written into a shape (mostly)."""
    x = operands.expression(scope, scope.draw.integer(0, 2), dims)
    if x.fails or scope.draw.chance(3) or _fits(x.shape, dims):
        return x
    return operands.scalar(scope)


def _fits(source: tuple[int, ...], dims: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(source, dims) == dims
    except ValueError:
        return False
