"""Rules that bind names: creation, views, expressions, copies, deletions."""

import numpy as np

from tests.fuzz import expressions, operands
from tests.fuzz.scope import Scope

CONVERSIONS = (
    "{a}.copy()", "np.array({a})", "np.asarray({a})", "np.array({a}, dtype={dtype})", "{a}.astype({dtype})",
    "{a}.astype({dtype}, copy=False)", "np.asarray({a}, dtype={dtype})", "np.ascontiguousarray({a})",
    "np.zeros_like({a})", "np.asfortranarray({a})", "{a}.copy(order='F')", "{a}.ravel(order='F')",
    "{a}.reshape(-1, order='F')", "{a}.flatten('F')", "{a}.T.copy()", "{a}.ravel('K')", "{a}.ravel('A')",
    "{a}.T.reshape(-1)", "np.ones_like({a}, dtype={dtype})", "np.full_like({a}, 3)", "+{a}", "copy.copy({a})",
    "copy.deepcopy({a})", "pickle.loads(pickle.dumps({a}))", "np.array({a}, copy=False, ndmin=2)",
    "{a}.astype({dtype}, casting='same_kind')", "{a}.astype({dtype}, order='F')", "np.array({a}, order='F')",
)  # fmt: skip
REARRANGEMENTS = (
    "np.concatenate([{a}, {b}])", "np.stack([{a}, {a}])", "np.concatenate([{a}, {b}], axis=-1)", "np.flip({a})",
    "np.roll({a}, 1)", "np.roll({a}, -1, axis=0) + {a}", "np.roll({a}, 2, axis=-1) * 2",
    "np.repeat({a}, 2)", "np.tile({a}, 2)", "np.sort({a} + 0, axis=None)", "np.hstack([{a}, {b}])",
    "numpy.concatenate([{a}, {b}])", "numpy.stack([{a}, {a}], axis=-1)", "numpy.flip({a})", "np.cumsum({a} > 1)",
    "np.argsort({a}, axis=None, kind='stable')", "np.take({a}, [0, -1])", "np.nonzero({a})[0] + 0",
    "np.all({a} > 0, axis=0)", "np.any({a})", "np.unique({a} > 1)", "np.dot({a} > 0, {a} > 0)", "np.argmax({a})",
    "np.broadcast_arrays({a}, {a}[:1])[0] + 1", "np.split({a}, [1])[-1]", "np.meshgrid({a})[0]", "np.diff({a})",
    "np.triu(np.atleast_2d({a}))", "np.count_nonzero({a})", "np.add.reduce({a} > 1)", "np.add.accumulate({a} > 1)",
    "np.argwhere({a})", "np.add.outer({a}[..., :2], {a}[:2])", "np.logical_or.reduce({a} > 1, axis=None)",
    "np.bitwise_xor.reduce(({a} > 1) * 5, axis=-1)", "np.logical_xor.accumulate({a} > 1)",
    "np.isin({a}, [1, 2])", "np.array([{a}, {a}])", "np.array([v for v in {a}])", "np.array([({a} > 1).max(), 1])",
    "np.array(list({a}))", "np.apply_along_axis(lambda v: v[::-1], 0, {a})", "np.maximum.reduce({a} > 1, axis=-1)",
    "np.select([{a} > 1], [{a}])", "np.pad({a}, 1)", "np.delete({a}, 0, axis=0)", "np.append({a}, {b})",
    "np.bincount(({a} > 1).ravel())", "np.searchsorted([1, 2, 3], {a})", "np.einsum('i...->...i', {a})",
    "np.tensordot({a} > 1, np.ones(2, dtype=np.bool_), axes=0)", "np.array_split({a}, 2)[0]",
    "np.atleast_1d({a}, {b})[-1]", "np.take_along_axis({a}, np.argsort({a} > 1, axis=0, kind='stable'), 0)",
    "np.sort(np.partition({a} + 0, 0), axis=None)", "np.median(np.floor(np.clip({a}, -9, 9)), axis=0)",
    "np.percentile({a} + 0, 40, axis=-1, method='lower')", "np.nanquantile({a} + 0, 0.3, method='nearest')",
    "np.insert({a}, 1, 5, axis=0)", "np.trim_zeros({a}.ravel())", "np.choose(({a} > 1) + 0, [{a}, 7])",
    "np.ravel_multi_index(np.nonzero({a}), {a}.shape)", "np.unravel_index(np.arange({a}.size), {a}.shape)[0] + 0",
    "np.convolve(({a} > 1).ravel() + 0, [1, 2, 1], 'same')", "np.correlate(({a} > 1).ravel() + 0, [1, 2])",
    "np.packbits({a} > 1)", "np.unpackbits(np.packbits({a} > 1, axis=-1), axis=-1)", "np.delete({a}, [0, -1], axis=-1)",
    "np.piecewise({a}, [{a} > 1], [7, 0])", "np.bincount(({a} > 1).ravel() + 0, np.ones({a}.size))",
    "np.histogram(({a} > 1) * 1.0, 3, weights=np.ones({a}.shape))[0]", "np.setxor1d({a} > 1, [True])",
    "np.interp(({a} > 1) + 0.5, [0, 1, 3], [1, 2, 4])", "np.vander(({a} > 1).ravel() + 0, 3)",
    "np.repeat({a}, ({a}.ravel() > 1) + 1)", "np.polymul(({a} > 1).ravel() + 1, [1, 2])",
    "np.polynomial.polynomial.polyval({a} > 1, [1, 2, 3])", "np.unique({a} > 1, axis=0)",
    "np.histogram2d(({a} > 1).ravel() + 0.5, ({a} > 2).ravel() + 0.5, 2)[0] + 0",
    "np.histogramdd((({a} > 1).ravel() + 0.5, ({a} > 2).ravel() + 0.5), (2, 3))[0]", "np.extract({a} > 1, {a})",
    "np.histogram_bin_edges(({a} > 1) + 0.5, 4)", "np.nancumsum({a} > 1)", "np.nancumprod(({a} > 1) + 1, axis=-1)",
    "np.r_[{a}.ravel(), 1, 2]", "np.c_[{a}.ravel(), {a}.ravel()]", "{a}[np.ix_(range(len({a})))]",
    "np.compress({a}.ravel() > 1, {a}.ravel())", "np.unique_inverse({a} > 1)[1]", "np.tril_indices(len({a}[:90]))[1]",
    "np.triu_indices_from(np.atleast_2d({a}))[0]", "np.diag_indices(len({a}))[0]", "np.flatnonzero({a})",
)  # fmt: skip

# Of integers, and of floats that are small ones, so that every order of summation gives the same bits.
FACTORS = ("{a}", "{a}.T", "{a}[::-1]", "{a}[..., ::2]", "{a}[..., ::-1]", "{a}[1:]", "{a}[0]", "({a} + 1).T", "{a}")
PRODUCTS = (
    "{t} = {x} @ {y}", "{t} = np.matmul({x}, {y})", "{t} = np.dot({x}, {y})", "{t} = np.inner({x}, {y})",
    "{t} = np.einsum('...ij,...jk->...ik', {x}, {y})", "{t} = np.einsum('ij,kj', {x}, {y})",
    "{t} = np.einsum('...i,...i->...', {x}, {y})", "{t} = np.einsum('i...->...i', {x})", "{t} = {x}.dot({y})",
    "{t} = np.einsum('ii->i', {x}) if {x}.size else {x} + 0",
    "{t} = np.einsum('ij,jk,kl', {x}, {y}, {x})", "{t} = np.tensordot({x}, {y}, 1)",
    "{t} = np.einsum('i...,i...', {x}, {y})", "{t} = np.vecdot({x}, {y})", "{t} = np.trace({x} @ {y})",
    "np.matmul({x}, {y}, out={a})", "{a} @= {x}", "np.einsum('ij,jk->ki', {x}, {y}, out={a})", "{t} = {x} @ {y} + {x}",
    "np.einsum('ij->ji', {x}, out={a})", "np.matmul({x}, {y}, out={a}[::-1])", "{a}[...] = {x} @ {y}",
)  # fmt: skip
MAX_FACTOR = 400  # elements


def create(scope: Scope) -> None:
    """Bind a new array."""
    draw = scope.draw
    dims, dtype = operands.shape(scope), operands.dtype(scope)
    size = int(np.prod(dims))
    start, step = draw.choice((0, 1, -3)), draw.choice((1, 1, 2))
    filled = f"numpy.resize({operands.data(scope, dtype)}, {dims})"
    counted = f"np.arange({start}, {start + step * size}, {step}, dtype={dtype})"
    if dtype == "np.bool_":
        counted = f"(np.arange({start}, {start + size}) > {size // 2})"
    forms = (
        (f"np.array({filled}, dtype={dtype})", 10),
        (f"np.asarray({filled}, dtype={dtype})", 2),
        (f"np.array({operands.data(scope, dtype)}, dtype={dtype})", 2),
        (f"{counted}.reshape({dims})", 8),
        (f"np.array(numpy.random.RandomState({draw.integer(0, 9)}).randint(-9, 10, {dims}), dtype={dtype})", 8),
        (f"np.array(numpy.random.RandomState({draw.integer(0, 9)}).standard_normal({dims}), dtype={dtype})", 4),
        (f"np.zeros({dims}, dtype={dtype})", 3),
        (f"np.ones({dims}, dtype={dtype})", 3),
        (f"np.full({dims}, {draw.choice(operands.PYTHON_SCALARS)}, dtype={dtype})", 2),
        (f"np.full({dims}, {draw.choice(operands.PYTHON_SCALARS[:16])})", 1),
        (f"np.arange({draw.choice(('7', '5.0', '2, 9', '9, 2, -1', '0.5, 4', '0'))})", 2),
        (f"np.zeros({dims}, dtype={dtype}, order='F')", 1),
    )
    code = forms[expressions.weighted_index(scope, [weight for _, weight in forms])][0]
    scope.emit("create", f"{scope.target()} = {code}")


def create_empty(scope: Scope) -> None:
    """Bind an uninitialised array and fill it at once."""
    name = scope.target()
    value = scope.draw.choice(operands.INTEGERS).lstrip("-")  # one that does not fit would fill nothing
    fill = scope.draw.choice(
        (f"{name}[...] = {value}", f"{name}.fill({value})", f"np.copyto({name}, {value}, casting='unsafe')")
    )
    scope.emit("create_empty", f"{name} = np.empty({operands.shape(scope)}, dtype={operands.dtype(scope)})\n{fill}")


def view(scope: Scope) -> None:
    """Bind a view (or what NumPy returns in its place)."""
    draw = scope.draw
    names = scope.arrays()
    if not names:
        return
    name = scope.pick(names)
    dims = np.shape(scope.values[name])
    axes = list(range(len(dims)))
    order = tuple(draw.sample(axes, len(axes)))
    forms = [
        (f"{name}[{operands.basic_index(scope, dims)}]", 40),
        (f"{name}.T", 8),
        (f"{name}.reshape({reshaped(scope, dims)})", 12),
        (f"np.reshape({name}, {reshaped(scope, dims)})", 2),
        (f"{name}.ravel()", 5),
        (f"{name}[...]", 3),
        (f"np.broadcast_to({name}, {(draw.integer(1, 3), *dims)})", 5),
        (f"np.expand_dims({name}, {draw.integer(0, len(dims))})", 2),
        (f"np.squeeze({name})", 2),
        (f"np.atleast_2d({name})", 1),
        (f"{name}.view()", 2),
        (f"{name}.flatten()", 2),
    ]
    if dims:
        a, b = draw.choice(axes), draw.choice(axes)
        forms += [
            (f"{name}.transpose({order})", 6),
            (f"np.transpose({name}, {order})", 2),
            (f"np.swapaxes({name}, {a}, {b})", 3),
            (f"np.moveaxis({name}, {a}, {b})", 2),
            (f"np.flip({name}, {a})", 2),
        ]
    if len(dims) > 1:
        forms += [(f"np.diagonal({name})", 2), (f"{name}.diagonal()", 1), (f"np.rot90({name})", 1)]
    code = forms[expressions.weighted_index(scope, [weight for _, weight in forms])][0]
    scope.emit("view", f"{scope.target()} = {code}")


def reshaped(scope: Scope, dims: tuple[int, ...]) -> str:
    """Return a shape for an array of a shape: its axes merged, split or with ones; rarely one that does not fit."""
    draw = scope.draw
    size = int(np.prod(dims))
    if draw.chance(25):
        return "-1"
    if draw.chance(4):
        return str((size + 1, 1))
    merged = list(dims)
    if len(merged) > 1 and draw.chance(60):
        i = draw.integer(0, len(merged) - 2)
        merged[i : i + 2] = [merged[i] * merged[i + 1]]
    else:
        divisors = [d for d in (2, 3, 5, 7, 1) if size and size % d == 0]
        merged = [draw.choice(divisors), -1] if divisors else [0, *dims]
        merged = merged[:: draw.choice((1, -1))]
    return str(tuple(merged))


def compute(scope: Scope) -> None:
    """Bind an expression."""
    x = operands.into_ours(expressions.expression(scope, scope.draw.integer(1, 3)))
    scope.emit("compute", f"{scope.target()} = {x.code}", x.exact)


def convert(scope: Scope) -> None:
    """Bind a copy, a cast or an array like another."""
    names = scope.arrays()
    if names:
        code = scope.draw.choice(CONVERSIONS).format(a=scope.pick(names), dtype=operands.dtype(scope))
        scope.emit("convert", f"{scope.target()} = {code}")


def rearrange(scope: Scope) -> None:
    """Bind what one of NumPy's other functions makes of an array."""
    names = [name for name in scope.arrays() if np.size(scope.values[name]) * 4 <= scope.max_size]
    if not names:
        return
    a = scope.pick(names)
    code = scope.draw.choice(REARRANGEMENTS).format(a=a, b=scope.draw.choice((a, scope.pick(names))))
    scope.emit("rearrange", f"{scope.target()} = {code}")


def multiply(scope: Scope) -> None:
    """Bind or write a product of matrices or vectors: parts of one array, mostly, as they lie."""
    draw = scope.draw
    names = [name for name in scope.arrays() if np.size(scope.values[name]) <= MAX_FACTOR]
    if not names:
        return
    a = scope.pick(names)
    kind = scope.values[a].dtype
    if kind.kind == "c" or kind == np.float16:
        return
    x, y = (draw.choice(FACTORS).format(a=a) for _ in range(2))
    form = draw.choice(PRODUCTS)
    if kind.kind == "f":
        if "dot(" in form or "inner(" in form:  # of vectors and matrices BLAS leaves out zeros, those times NaN as well
            x, y = f"np.nan_to_num({x})", f"np.nan_to_num({y})"
        x, y = (f"np.floor(np.clip({each}, -9, 9))" for each in (x, y))
    elif draw.chance(50):
        y = f"{x}.T"
    scope.emit("multiply", form.format(t=scope.target(), x=x, y=y, a=a))


def alias(scope: Scope) -> None:
    """Bind a second name to an array."""
    names = scope.arrays()
    if not names:
        return
    a, b = scope.pick(names), scope.pick(names)
    scope.emit("alias", f"{a}, {b} = {b}, {a}" if scope.draw.chance(20) else f"{scope.fresh()} = {a}")


def number(scope: Scope) -> None:
    """Bind a number, for several operations to have the same object."""
    scope.emit("number", f"{scope.fresh('n')} = {expressions.scalar(scope).code}")


def delete(scope: Scope) -> None:
    """Delete a name; views of it live on."""
    names = scope.live()
    if len(names) > 1:
        scope.emit("delete", f"del {scope.draw.choice(names)}")


def evaluate(scope: Scope) -> None:
    """Compute an array now, without reading it; NumPy, which always has, has no such function."""
    names = scope.arrays()
    if names:
        scope.emit("evaluate", f"getattr(np, 'evaluate', id)({scope.pick(names)})")


def host_array(scope: Scope) -> None:
    """Bind a NumPy array made from ours, or mix one with ours."""
    names = scope.arrays()
    if not names:
        return
    a = scope.pick(names)
    hosts = [name for name in scope.operands() if name[0] == "h"]
    if not hosts or scope.draw.chance(20):
        scope.emit("host_array", f"{scope.fresh('h')} = numpy.array({a})")
        return
    h = scope.draw.choice(hosts)
    fitting = [name for name in names if np.shape(scope.values[name]) == np.shape(scope.values[h])]
    if not fitting:
        return
    a = scope.pick(fitting)
    code = scope.draw.choice((
        f"{h} += {a}", f"{h}[...] = {a}", f"{a}[...] = {h}", f"{a} *= {h}", f"np.add({a}, {h}, out={a})", f"{h} *= 2",
        f"{h}[...] = 5", f"{a} = np.array({h})", f"{a} = {a} + {h}", f"{a} = {h} - {a}", f"np.add({a}, 1, out={h})",
    ))  # fmt: skip
    scope.emit("host_array", code)
