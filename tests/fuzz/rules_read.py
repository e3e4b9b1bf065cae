"""Rules that reduce, read elements, loop over elements and convert to Python objects."""

from dataclasses import replace

import numpy as np

from tests.fuzz import expressions, operands
from tests.fuzz.program import Reduction
from tests.fuzz.scope import Scope

ELEMENT_CONVERSIONS = (
    "float({e})", "int({e})", "bool({e})", "complex({e})", "repr({e})", "str({e})",
    "{e} != {e} or hash({e}) == hash({e}.item())",  # a NaN's is of where the object lies
    "{e}.item()", "{e}.dtype", "{e}.shape", "f'{{{e}}}'", "f'{{float({e}):.3f}}'", "round(float({e}), 2)", "{e} == 3",
    "{e} + 1", "1.5 * {e}", "{e} / {e}", "isinstance({e}, np.floating)", "isinstance({e}, np.integer)",
    "max({e}, {e})", "operator.index({e})", "[10, 20, 30][{e}]", "'%s' % {e}", "-{e}", "{e} < 2", "not {e}",
    "math.isfinite({e})", "{{1: 'a', 0: 'b'}}.get({e})", "abs({e})", "{e}.astype(np.float32)", "np.sqrt({e})",
    "len({e})",
)  # fmt: skip
COMPLEX_CONVERSIONS = tuple(code for code in ELEMENT_CONVERSIONS if "sqrt" not in code)  # see `is_real`
ARRAY_CONVERSIONS = (
    "float({a})", "int({a})", "bool({a})", "len({a})", "repr({a})", "str({a})", "{a}.tolist()", "{a}.item()",
    "{a}.shape", "{a}.dtype", "{a}.size", "{a}.ndim", "{a}.nbytes", "{a}.itemsize", "{a}.flags.writeable",
    "{a}.strides if {a}.size and 1 not in {a}.shape else None", "{a}.flags.c_contiguous", "{a}.flags.f_contiguous",
    "[float(v) for v in {a}]", "list({a})", "3 in {a}", "np.array_equal({a}, {b})", "{a} is {b}", "numpy.shape({a})",
    "np.shares_memory({a}, {b})", "np.size({a})", "({a} == {a}.ravel()[:1]).all()", "[v.shape for v in {a}]",
    "np.isscalar({a})", "({a} == {a}).tobytes()", "numpy.array_equal({a}, {b})", "f'{{{a}}}'", "{a}.any()",
    "np.result_type({a}, {b}, 2)", "operator.index({a})", "sorted({a}.ravel() > 1)", "max({a}.ravel())",
    "[x.shape for x in np.nonzero({a})]", "{a}.T.tolist()", "float(np.max({a} > 1))",
    "[int(v) for v in ({a} > 1).ravel()]", "{a}.ravel()[:1].tolist()", "np.can_cast({a}.dtype, {b}.dtype)",
    "np.ndim({a})", "[bool(v) for v in {a}.flat]", "sum(v > 0 for v in {a})",
)  # fmt: skip
LOOPS = (
    "for i in range({n}):\n    {a}[{i}] = {a}[{j}] * 2 + 1",
    "for i in range({n}):\n    {a}[{i}] += {a}[{j}]",
    "for i in range({n}):\n    {a}[{i}] = i",
    "for i in range({n}):\n    {a}[{i}], {a}[{j}] = {a}[{j}], {a}[{i}]",
    "for i in range({n}):\n    if {a}[{i}] > {a}[{j}]:\n        {a}[{i}] = {a}[{j}]",
    "{t} = 0\nfor i in range({n}):\n    {t} += {a}[{i}]",
    "{t} = [{a}[{i}] for i in range({n})]",
    "{t} = [float({a}[{i}]) + i for i in range({n})]",
    "for i in range({n}):\n    {a}[{i}] = {b}[{bi}] + i",
    "{f} = {a}\nfor i in range({n}):\n    {f} = {f} * 0.5 + {b}",
    "{f} = {a} + 1\nfor i in range({n}):\n    {f} += {b}",
    "{f} = {a} + 1\nfor i in range({n}):\n    {f}[...] = {f} - {b}",
    "{f} = {a}\nfor i in range({n}):\n    {f} = {f} + np.arange(i, i + 1)",
    "{f} = [{a} + i for i in range({n})]\n{f} = sum({f})",
)
ROW_LOOPS = (
    "for row in {a}:\n    row += 1",
    "for i, row in enumerate({a}):\n    row[...] = row * 2 + i",
    "for i in range(len({a})):\n    {a}[i] = {a}[-1 - i]",
    "for row in {a}[::-1]:\n    row -= {a}[0]",
    "{t} = [row.shape for row in {a}]",
    "{t} = [row + 1 for row in {a}]",
    "for row in {a}:\n    {a} = {a} + row",
    "for row in {a}:\n    {a}[...] = {a}[::-1]",
    "for i, row in enumerate({a}):\n    {a}[-1 - i] = row",
    "first, *rest = {a}\n{a}[-1] = first",
)
MAX_ROWS = 40
MAX_PASSES = 3


def reduce(scope: Scope) -> None:
    """Bind a sum or a maximum over any axes, of an array or an expression."""
    draw = scope.draw
    x = operands.into_ours(expressions.expression(scope, draw.choice((0, 0, 1, 2))))
    if x.fails or not isinstance(x.value, np.ndarray):
        return
    name = draw.choice(("sum", "sum", "max", "max", "min"))
    axis = _axis(scope, x.value.ndim)
    keepdims = draw.chance(25)
    dtype = operands.dtype(scope) if name == "sum" and draw.chance(25) else None
    record = expressions.reduction(name, x, dtype, axis, keepdims=keepdims)
    arguments = [f"axis={axis}"] * (axis is not None) + [f"dtype={dtype}"] * (dtype is not None)
    arguments += ["keepdims=True"] * keepdims
    if draw.chance(6):
        arguments.append({"sum": "initial=3", "max": "initial=-2", "min": "initial=9"}[name])
    form = draw.choice(("np.{name}({x}{comma}{arguments})", "({x}).{name}({arguments})"))
    if draw.chance(5):
        form = "numpy.{name}({x}{comma}{arguments})"
    if x.code in scope.arrays() and draw.chance(4):
        arguments.append(f"where={operands.mask_code(scope, x.code)}")
    if not record.is_exact(x.value):
        arguments = [each for each in arguments if each != "initial=3"]  # of which the bound does not know
        _reduce_inexact(scope, form, x, record, arguments)
        return
    target, records = scope.target(), (record,)
    arrays = scope.arrays()
    if arrays and draw.chance(20):
        # Rarely of the right shape.
        out = draw.choice(arrays)
        into = _accumulations(record, x.value.dtype, scope.values[out].dtype)
        if all(each.is_exact(x.value) for each in into):
            target, records = scope.fresh(), into
            arguments.append(f"out={out}")
    code = form.format(name=name, x=x.code, comma=", " * bool(arguments), arguments=", ".join(arguments))
    scope.emit("reduce", f"{target} = {code}", (*x.exact, *records))


def _accumulations(record: Reduction, dtype: np.dtype, out: np.dtype) -> tuple[Reduction, ...]:
    """Return a reduction into an output in all dtypes it may be accumulated in.

    Without `dtype=` NumPy takes the loop that the output and the operand promote to; what is exact there but not in the
    operand's own dtype depends on the order, and a cast to integers makes one of a rounding. Floats are cast to an
    integer output after every chunk: of those that it does not hold C leaves undefined what that gives.
    """
    into = str(out) if out.kind in "iu" else None
    if record.dtype is not None:
        return (record, replace(record, dtype=str(np.promote_types(record.dtype, out)), into=into))
    each_dtype = (dtype, out, np.promote_types(dtype, out))
    return tuple(replace(record, dtype=str(each), into=into) for each in each_dtype)


def _reduce_inexact(scope: Scope, form: str, x: operands.Operand, record: Reduction, arguments: list[str]) -> None:
    """Bind a sum that depends on the order to a name that is only compared, never used."""
    if not record.has_bound(x.value):
        return
    target = scope.fresh("s")
    code = form.format(name=record.name, x=x.code, comma=", " * bool(arguments), arguments=", ".join(arguments))
    scope.emit("reduce_inexact", f"{target} = {code}", x.exact, ((target, record),))


def reduce_otherwise(scope: Scope) -> None:
    """Bind truth, counts or indices, which are exact, or an average, which is only compared."""
    draw = scope.draw
    x = operands.into_ours(expressions.expression(scope, draw.choice((0, 0, 1, 2))))
    if x.fails or not isinstance(x.value, np.ndarray):
        return
    name = draw.choice(("any", "all", "argmax", "argmin", "count_nonzero", "mean", "var", "std"))
    axis = _axis(scope, x.value.ndim)
    if "arg" in name and isinstance(axis, tuple) and not draw.chance(5):
        axis = None
    keepdims = draw.chance(25)
    arguments = [f"axis={axis}"] * (axis is not None) + ["keepdims=True"] * keepdims
    if name in ("any", "all") and x.code in scope.arrays() and draw.chance(10):
        arguments.append(f"where={operands.mask_code(scope, x.code)}")
    form = draw.choice(("np.{name}({x}{comma}{arguments})", "({x}).{name}({arguments})"))
    if name == "count_nonzero":
        form = "np.{name}({x}{comma}{arguments})"
    if name in ("mean", "var", "std"):
        dtype = "np.float64" if x.value.dtype.kind in "biu" else None
        record = expressions.reduction(name, x, dtype, axis, keepdims=keepdims)
        _reduce_inexact(scope, form, x, record, arguments)
        return
    code = form.format(name=name, x=x.code, comma=", " * bool(arguments), arguments=", ".join(arguments))
    scope.emit("reduce_otherwise", f"{scope.target()} = {code}", x.exact)


def _axis(scope: Scope, ndim: int) -> int | tuple[int, ...] | None:
    draw = scope.draw
    if draw.chance(2):
        return ndim + 1
    if ndim == 0 or draw.chance(30):
        return None
    if draw.chance(65):
        return draw.integer(-ndim, ndim - 1)
    axes = draw.sample(range(ndim), draw.integer(0, ndim))
    return tuple(axis - ndim if draw.chance(20) else axis for axis in axes)


def row_wise(scope: Scope) -> None:
    """Bind what is made of reductions over the last axis and of the rows themselves, like a softmax; parts as well."""
    draw = scope.draw
    x = operands.into_ours(expressions.expression(scope, draw.choice((0, 0, 1))))
    if x.fails or not isinstance(x.value, np.ndarray) or x.value.ndim == 0 or x.value.size == 0:
        return
    for _ in range(draw.integer(1, MAX_PASSES)):
        name = draw.choice(("max", "max", "min", "sum"))
        record = expressions.reduction(name, x, None, -1, keepdims=True)
        if not record.is_exact(x.value):
            break
        forms = ("np.{name}({x}, axis=-1, keepdims=True)", "({x}).{name}(-1)[..., None]")
        code = forms[x.value.ndim > 1 and draw.chance(50)].format(name=name, x=x.code)
        reduced = _named(scope, operands.Operand(code, scope.evaluate(code), (*x.exact, record)))
        row = draw.weighted(expressions.OPERATIONS, expressions.OPERATION_WEIGHTS)
        sides = [x, reduced] if draw.chance(70) else [reduced, x]
        x = expressions.combine(scope, row, [*sides, x][: row.arity])
        if x.fails or not isinstance(x.value, np.ndarray):
            return
        x = _named(scope, x)
    scope.emit("row_wise", f"{scope.target()} = {x.code}", x.exact)


def _named(scope: Scope, x: operands.Operand) -> operands.Operand:
    """Bind an operand to a name, now and then."""
    if not scope.draw.chance(35):
        return x
    name = scope.fresh()
    scope.emit("row_wise", f"{name} = {x.code}", x.exact)
    return operands.Operand(name, scope.values[name])


def reduce_into(scope: Scope) -> None:
    """Reduce into an array of the right shape, which may be a part of what is reduced."""
    draw = scope.draw
    names = [name for name in scope.arrays() if np.ndim(scope.values[name])]
    if not names:
        return
    name = scope.pick(names)
    value = scope.values[name]
    x = operands.Operand(name, value)
    axis = draw.integer(0, value.ndim - 1)
    kind = draw.choice(("sum", "max"))
    dims = tuple(n for i, n in enumerate(value.shape) if i != axis)
    fitting = [other for other in scope.arrays() if np.shape(scope.values[other]) == dims]
    target = draw.choice(fitting) if fitting and draw.chance(50) else f"{name}[{':, ' * axis}0, ...]"
    dtype = value.dtype if target not in fitting else scope.values[target].dtype
    records = _accumulations(expressions.reduction(kind, x, None, axis, keepdims=False), value.dtype, dtype)
    if not all(record.is_exact(value) for record in records) or value.size == 0:
        return
    scope.emit("reduce_into", f"np.{kind}({name}, axis={axis}, out={target})", records)


def element(scope: Scope) -> None:
    """Read or write one element."""
    draw = scope.draw
    names = scope.arrays()
    if not names:
        return
    name = scope.pick(names)
    index = operands.element_index(scope, np.shape(scope.values[name]))
    value = draw.choice(operands.PYTHON_SCALARS[:12])
    other = operands.element_index(scope, np.shape(scope.values[name]))
    code = draw.choice((
        f"{scope.fresh()} = {name}[{index}]", f"{name}[{index}] = {value}", f"{name}[{index}] += {value}",
        f"{name}[{index}] = {name}[{other}]", f"{name}[{index}], {name}[{other}] = {name}[{other}], {name}[{index}]",
        f"{name}[{index}] *= {name}[{other}]", f"{name}[{index.replace(', ', '][')}] = {value}",
        f"{scope.fresh()} = {name}[{index.replace(', ', '][')}]", f"{scope.fresh()} = {name}[{index}] + {value}",
    ))  # fmt: skip
    scope.emit("element", code)


def loop(scope: Scope) -> None:
    """Loop over elements, often enough to move a device array to a host mirror."""
    draw = scope.draw
    names = [name for name in scope.arrays() if np.size(scope.values[name])]
    if not names:
        return
    a = scope.pick(names)
    shapes = {name: np.shape(scope.values[name]) for name in names}
    b = scope.pick([a, *(name for name in names if expressions.joint_size(shapes[a], shapes[name]) <= scope.max_size)])
    stride, offset = draw.integer(1, 5), draw.integer(0, 9)
    code = draw.choice(LOOPS).format(
        n=draw.choice((20, 3, 40)), a=a, b=b, t=scope.fresh("o"), f=scope.fresh(),
        i=_moving_index(scope, a, "i"), j=_moving_index(scope, a, f"(i * {stride} + {offset})"),
        bi=_moving_index(scope, b, f"(i + {offset})"),
    )  # fmt: skip
    scope.emit("loop", code)


def _moving_index(scope: Scope, name: str, counter: str) -> str:
    dims = np.shape(scope.values[name])
    return ", ".join(f"{counter} % {n}" for n in dims) or "()"


def rows(scope: Scope) -> None:
    """Iterate over an array."""
    small = [n for n in scope.arrays() if np.ndim(scope.values[n]) and len(scope.values[n]) <= MAX_ROWS]
    if small:
        scope.emit("rows", scope.draw.choice(ROW_LOOPS).format(a=scope.pick(small), t=scope.fresh("o")))


def to_python(scope: Scope) -> None:
    """Bind a Python object made from an element or an array."""
    draw = scope.draw
    names = scope.operands()
    arrays = scope.arrays()
    if not names or not arrays:
        return
    name = scope.pick(names)
    if draw.chance(55):
        index = operands.element_index(scope, np.shape(scope.values[name]))
        text = f"{name}[{index}]" if np.ndim(scope.values[name]) else name
        conversions = ELEMENT_CONVERSIONS if expressions.is_real(scope.values[name]) else COMPLEX_CONVERSIONS
        code = draw.choice(conversions).format(e=text)
    else:
        small = [n for n in arrays if np.size(scope.values[n]) <= scope.max_size // 4] or arrays[-1:]
        code = draw.choice(ARRAY_CONVERSIONS).format(
            a=draw.choice((scope.pick(small), arrays[0])), b=scope.pick(arrays)
        )
    scope.emit("to_python", f"{scope.fresh('o')} = {code}")
