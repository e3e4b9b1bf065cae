"""Norms and products of `numpy.linalg` on the device: NumPy's values, dtypes, shapes and exceptions, no fallback."""

import numpy as np
import pytest

import oxinp
from tests.comparator import assert_same, same_outcome

RANDOM = np.random.default_rng(11)
DTYPES = ("bool", "int32", "uint8", "float32", "float64", "complex64", "complex128")


def numbers(shape, dtype):
    """Return an array whose sums and products are exact, so that no order of summation shows."""
    values = RANDOM.integers(0, 2, shape) if dtype == "bool" else RANDOM.integers(0, 6, shape)
    if dtype.startswith(("i", "f")):
        values = values - 3
    if dtype.startswith("c"):
        # Products of five fit the 24 bits of single precision.
        values = np.sign(values) * RANDOM.choice([3 + 4j, -4 + 3j, 5, -5j], shape)
    return values.astype(dtype)


def run(code, **arrays):
    """Compare an expression under NumPy and under oxinp; NumPy's function is tried on our arrays, too."""
    both = [{"np": xp, **{name: xp.asarray(array) for name, array in arrays.items()}} for xp in (np, oxinp)]
    expected = eval(code, both[0])  # noqa: S307 - our own code
    with oxinp.config.override(fallback="error"):
        ours = [eval(code, {**both[1], "np": xp}) for xp in (oxinp, np)]  # noqa: S307
        oxinp.evaluate(*ours)
    assert_same(ours, [expected, expected])


VECTOR_NORMS = ("", ", 1", ", 2", ", np.inf", ", -np.inf", ", 0", ", axis=0", ", 1, 0, True", ", keepdims=True")
MATRIX_NORMS = (
    *("", ", 'fro'", ", 1", ", -1", ", np.inf", ", -np.inf", ", 'f', (0, 1), True", ", axis=0", ", axis=1, ord=1"),
    *(", np.inf, 1, keepdims=True", ", 1, (1, 0)", ", keepdims=True", ", 0, axis=1"),
)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("arguments", VECTOR_NORMS)
@pytest.mark.usefixtures("on_device")
def test_norms_of_vectors(arguments, dtype):
    run(f"np.linalg.norm(x{arguments})", x=numbers(37, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("arguments", MATRIX_NORMS)
@pytest.mark.usefixtures("on_device")
def test_norms_of_matrices(arguments, dtype):
    run(f"np.linalg.norm(x{arguments})", x=numbers((5, 7), dtype))


@pytest.mark.parametrize(
    "code",
    [
        "np.linalg.norm(x)",
        "np.linalg.norm(x, axis=(0, 2))",
        "np.linalg.norm(x, 1, axis=(-1, 0), keepdims=True)",
        "np.linalg.norm(x[::2, :, ::-1], axis=-1)",
        "np.linalg.norm(x.T, np.inf, (1, 2))",
        "np.linalg.vector_norm(x)",
        "np.linalg.vector_norm(x, axis=(0, 1))",
        "np.linalg.vector_norm(x, ord=1, keepdims=True)",
        "np.linalg.vector_norm(x, axis=1, ord=np.inf, keepdims=True)",
        "np.linalg.vector_norm(x, ord=0)",
        "np.linalg.matrix_norm(x)",
        "np.linalg.matrix_norm(x, ord=1)",
        "np.linalg.matrix_norm(x, ord=-np.inf, keepdims=True)",
        "np.linalg.norm(x[0])",
        "np.linalg.norm(x[0, 0, 0])",
    ],
)
@pytest.mark.parametrize("dtype", ["int64", "float32", "complex128"])
@pytest.mark.usefixtures("on_device")
def test_norms_of_stacks(code, dtype):
    run(code, x=numbers((3, 4, 6), dtype))


@pytest.mark.parametrize(
    "code",
    [
        "np.linalg.multi_dot([a, b])",
        "np.linalg.multi_dot([a, b, c])",
        "np.linalg.multi_dot([v, a, b, c, w])",
        "np.linalg.multi_dot([a, b, w])",
        "np.linalg.matrix_power(s, 0)",
        "np.linalg.matrix_power(s, 1)",
        "np.linalg.matrix_power(s, 2)",
        "np.linalg.matrix_power(s, 3)",
        "np.linalg.matrix_power(t, 3)",
        "np.linalg.cross(a.reshape(-1, 3), a.reshape(-1, 3)[::-1])",
        "np.linalg.cross(v3, a.reshape(-1, 3), axis=-1)",
        "np.linalg.outer(v, w)",
        "np.linalg.matmul(a, b)",
        "np.linalg.matmul(t, s)",
        "np.linalg.matmul(v, a)",
        "np.linalg.vecdot(a, a)",
        "np.linalg.vecdot(t, t[0], axis=1)",
        "np.linalg.tensordot(t, s, axes=1)",
        "np.linalg.tensordot(t, t, axes=([0, 2], [0, 1]))",
        "np.linalg.trace(s)",
        "np.linalg.trace(t, offset=1)",
        "np.linalg.trace(t, dtype='complex64')",
        "np.linalg.diagonal(t)",
        "np.linalg.diagonal(a, offset=-1)",
        "np.linalg.matrix_transpose(t)",
    ],
)
@pytest.mark.parametrize("dtype", ["int32", "float32", "float64", "complex64"])
@pytest.mark.usefixtures("on_device")
def test_products(code, dtype):
    shapes = {"a": (6, 4), "b": (4, 5), "c": (5, 3), "s": (4, 4), "t": (2, 4, 4), "v": 6, "v3": 3, "w": 3}
    arrays = {name: numbers(shape, dtype) for name, shape in shapes.items()}
    if "b, w" in code:
        arrays["w"] = numbers(5, dtype)
    run(f"{code} + 0", **arrays)  # the signs of zeros depend on the order of sums


def test_views_are_views():
    x = oxinp.arange(12.0).reshape(3, 4)
    oxinp.linalg.diagonal(x).flags.writeable  # noqa: B018 - a view all the same
    oxinp.linalg.matrix_transpose(x)[0] = 9
    assert_same(x[:, 0] + 0, np.full(3, 9.0))
    assert np.shares_memory(oxinp.linalg.diagonal(x), x)


@pytest.mark.parametrize(
    "body",
    [
        lambda xp, x: xp.linalg.norm(x, "nonsense"),
        lambda xp, x: xp.linalg.norm(x, "fro", axis=0),
        lambda xp, x: xp.linalg.norm(x, 3),
        lambda xp, x: xp.linalg.norm(x, axis=2),
        lambda xp, x: xp.linalg.norm(x, axis=(0, 0)),
        lambda xp, x: xp.linalg.norm(x, axis=(0, 1, 2)),
        lambda xp, x: xp.linalg.norm(x, axis="a"),
        lambda xp, x: xp.linalg.norm(x, np.inf, (0, 1), keepdims=1, more=2),
        lambda xp, x: xp.linalg.norm(x[:0], -np.inf),
        lambda xp, x: xp.linalg.norm(x[:0], np.inf),
        lambda xp, x: xp.linalg.norm(x[:0]),
        lambda xp, x: xp.linalg.vector_norm(x, axis=5),
        lambda xp, x: xp.linalg.matrix_norm(x[0]),
        lambda xp, x: xp.linalg.multi_dot([x]),
        lambda xp, x: xp.linalg.multi_dot([x, x]),
        lambda xp, x: xp.linalg.matrix_power(x, 2),
        lambda xp, x: xp.linalg.matrix_power(x[:, :3], 1.5),
        lambda xp, x: xp.linalg.cross(x, x),
        lambda xp, x: xp.linalg.outer(x, x),
        lambda xp, x: xp.linalg.matmul(x, x),
        lambda xp, x: xp.linalg.vecdot(x, x.T),
        lambda xp, x: xp.linalg.trace(x[0]),
        lambda xp, x: xp.linalg.diagonal(x[0]),
        lambda xp, x: xp.linalg.matrix_transpose(x[0]),
    ],
)
@pytest.mark.usefixtures("offload_threshold")
def test_exceptions(body):
    same_outcome(lambda xp: body(xp, xp.arange(12.0).reshape(3, 4)), oxinp, np)


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize(("order", "launches"), [("fro", 1), (1, 2), (np.inf, 2)])
def test_norms_are_reductions(order, launches, stats):
    x = oxinp.asarray(numbers((64, 64), "float32")) + 0
    oxinp.evaluate(oxinp.linalg.norm(x, order))  # a size that is met again is worth a kernel of its own
    before = stats().launches
    oxinp.evaluate(oxinp.linalg.norm(x, order))
    assert stats().launches - before == launches


@pytest.mark.parametrize("order", [None, 1, 2, np.inf, 3, 0.5])
@pytest.mark.usefixtures("on_device")
def test_random_numbers(order):
    x = RANDOM.normal(size=2000)
    ours, numpys = (float(xp.linalg.norm(xp.asarray(x), order)) for xp in (oxinp, np))
    # The sums of 2000 terms of either side, each within n u of the true one, and a few roundings.
    assert abs(ours - numpys) <= 2 * 2000 * 2.0**-53 * numpys * 4


def test_products_of_small_matrices_that_are_large_are_the_devices():
    column, row = oxinp.ones((300, 1)), oxinp.ones((1, 300))
    with oxinp.config.override(offload_threshold=65536):
        result = oxinp.linalg.multi_dot([column, row])
        assert result._storage.host is None
        assert_same(result, np.ones((300, 300)))
        assert_same(oxinp.linalg.multi_dot([row, column]), np.full((1, 1), 300.0))
        assert oxinp.linalg.multi_dot([row[:, :3], column[:3]])._storage.host is not None
