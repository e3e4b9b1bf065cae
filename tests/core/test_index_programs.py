"""Random index expressions on random views: what is read, written, updated and refused is what NumPy does."""

# ruff: noqa: ICN001 - oxinp is np

import operator
import warnings

import numpy
import pytest

import oxinp as np
from tests.comparator import assert_same, outcome

pytestmark = pytest.mark.usefixtures("on_device")

NUM_PROGRAMS, PER_TEST = 320, 20
DTYPES = ["f4", "f8", "i4", "i8", "u1", "i2", "?", "c16", "f2", "u8"]
INTEGERS = ["b", "B", "h", "H", "i", "I", "l", "L", "q", "Q", "p", "P"]
VIEWS = [
    lambda x: x,
    lambda x: x[::-1],
    lambda x: x[..., ::-2],
    lambda x: x.T,
    lambda x: x.swapaxes(0, -1)[::-1],
    lambda x: x[1:],
    lambda x: x[:, None],
    lambda x: x[..., 1:2],
    lambda x: x.reshape(-1),
    lambda x: x[(slice(None, None, 2),) * x.ndim],
]
TAKING_AN_AXIS = ["int", "scalar", "0-d", "slice", "array", "list", "mask", "empty"]
KINDS = [*TAKING_AN_AXIS, "int", "slice", "array", "array", "none", "truth", "ellipsis", "masks", "wrong"]
UPDATES = [operator.iadd, operator.imul, operator.isub, operator.ior, operator.iand]


class Drawing:
    """A random program: `run(xp)` returns what it gives and the array that it may have written to."""

    def __init__(self, seed):
        self.rng = numpy.random.default_rng([20_26, seed])
        self.shape = tuple(map(int, self.rng.choice([0, 1, 2, 3, 4, 5, 7], self.rng.integers(0, 5), p=_WEIGHTS)))
        self.dtype = numpy.dtype(self.choice(DTYPES))
        self.base = self.values(self.shape)
        self.views = [self.choice(VIEWS) for _ in range(self.rng.integers(0, 3))]
        self.broadcasts = self.rng.random() < 0.08
        seen = outcome(self.seen, self.base)
        if isinstance(seen, Exception):
            self.views, seen = [], self.base
        self.key = self.key_for(seen.shape)
        self.ours = self.rng.random() < 0.75  # arrays in keys, and values
        self.kind = self.choice(["read", "read", "write into", "write", "write", "update", "at"])
        self.update = self.choice(UPDATES)
        with numpy.errstate(all="ignore"):
            selected = outcome(lambda x: x[self.key], seen)
        self.value = self.value_for(getattr(selected, "shape", (2,)))

    def choice(self, options):
        return options[self.rng.integers(len(options))]

    def values(self, shape, dtype=None):
        dtype = self.dtype if dtype is None else numpy.dtype(dtype)
        drawn = self.rng.integers(0, 2 if dtype.kind == "b" else 60, shape)
        return numpy.asarray(drawn + 1j * drawn[..., None].sum() if dtype.kind == "c" else drawn).astype(dtype)

    def seen(self, x):
        for look in self.views:
            x = look(x)
        return x

    def integer(self, extent):
        most = extent + (self.rng.random() < 0.03)
        return int(self.rng.integers(-most, most)) if most > 0 else 0

    def indices(self, extent, shape):
        code = self.choice(INTEGERS)
        low = -extent if numpy.dtype(code).kind == "i" else 0
        index = self.rng.integers(max(low, -127), max(min(extent, 127), low + 1), shape)
        if index.size and self.rng.random() < 0.03:
            index.flat[self.rng.integers(index.size)] = self.choice([extent, -extent - 1, 100])
        return index.astype(code)

    def slice(self, extent):
        def end():
            return None if self.rng.random() < 0.4 else int(self.rng.integers(-extent - 2, extent + 3).clip(-128, 127))

        step = self.choice([None, 1, 2, -1, -2, 3, None])
        wrap = self.choice([lambda x: x, lambda x: x, numpy.int8])
        return slice(*[x if x is None else wrap(x) for x in (end(), end(), step)])

    def key_for(self, shape):
        """A key of parts, each of the kinds that NumPy has, for the axes from the first one on."""
        parts, axis, ndim = [], 0, len(shape)
        joint = tuple(map(int, self.rng.integers(1, 4, self.rng.integers(0, 3))))
        has_ellipsis = False
        for _ in range(int(self.rng.integers(1, ndim + 3))):
            extent = shape[axis] if axis < ndim else 3
            kind = self.choice(KINDS)
            if kind in TAKING_AN_AXIS and axis >= ndim and self.rng.random() < 0.9:
                break
            if kind == "int":
                parts.append(self.integer(extent))
            elif kind == "scalar":
                parts.append(numpy.dtype(self.choice("hilqH")).type(max(0, self.integer(extent))))
            elif kind == "0-d":
                parts.append(numpy.array(self.integer(extent), self.choice("hilq")))
            elif kind == "slice":
                parts.append(self.slice(extent))
            elif kind == "array":
                own = joint if self.rng.random() < 0.7 else tuple([n if self.rng.random() < 0.5 else 1 for n in joint])
                own = own[self.rng.integers(0, len(own) + 1) :] if self.rng.random() < 0.3 else own
                index = self.indices(extent, own)
                parts.append(index[..., ::-1] if index.ndim and self.rng.random() < 0.2 else index)
            elif kind == "list":
                index = self.indices(extent, joint[-1:])
                parts.append(index.tolist() if self.rng.random() < 0.7 or extent == 0 else [True] * extent)
            elif kind == "empty":
                parts.append(self.choice([[], numpy.empty((0,), "i8"), numpy.empty((2, 0), "i4"), numpy.empty(0, "?")]))
            elif kind == "mask":
                parts.append(self.rng.random(extent + (self.rng.random() < 0.05)) < 0.5)
            elif kind == "masks":
                count = int(self.rng.integers(0, ndim - axis + 1)) if axis <= ndim else 1
                parts.append(self.rng.random(shape[axis : axis + count]) < 0.5)
                axis += count - 1
            elif kind == "truth":
                parts.append(self.choice([True, False, numpy.True_, numpy.array(True), numpy.array(False)]))
                axis -= 1
            elif kind == "ellipsis":
                if has_ellipsis and self.rng.random() < 0.9:
                    continue
                has_ellipsis = True
                parts.append(...)
                axis = max(axis, ndim - int(self.rng.integers(0, 3))) - 1
            elif kind == "none":
                parts.append(None)
                axis -= 1
            elif self.rng.random() < 0.15:
                parts.append(self.choice([1.0, "a", numpy.array([0.0]), numpy.zeros((1, 1), "f4"), [0.5], 1j, {}, b""]))
            axis += 1
        return parts[0] if len(parts) == 1 and self.rng.random() < 0.7 else tuple(parts)

    def value_for(self, shape):
        dtype = self.choice([self.dtype, self.dtype, self.dtype, "i4", "f8", "u1", "f4", "?"])
        if self.rng.random() < 0.3:
            return self.choice([3, 2.5, True, numpy.float32(1.5), numpy.int16(7), numpy.array(5), 300, -1, [1], [[2]]])
        if shape and self.rng.random() < 0.3:
            shape = tuple([n if self.rng.random() < 0.6 else 1 for n in shape])
        if self.rng.random() < 0.15:
            shape = shape[1:]
        if self.rng.random() < 0.1:
            shape = (1, *shape)
        if shape and self.rng.random() < 0.05:
            shape = (*shape[:-1], shape[-1] + 1)
        value = self.values(shape, dtype)
        return value[::-1] if value.ndim and self.rng.random() < 0.2 else value

    def given(self, xp, value):
        if isinstance(value, tuple):
            return tuple([self.given(xp, part) for part in value])
        return xp.asarray(value) if self.ours and isinstance(value, numpy.ndarray) else value

    def run(self, xp):
        base = xp.array(self.base)
        x = self.seen(xp.broadcast_to(base, (2, *self.base.shape)) if self.broadcasts else base)
        key, value = self.given(xp, self.key), self.given(xp, self.value)
        return outcome(lambda _: self.done(xp, x, key, value), xp), base

    def done(self, xp, x, key, value):
        if self.kind == "write":
            x[key] = value
        elif self.kind == "update":
            x[key] = self.update(x[key], value)
        elif self.kind == "at":
            xp.add.at(x, key, value)
        else:
            found = x[key]
            if self.kind == "write into" and hasattr(found, "ndim") and found.ndim and found.flags.writeable:
                found[...] = 1
            return found
        return None

    def __repr__(self):
        looks = [VIEWS.index(look) for look in self.views] + ["broadcast"] * self.broadcasts
        done = f"{self.kind} {self.update.__name__ if self.kind == 'update' else ''}"
        of_whom = "ours" if self.ours else "NumPy's"
        return f"{self.shape} {self.dtype}, views {looks}, {done} key {self.key!r} value {self.value!r}, {of_whom}"


_WEIGHTS = [0.06, 0.12, 0.16, 0.2, 0.18, 0.14, 0.14]


def check(seed):
    program = Drawing(seed)
    with warnings.catch_warnings(), numpy.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found, base = program.run(np)
        expected, numpys = program.run(numpy)
    where = f"program {seed}: {program}"
    assert_same(found, expected, where=where)
    assert_same(base, numpys, where=where)
    if isinstance(expected, numpy.ndarray) and expected.size and 1 not in expected.shape:
        assert found.strides == expected.strides, where
    return found, expected


@pytest.mark.parametrize("first", range(0, NUM_PROGRAMS, PER_TEST))
def test_random_index_expressions(first, config):
    config.synchronous = True  # so that indices out of bounds are refused at once
    for seed in range(first, first + PER_TEST):
        check(seed)


FORMS = [
    (numpy.array(1),),
    (numpy.array(-1, "i1"), slice(None, None, -1)),
    (..., numpy.array(2)),
    (True,),
    (numpy.array(False),),
    (1, numpy.True_, [0, 2]),
    (slice(None), True, numpy.array([[1], [0]])),
    (numpy.array([True, False, True]), numpy.array(1), None),
]


@pytest.mark.parametrize("key", FORMS, ids=str)
@pytest.mark.parametrize("of_whom", ["ours", "NumPy's"])
def test_single_integers_and_truth_values_in_keys(key, of_whom, stats):
    x = numpy.arange(60, dtype="i4").reshape(3, 4, 5)
    ours, given = np.asarray(x), key
    if of_whom == "ours":
        given = tuple([np.asarray(part) if isinstance(part, numpy.ndarray) else part for part in key])
    found = ours[given]
    assert_same(found, x[key])
    found[...] = 7  # a copy
    for _ in range(2):
        ours[given] = ours[given] + 1
        x[key] = x[key] + 1
        np.add.at(ours, given, 3)
        numpy.add.at(x, key, 3)
    assert_same(ours, x)
    assert not {name for name in stats().fallbacks if name != "__array__"}


@pytest.mark.parametrize("view", [lambda x: x[::-1], lambda x: x[::-1, :, ::-1], lambda x: x.T[::-1]])
def test_updates_of_views_with_negative_strides(view):
    for key in ((slice(None), numpy.array([1, 0]), numpy.array([2, 2])), (numpy.array([1, 1]), ..., numpy.array([0]))):
        x = numpy.arange(60.0).reshape(3, 4, 5)
        ours = np.asarray(x)
        values = numpy.arange(1.0, 1 + view(x)[key].size).reshape(view(x)[key].shape)
        np.add.at(view(ours), tuple([np.asarray(k) if isinstance(k, numpy.ndarray) else k for k in key]), values)
        numpy.add.at(view(x), key, values)
        assert_same(ours, x)


def test_values_of_too_many_dimensions_are_refused():
    for call in (
        lambda xp, x: xp.add.at(x, xp.asarray([1, 2]), xp.ones((1, 1, 2))),
        lambda xp, x: xp.add.at(x, slice(0, 2), xp.ones((1, 2))),
        lambda _, x: x.__setitem__(slice(0, 2), [[1, 2]]),
        lambda _, x: x.__setitem__(2, [5]) or x.__setitem__(2, [[5]]),
        lambda xp, x: x.__setitem__(xp.asarray([1, 99]), xp.ones(3)),  # before the index is
    ):
        given = numpy.arange(9.0)
        ours = np.asarray(given)
        found = outcome(lambda xp, x=ours, call=call: call(xp, x), np)
        expected = outcome(lambda xp, x=given, call=call: call(xp, x), numpy)
        assert isinstance(expected, ValueError)
        assert_same(found, expected)
        assert_same(ours, given)
