"""Rules for what programs bring along: foreign classes, callbacks, threads, read-only arrays, views of bits."""

from typing import Any

import numpy as np

from tests.fuzz import expressions, operands
from tests.fuzz.scope import Scope

MAX_SIZE = 400  # elements of what is handed to a callback one by one, or to NumPy's other classes

# What takes part in an operation with one of our arrays, by the code that makes it: {h} is a NumPy array, {a} ours.
FOREIGN = (
    "foreign.Declining()", "foreign.Prior()", "foreign.Overriding()", "foreign.Wrapping({h})", "foreign.Arrayed({h})",
    "foreign.Interfaced({h})", "foreign.Listed({h})", "numpy.ma.array({h}, mask={h} > 1)",
    "np.ma.array({a}, mask={a} > 1)", "np.ma.masked_equal({a}, 1)", "{h}.view(foreign.tagged(numpy))",
    "{a}.view(foreign.tagged(np))", "numpy.asmatrix({h})", "np.asmatrix({a})", "{h}.astype(object)",
    "array.array('d', [1.0, 2.5])", "memoryview({h})", "{h}[...]", "np.asarray({h})[...]", "[{a}, {a}]", "({a}, 1)",
)  # fmt: skip
USES = (
    "{a} + {f}", "{f} + {a}", "{a} * {f}", "{f} * {a}", "{f} - {a}", "{a} - {f}", "{a} < {f}", "{f} == {a}",
    "{a} != {f}", "np.add({a}, {f})", "np.add({f}, {a})", "np.multiply({f}, {a})", "numpy.add({a}, {f})",
    "np.subtract({f}, 1)", "np.negative({f})", "np.max({f} + 0)", "np.concatenate([{a}, {f}])",
    "np.where({a} > 1, {a}, {f})", "np.array({f})", "np.asarray({f})", "np.asarray({f}) + {a}", "np.asanyarray({f})",
    "np.reshape({f}, -1)", "np.stack([{f}, {a}])", "np.array_equal({a}, {f})", "np.shape({f})", "np.isnan({f})",
    "np.zeros_like({f})", "np.maximum.reduce({f} + 0)", "np.less.outer({a}[:2], {f})", "len({f})", "np.argmax({f})",
    "np.any({f})", "np.ravel({f})", "np.broadcast_to({f}, {a}.shape)",
    "np.copyto({a} if {a}.size else {a}.copy(), {f})",  # whether no elements lie in the same memory is as it comes
    "operator.setitem({a}, ..., {f})", "operator.iadd({a}, {f})", "operator.imul({a}, {f})",
    "np.add({a}, {f}, out={a})", "np.add({a}, {a}, out={f})", "{a}[{f}]", "operator.setitem({a}, {f} != 1, 2)",
    "np.take({a}, {f} == 1)", "np.isin({a}, {f})", "np.transpose({f})", "np.result_type({a}, {f})", "np.ndim({f})",
    "np.logical_not({f})", "np.squeeze({f})", "np.count_nonzero({f})", "isinstance({f}, np.ndarray)", "np.flip({f})",
    "np.append({f}, {a})", "np.copy({f})", "np.may_share_memory({a}, {f})", "np.full_like({f}, 2)", "({f} + 0).max()",
    "{f}[0]", "{f}[:1] + {a}[:1]", "{f}.T", "np.ma.masked_where({a} > 1, {a})", "np.ma.getmaskarray({f})",
    "np.ma.array({f}) + {a}", "abs({f})", "-{f}", "divmod({f}, 2)", "{f} // {a}",
    "np.expand_dims({f}, 0)", "np.vstack([{f}, {f}])",
)  # fmt: skip

# {s} is an integer, {b} another array; what is bound may be an array, a list or a number.
CALLBACKS = (
    "np.apply_along_axis(lambda v: v > {s}, 0, {a})", "np.apply_along_axis(lambda v: v[:1] + {b}.ravel()[:1], -1, {a})",
    "np.apply_along_axis(np.max, 0, {a} + 0)", "np.apply_along_axis(lambda v: np.add(v, 1, out=v), -1, {a})",
    "np.apply_along_axis(lambda v: v.tolist(), 0, {a})", "np.apply_over_axes(np.max, {a} + 0, [0])",
    "np.apply_along_axis(lambda v: [v.shape[0], float(v[0] > 1)], 0, {a})", "np.vectorize(lambda v: v > {s})({a})",
    "np.vectorize(lambda v: v * 2, otypes=[float])(({a} > 1) + 0)",
    "np.vectorize(np.max, signature='(n)->()')({a} + 0)",
    "np.vectorize(lambda v, w: v[::-1], signature='(n),()->(n)')({a}, 1)", "np.vectorize(lambda v, w: w)({a}, {b})",
    "np.vectorize(lambda v: v + {b}.ravel()[0] > 1)({a})",
    "np.vectorize(lambda v, k=1: v == k, excluded=['k'])({a}, k={s})",
    "np.piecewise({a}, [{a} > 1], [lambda v: v + 1, lambda v: v - v])",
    "np.piecewise({a}, [{a} > 1, {a} < 0], [np.negative, 7, 1])",
    "np.piecewise({a}, [{a} > {s}], [lambda v: np.maximum(v, 3), lambda v: v * 0 + {b}.size])",
    "np.fromfunction(lambda i, j: i * 3 + j, {pair})",
    "np.fromfunction(lambda i, j: {a}.ravel()[:1] + i - j, {pair}, dtype=int)",
    "np.frompyfunc(lambda v: bool(v > 1), 1, 1)({a})", "np.frompyfunc(lambda v, w: v > w, 2, 1)({a}, {b})",
    "np.fromiter((v > 1 for v in {a}.ravel()), dtype=np.bool_)",
    "np.fromiter(map(float, {a}.ravel()), dtype=np.float32)", "np.array(list(map(lambda v: v > 1, {a})))",
    "sorted({a}.ravel(), key=lambda v: v > 1)", "max({a}.ravel(), key=lambda v: v < 2)",
    "list(filter(lambda v: v > {s}, {a}.ravel()))", "[r.max() for r in np.split({a} + 0, 1)]",
    "np.array([np.max(r) for r in {a} + 0])", "np.select([{a} > 1, {a} < 0], [{a} + 1, {b}], {s})",
    "np.nditer({a}).shape",
    "[bool(v > 1) for v in np.nditer({a})]", "[(i, bool(v > 1)) for i, v in np.ndenumerate({a})]",
    "[{a}[i] for i in np.ndindex({a}.shape)]",
    "np.array2string({a} > 1, formatter={{'bool': lambda v: '+' if v else '-'}})",
    "np.mask_indices(3, lambda m, k: np.triu(m, k))", "np.apply_along_axis(lambda v: {a}.fill({s}) or v, 0, {a} + 0)",
    "np.vectorize(lambda i: {a}.__setitem__(i % len({a}), i) or i)(range(3))",
)  # fmt: skip
# Each function in a thread; writes are to parts that do not overlap.
THREADS = (
    "{t} = foreign.in_threads([lambda: {a} + 1, lambda: {a} - {a}, lambda: {b} > 1])",
    "{t} = foreign.in_threads([lambda: {a}.tolist(), lambda: {a}.copy(), lambda: np.max({a} + 0)])",
    "{t} = foreign.in_threads([lambda i=i: ({a} > i).sum() for i in range(4)])",
    "foreign.in_threads([lambda: operator.iadd({a}[:1], 1), lambda: operator.imul({a}[1:], 2)])",
    "foreign.in_threads([lambda i=i: operator.setitem({a}, i, {s}) for i in range(min(3, len({a})))])",
    "foreign.in_threads([lambda: {a}[::2].fill({s}), lambda: {a}[1::2].fill(1)])",
    "{t} = foreign.in_threads([lambda: np.concatenate([{a}, {a}]), lambda: {a}.T + 0, lambda: {a}.reshape(-1)])",
    "{f} = {a} + {b}\n{t} = foreign.in_threads([lambda: {f}.tolist()] * 3)",
    "{f} = {a} > 1\n{t} = foreign.in_threads([lambda: {f}.any(), lambda: ~{f}, lambda: np.argmax({f})])",
    "{f} = {a} * 2\n{t} = foreign.in_threads([lambda: operator.iadd({f}, 1), lambda: {a}[:1] + 1])",
    "{t} = foreign.in_threads([lambda: {a} + np.ones((2, 3, 4, 5)), lambda: {a} + 1])",
    "{t} = foreign.in_threads([lambda: np.sort({a} + 0, axis=None), lambda: np.cumsum({a} > 1), lambda: {a}[{a} > 1]])",
    "{f} = {a} - {a}\nforeign.in_threads([lambda: np.add({a}[:1], 1, out={f}[:1]), lambda: {f}[1:].fill({s})])",
)  # fmt: skip
READ_ONLY = (
    "{t} = {a}.view()\n{t}.flags.writeable = False",
    "{t} = {a}.copy()\n{t}.setflags(write=False)",
    "{t} = {a}[...]\n{t}.flags.writeable = False\n{u} = {t}[:1]",
    "{t} = np.broadcast_to({a}[..., :1], {a}.shape)",
    "{t} = np.broadcast_to({a}, (2, *{a}.shape))[:, ::-1]",
    "{t}, {u} = np.broadcast_arrays({a}, {a}[:1])",
    "{t} = np.lib.stride_tricks.sliding_window_view({a}, 2, axis=-1)",
    "{t} = np.lib.stride_tricks.as_strided({a}, (3, *{a}.shape), (0, *{a}.strides))",
    "{t} = np.broadcast_to({a}.ravel()[:1], (4, 5))",
    "{t} = {a}.real if {a}.dtype.kind == 'c' else {a}.imag",
    "{t} = np.diagonal(np.atleast_2d({a}))",
    "{t} = np.array(numpy.array({a}))\n{t}.flags.writeable = False\n{u} = np.array({t}, copy=None)",
)
# Bits of NaN are nobody's promise, so floats are seen as integers without any, and not for long.
REINTERPRETATIONS = (
    "np.where({a} == {a}, {a}, 0).view({same})", "np.where({a} == {a}, {a}, 0).view(np.uint8)",
    "np.where({a} == {a}, {a}, 0)[..., ::-1].view({same})", "{a}.view({a}.dtype)", "({a} + 0).view({a}.dtype.str)",
    "np.where({a} == {a}, {a}, 0).T.view({same})", "np.where({a} == {a}, {a}, 0).view(np.int16)[..., ::2]",
    "np.where({a} == {a}, {a}, 0).view('V{size}').view({same})", "np.where({a} == {a}, {a}, 0).byteswap().view({same})",
    "np.where({a} == {a}, {a}, 0).view([('x', {same})])['x']",
    "np.where({a} == {a}, {a}, 0).astype({a}.dtype.newbyteorder())",
    "np.frombuffer(np.where({a} == {a}, {a}, 0).tobytes(), dtype={same})", "({a} > 1).view(np.int8)",
    "np.where({a} == {a}, {a}, 0).reshape(-1)[:1].view(np.uint8)", "np.zeros(8, dtype=np.uint8).view(np.float64)",
    "np.where({a} == {a}, {a}, 0).astype('>f4') + 1", "(({a} > 1) + 0).view('M8[s]')",
    "(({a} > 1) + 0).view('m8[s]') * 2", "np.where({a} == {a}, {a}, 0).copy().view(dtype={same}, type=np.ndarray)",
)  # fmt: skip
INTEGER_REINTERPRETATIONS = ("{a}.view({same})", "{a}.view(np.uint8)", "{a}.view({same})[1:]", "{a}.view(np.uint16)")


def _small(scope: Scope) -> list[str]:
    return [
        name for name in scope.arrays() if 0 < np.size(scope.values[name]) <= MAX_SIZE and np.ndim(scope.values[name])
    ]


def foreign_class(scope: Scope) -> None:
    """Let an array meet an object of another class."""
    names = _small(scope)
    if not names:
        return
    a = scope.pick(names)
    made = scope.draw.choice(FOREIGN).format(a=a, h=f"numpy.array({a})")
    use = scope.draw.choice(USES)
    if "matrix" in made and ("*" in use or "imul" in use):
        return  # products, whose sums NumPy and its BLAS round as the memory lies
    if "matrix" in made and "stack([{f}, {a}])" in use:
        return  # the result would have three dimensions: a matrix makes itself two, and NumPy writes behind its end
    if use.startswith("abs") and scope.values[a].dtype.kind == "c":
        return  # rounded as it comes, while what is told of an object of another class is compared to the bit
    if "copyto" in use and 1 in scope.values[a].shape and not scope.values[a].flags.writeable:
        return  # refused, unless it is the same memory with the same strides, which no buffer has for one element
    described = f"foreign.described({use.format(a=a, f='_foreign')})"
    scope.emit("foreign_class", f"_foreign = {made}\n{scope.fresh('o')} = {described}\ndel _foreign")


def callback(scope: Scope) -> None:
    """Call a function that calls back, with arrays, or touching arrays."""
    names = _small(scope)
    if not names:
        return
    draw = scope.draw
    a, b = scope.pick(names), scope.pick(names)
    use = draw.choice(CALLBACKS)
    if expressions.joint_size(np.shape(scope.values[a]), np.shape(scope.values[b])) > MAX_SIZE:
        b = a
    code = use.format(a=a, b=b, s=draw.choice(operands.INTEGERS), pair=(draw.integer(1, 4), draw.integer(1, 5)))
    scope.emit("callback", f"{scope.fresh('o')} = {code}")


def _overlaps(array: Any) -> bool:
    """Tell whether elements share memory, so that parts of an array do."""
    low, high = np.lib.array_utils.byte_bounds(np.asarray(array))
    return high - low < array.nbytes


def threads(scope: Scope) -> None:
    """Compute in several threads at once."""
    names = [name for name in scope.arrays() if np.ndim(scope.values[name]) and not _overlaps(scope.values[name])]
    if not names:
        return
    a, b = scope.pick(names), scope.pick(names)
    if not expressions.joint_size(np.shape(scope.values[a]), np.shape(scope.values[b])) <= scope.max_size:
        b = a
    code = scope.draw.choice(THREADS)
    made = code.format(a=a, b=b, t=scope.fresh("o"), f=scope.fresh(), s=scope.draw.choice(operands.INTEGERS))
    scope.emit("threads", made)


def read_only(scope: Scope) -> None:
    """Bind an array that may not be written to, or whose elements share their memory."""
    names = [name for name in scope.arrays() if np.size(scope.values[name]) * 4 <= scope.max_size]
    if not names:
        return
    code = scope.draw.choice(READ_ONLY)
    scope.emit("read_only", code.format(a=scope.pick(names), t=scope.fresh(), u=scope.fresh()))


def reinterpret(scope: Scope) -> None:
    """Bind the bits of an array in another dtype: integers' as a view, others' as copies."""
    names = [name for name in scope.arrays() if np.size(scope.values[name]) * 8 <= scope.max_size]
    if not names:
        return
    a = scope.pick(names)
    dtype = scope.values[a].dtype
    size = dtype.itemsize
    forms = INTEGER_REINTERPRETATIONS if dtype.kind in "iu" and scope.draw.chance(50) else REINTERPRETATIONS
    same = scope.draw.choice((f"np.int{8 * size}", f"np.uint{8 * size}")) if size <= 8 else "np.uint64"
    code = scope.draw.choice(forms).format(a=a, same=same, size=size)
    prefix = "a" if forms is INTEGER_REINTERPRETATIONS else "o"
    scope.emit("reinterpret", f"{scope.fresh(prefix)} = {code}")


def host_mode(scope: Scope) -> None:
    """Compute an expression on the host, whatever the threshold is."""
    x = operands.into_ours(expressions.expression(scope, scope.draw.integer(1, 2)))
    target = scope.target()
    scope.emit("host_mode", f"with foreign.host_mode(np):\n    {target} = {x.code}", x.exact)


ERROR_EXPRESSIONS = (
    "{x} / {y}", "{x} * {y}", "{x} + {y}", "{x} - {y}", "np.sqrt({x})", "{x} // {y}", "{x} % {y}", "{x} / {x}",
    "({x} / {y}) * {x} - {y}", "np.sqrt({x}) / {y}", "({x}).astype(np.float32)", "({x}).astype(np.int32)",
    "{x} * {x}",
    "np.multiply({x}, {y}, out=np.zeros(np.broadcast_shapes(np.shape({x}), np.shape({y}))), casting='unsafe')",
    "np.divide({x}, {y}, where=({x} > 1) & ({y} > 1))[:0]", "np.reciprocal({x})", "({x} / {y} + 0).max()", "-{x} / 0",
)  # fmt: skip


def floating_point_errors(scope: Scope) -> None:
    """Have floating-point errors raised, or collected by a callback."""
    draw = scope.draw
    names = [
        name for name in scope.arrays() if scope.values[name].dtype in (np.float32, np.float64, np.int32, np.int64)
    ]
    if not names:
        return
    x = scope.pick(names)
    shape = np.shape(scope.values[x])
    y = scope.pick(
        [x, *(n for n in names if expressions.joint_size(shape, np.shape(scope.values[n])) <= scope.max_size)]
    )
    code = draw.choice(ERROR_EXPRESSIONS).format(x=x, y=y)
    kinds = draw.choice(("all", "divide", "invalid", "over"))
    target = scope.fresh()
    if draw.chance(50):
        scope.emit("floating_point_errors", f"with np.errstate({kinds}='raise'):\n    {target} = {code}")
        return
    told = scope.fresh("o")
    call = f"np.errstate({kinds}='call', call=lambda kind, flags: {told}.append(kind))"
    scope.emit(
        "floating_point_errors",
        f"{told} = []\nwith {call}:\n    {target} = {code}\n    str({target})\n{told} = sorted(set({told}))",
    )
