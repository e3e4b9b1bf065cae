"""Rules that write: in-place operators, `out=`, assignment to slices, overlapping copies, fancy and boolean indices."""

import numpy as np

from tests.fuzz import expressions, operands
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
SPECIAL_INDICES = (
    "{ones}", "np.nonzero({a})", "{a}.ravel()[0] > 0", "True", "np.False_", "..., [0, 0]", "[[0, -1], [-1, 0]]", "[]",
    "{a} != {a}", "np.arange(len({a}))[::-1]", "np.argmax({a} > 1) % len({a})", "([0, -1],)",
    "..., {a}.reshape(-1)[:1] > 0", "[True] * len({a})", "None, [0]", "[0], None, ..., [0]", "np.int64(0)",
    "np.int32(-1), ...", "(np.arange(3) % len({a}), ...)", "(np.arange(3) % len({a}), None, np.array([0, 0, -1]))",
    "(..., np.array([[0], [-1]]))", "(np.array([0, -1, 0]), 0)", "(slice(None), np.array([0, 0]))",
    "({a}.reshape(len({a}), -1)[:, 0] > 1, 0)", "(np.array([0, -1]), slice(None, None, -1))",
    "(slice(None, None, 2), np.array([[0, -1]]), None)", "(0, np.array([0, 0]))", "np.array([0, 1], dtype=np.uint8)",
)  # fmt: skip
# Functions and methods that change their argument.
MUTATIONS = (
    "{a}.fill({s})", "np.copyto({a}, {x})", "np.copyto({a}, {x}, where={a} > 1)",
    "np.copyto({a}, {x}, casting='unsafe')", "np.put({a}, [0, -1], {s})", "{a}.put([0, -1], [1, 2])",
    "np.putmask({a}, {a} > 1, {s})", "np.place({a}, {a} > 1, [1, 2])", "{a}.sort(axis=0)", "{a}.sort(kind='stable')",
    "np.add.at({a}, [0, 0, -1], {s})", "{a}.flat[1:3] = {s}", "{a}.flat = {x}", "np.fill_diagonal({a}, {s})",
    "{a}.itemset is None", "numpy.copyto({a}, {x})", "numpy.add({a}, {x}, out={a})", "{a}.flags.writeable = False",
    "{a}.setflags(write=True)", "{a}.shape = (-1,)", "{a}[...] = [[1, 2], [3, 4]]", "{a}[:2] = [1, 2]",
    "{a}[-1] = {a}.tolist()[0]", "np.put_along_axis({a}, np.argsort({a} > 1, axis=0, kind='stable'), {s}, axis=0)",
    "np.add.at({a}, [0, 0, -1], {x})", "np.maximum.at({a}, (np.array([0, -1, 0]), 0), 3)",
    "np.subtract.at({a}, {a} > 1, {s})", "np.put({a}, np.arange(3), {x}, mode='wrap')", "np.putmask({a}, {a} > 1, {x})",
    "np.place({a}, {a} > 0, {x} + 0)", "{a}.put(np.array([1, 1, -1]), {x}, mode='wrap')", "{a}.sort()",
    "np.multiply.at({a}, np.array([0, -1, 0]), 2)", "np.fill_diagonal({a}, {x} + 0)",
    "{a}[np.array([0, 0, -1])] += {s}",
    "np.clip({a}, -2, 5, out={a})", "np.concatenate([{a}[:1], {a}[1:]], out={a})",
    "np.take({a}, [0], axis=0, out={a}[:1])", "np.rint({a}, out={a})", "{a}.partition(0)\n{a}.sort()",
)  # fmt: skip


def whole(scope: Scope, name: str | None = None) -> None:
    """Apply an in-place operator to a whole array (or view held by a name)."""
    names = scope.operands()
    if not names:
        return
    name = name or scope.pick(names)
    x = _value(scope, np.shape(scope.values[name]))
    scope.emit("whole", f"{name} {scope.draw.choice(OPERATORS)} {x.code}", x.exact)


def part(scope: Scope, name: str | None = None) -> None:
    """Assign to a slice, or apply an in-place operator to it."""
    names = scope.arrays()
    if not names:
        return
    name = name or scope.pick(names)
    target = f"{name}[{operands.basic_index(scope, np.shape(scope.values[name]))}]"
    if scope.draw.chance(10):
        target = f"{name}.T[...]"
    dims = np.shape(scope.try_evaluate(target)[0])
    x = _value(scope, dims)
    sign = "=" if scope.draw.chance(60) else scope.draw.choice(OPERATORS)
    if sign == "=" and operands.is_torn(scope.try_evaluate(target)[0], x.value):
        sign = "+="
    scope.emit("part", f"{target} {sign} {x.code}", x.exact)


def overlap(scope: Scope, name: str | None = None) -> None:
    """Write a part of an array from an overlapping part of it, by assignment, operator or `out=`."""
    draw = scope.draw
    name = name or _indexable(scope)
    if name is None or not np.ndim(scope.values[name]):
        return
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
        ufunc = "add" if np.size(scope.try_evaluate(target)[0]) == 1 else draw.choice(("add", "multiply"))
        scope.emit("overlap", f"np.{ufunc}({read}, {other.code}, out={target})", other.exact)
    else:
        scope.emit("overlap", f"{target} {sign} {value}", exact)


def late_write(scope: Scope) -> None:
    """Bind what reads an array, then write into that array (or a view of it): the reader must not see it."""
    draw = scope.draw
    names = scope.arrays()
    if not names:
        return
    name = scope.pick(names)
    x = operands.into_ours(expressions.reading(scope, name))
    scope.emit("late_write", f"{scope.fresh()} = {x.code}", x.exact)
    if draw.chance(30):
        view = scope.fresh()
        scope.emit("late_write", f"{view} = {name}[{operands.basic_index(scope, np.shape(scope.values[name]))}]")
        name = view if isinstance(scope.values.get(view), np.ndarray) else name
    for _ in range(draw.integer(1, 2)):
        draw.choice((part, part, whole, overlap))(scope, name)


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
    if ufunc == "maximum" and not all(expressions.is_integer(x.value) for x in inputs if not x.fails):
        ufunc = "add"
    if ufunc in ("less", "equal") and any(expressions.is_large(x.value) for x in inputs):
        ufunc = "add"  # NumPy dies of comparing an integer that does not fit with `where=` or a cast into the output
    if ufunc == "sqrt" and not expressions.is_real(inputs[0].value):
        ufunc = "negative"
    options = ", casting='unsafe'" if draw.chance(12) else ""
    is_single = np.size(scope.try_evaluate(target)[0]) == 1 and not expressions.is_real(scope.try_evaluate(target)[0])
    if ufunc == "multiply" and is_single:
        ufunc = "add"  # see `Scope._defined`
    arguments = ", ".join(x.code for x in inputs)
    if draw.chance(10):
        mask = f", where={operands.mask_code(scope, name)}"
        options += "" if _rounds_what_is_left_out(scope, target, f"np.{ufunc}({arguments})", inputs) else mask
    bound = f"{scope.fresh()} = " if draw.chance(20) else ""
    given = draw.choice(("out={}", "out={}", "out={}", "{}", "out=({},)")).format(target)
    scope.emit("out", f"{bound}np.{ufunc}({arguments}, {given}{options})", sum((x.exact for x in inputs), ()))


def _rounds_what_is_left_out(scope: Scope, target: str, call: str, inputs: list[Operand]) -> bool:
    """Tell whether NumPy casts the output there and back as a whole: one of another dtype that overlaps an input."""
    (held, is_held), (made, is_made) = scope.try_evaluate(target), scope.try_evaluate(call)
    if not (is_held and is_made) or np.asarray(held).dtype == np.asarray(made).dtype:
        return False
    return any(isinstance(x.value, np.ndarray) and np.may_share_memory(x.value, held) for x in inputs)


def mutate(scope: Scope) -> None:
    """Call a function or method that changes an array."""
    names = scope.arrays()
    if not names:
        return
    a = scope.pick(names)
    x = _value(scope, np.shape(scope.values[a]))
    template = scope.draw.choice(MUTATIONS)
    if "write=True" in template and _owner(scope.values[a]) is not None:
        return  # NumPy refuses it of what `as_strided` makes, ours does not know who made it
    exact = x.exact
    if ".sort(" in template and "stable" not in template:
        # Where zeros of either sign end up depends on NumPy's SIMD sort, and so on the CPU.
        ordered = expressions.reduction("max", Operand(a, scope.values[a]), None, None, keepdims=False)
        if not ordered.is_exact(scope.values[a]):
            return
        exact = (ordered,)
    scope.emit("mutate", template.format(a=a, x=x.code, s=scope.draw.choice(operands.INTEGERS)), exact)


def _owner(array: object) -> object:
    """Return what an array's memory belongs to, if that is no array."""
    while isinstance(array, np.ndarray):
        array = array.base
    return array


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
        found, is_found = scope.try_evaluate(x.code)
        if is_found and isinstance(found, np.ndarray) and np.may_share_memory(found, scope.values[name]):
            x = Operand(f"({x.code}).copy()", None)  # with a mask NumPy would read what it has just written
    scope.emit("fancy_write", f"{target} {draw.choice(('=', '=', '+=', '*='))} {x.code}", x.exact)


def _indexable(scope: Scope) -> str | None:
    names = [name for name in scope.arrays() if np.ndim(scope.values[name])]
    return scope.pick(names) if names else None


def _advanced(scope: Scope, name: str) -> str:
    dims = np.shape(scope.values[name])
    form = scope.draw.integer(0, 9)
    if form < 4:
        return operands.mask_code(scope, name)
    if form < 8:
        return operands.fancy_index(scope, dims)
    return scope.draw.choice(SPECIAL_INDICES).format(a=name, ones=", ".join("[0, -1]" for _ in dims))


def _value(scope: Scope, dims: tuple[int, ...]) -> Operand:
    """Return an expression that can be written into a shape (mostly)."""
    x = expressions.expression(scope, scope.draw.integer(0, 2), dims)
    if x.fails or _fits(x.shape, dims):
        return x
    if scope.draw.chance(3) and expressions.joint_size(x.shape, dims) <= scope.max_size:
        return x
    return expressions.scalar(scope)


def _fits(source: tuple[int, ...], dims: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(source, dims) == dims
    except ValueError:
        return False
