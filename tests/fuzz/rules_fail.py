"""Rules whose statements raise (mostly): the type of the exception must be NumPy's, and nothing may be written."""

import numpy as np

from tests.fuzz.scope import Scope

FAILURES = (
    "{a} + np.ones((2, 3, 4, 5, 6))",
    "{a} += np.ones((3, *{a}.shape))",
    "{a} + 9223372036854775808",
    "{a} + 2147483648",
    "{a} + -2147483649",
    "2147483648 * {a}",
    "{a} += 2147483648",
    "{a} *= -2147483649",
    "{a} -= 10**30",
    "{a}[...] = 2147483648",
    "{a}[...] = 10**30",
    "{a}.fill(10**30)",
    "{a}[...] = 'abc'",
    "{a}[...] = None",
    "{a}[...] = numpy.nan",
    "{a} += 'x'",
    "{a} + 'x'",
    "{a} < 'x'",
    "{a} + None",
    "{a} @ 1",
    "{a} += {a} * 1.5",
    "{a} /= 2",
    "{a} += 0.5",
    "{a} -= True",
    "{a} & 1.5",
    "-({a} > 1)",
    "{a}.reshape(-1, 7, 11)",
    "{a}.reshape(-1, -1)",
    "{a}.reshape(1, 2, 3, 4, 5)",
    "{a}.shape = (99, 99)",
    "{a}.T = 3",
    "{a}.transpose(0, 0)",
    "{a}.transpose(5)",
    "np.swapaxes({a}, 0, 9)",
    "np.moveaxis({a}, 9, 0)",
    "np.expand_dims({a}, 9)",
    "np.squeeze({a}, axis=0)",
    "np.broadcast_to({a}, (7,))",
    "np.broadcast_to({a}, ())",
    "np.broadcast_to({a}, (2, *{a}.shape))[...] = 1",
    "np.sum({a}, axis=7)",
    "np.sum({a}, axis=(0, 0))",
    "np.sum({a}, axis='x')",
    "np.sum({a}, axis=1.5)",
    "np.sum({a}, nonsense=1)",
    "np.sum({a}, out=np.zeros((2, 3, 4, 5, 6)))",
    "np.max({a}[:0])",
    "np.max(np.zeros((0, 3)), axis=0)",
    "{a}.max(axis=-9)",
    "{a}.sum(dtype='nonsense')",
    "np.add({a}, {a}, out=np.zeros((2, 3, 4, 5, 6)))",
    "np.add({a}, 1.5, out=np.zeros({a}.shape, dtype=np.int32))",
    "np.add({a}, 1, out=3)",
    "np.add({a}, 1, casting='nonsense')",
    "np.add({a}, 1, nonsense=1)",
    "np.add({a}, 1, dtype=np.int32, casting='no')",
    "np.add({a})",
    "np.add({a}, 1, {a}, {a})",
    "np.sqrt('x')",
    "np.where({a})[0].nonsense",
    "np.where({a}, 1)",
    "np.where({a}, np.ones(2), np.ones(3))",
    "{a}[100000]",
    "{a}[-100000]",
    "{a}[100000] = 1",
    "{a}[0, 0, 0, 0, 0, 0]",
    "{a}[0, 0, 0, 0, 0, 0] = 1",
    "{a}['x']",
    "{a}[1.5]",
    "{a}[1.5] = 1",
    "{a}[::0]",
    "{a}[..., ...]",
    "{a}[np.zeros(2)]",
    "{a}[[1.5]]",
    "{a}[[True, False, True, False, True, False]]",
    "{a}[{a} > 1] = [1, 2, 3, 4, 5, 6, 7]",
    "{a}[:] = np.ones((2, 3, 4, 5, 6))",
    "{a}[()] = np.ones((2, 3, 4, 5, 6))",
    "{a}[:1] = [1, 2, 3]",
    "del {a}[0]",
    "{a}.item(10**6)",
    "{a}.item('x')",
    "{a}.nonsense",
    "{a}()",
    "{a}.astype('nonsense')",
    "{a}.astype(np.int32, casting='safe')",
    "{a}.astype(np.bool_, casting='same_kind')",
    "np.asarray({a}, dtype='nonsense')",
    "np.array({a}, copy=False, dtype=np.complex64)",
    "np.array([1, [2, 3]])",
    "np.array([{a}, np.ones((2, 3, 4, 5, 6))])",
    "np.zeros(-1)",
    "np.zeros((2, -3))",
    "np.zeros('x')",
    "np.zeros(2.5)",
    "np.zeros(2, dtype='nonsense')",
    "np.full(3, [1, 2])",
    "np.arange()",
    "np.arange(1, 2, 0)",
    "np.nonsense",
    "hash({a})",
    "bool({a})",
    "float({a})",
    "int({a})",
    "operator.index({a})",
    "len({a}[..., None].sum())",
    "iter(np.zeros(()))",
    "[v for v in {a}.sum()]",
    "round({a}, 'x')",
    "np.concatenate([{a}, np.ones((2, 3, 4, 5, 6))])",
    "np.concatenate([])",
    "np.stack([{a}, {a}[:0]])",
    "np.dot({a}, np.ones((2, 3, 4, 5, 6)))",
    "numpy.add({a}, np.ones((2, 3, 4, 5, 6)))",
    "numpy.reshape({a}, (99, 99))",
    "{a} ** -1",
)


def failing(scope: Scope) -> None:
    """Do what NumPy (mostly) refuses."""
    names = scope.arrays()
    if names:
        name = scope.pick(names)
        scope.emit("failing", scope.draw.choice(FAILURES).format(a=name))


def failing_index(scope: Scope) -> None:
    """Read or write out of bounds through an integer array.

    The reading is fetched in the same statement, because a device may report a bad index as late as that.
    """
    names = [name for name in scope.arrays() if np.ndim(scope.values[name])]
    if names:
        name = scope.pick(names)
        index = f"[0, {len(np.asarray(scope.values[name])) + 3}]"
        code = scope.draw.choice((f"str({name}[{index}])", f"{name}[{index}] = 1\nstr({name})"))
        scope.emit("failing_index", code)
