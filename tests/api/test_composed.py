"""Composed functions are made of native operations: nothing of theirs goes to the host but what has no kernel yet."""

import io

import numpy as np
import pytest

import oxinp
from oxinp._api import coverage
from tests.api.examples import arrays, examples

ROWS = coverage.rows()
# Files are long where it matters: see test_files. A matrix is NumPy's, for which the user's names are looked up.
ELSEWHERE = {"load", "loadtxt", "save", "bmat"}
COMPOSED = sorted(name for name, row in ROWS.items() if row.kind == coverage.COMPOSED and name not in ELSEWHERE)


def avoidable(fallbacks):
    """Return the fallbacks of functions that are native or composed themselves."""
    ours = {name for name, row in ROWS.items() if row.kind in (coverage.NATIVE, coverage.COMPOSED)}
    return ours & set(fallbacks)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::PendingDeprecationWarning")
@pytest.mark.parametrize("name", COMPOSED)
@pytest.mark.usefixtures("on_device")
def test_one_example_at_least_stays_on_the_device(name, stats):
    counts = []
    for code in examples()[name]:
        names = {"np": oxinp, "io": io, **arrays(oxinp, code)}
        before = stats().fallbacks
        with np.errstate(all="ignore"):
            eval(code, names)  # noqa: S307 - our own code
        counts.append(avoidable(used for used, count in stats().fallbacks.items() if count > before.get(used, 0)))
    assert set() in counts, counts


@pytest.mark.parametrize(
    ("first", "second"),
    [
        *[((4,), (4,)), ((3, 4), (4,)), ((3,), (3, 4)), ((2, 3, 4), (4,)), ((4,), (2, 4, 3))],
        *[((3, 4), (4, 1)), ((1, 3), (3, 4)), ((2, 1, 4), (2, 4, 3)), ((3, 1), (1, 4)), ((1,), (1, 1))],
    ],
)
@pytest.mark.parametrize("dtype", ["bool", "int32", "float32", "float64"])
@pytest.mark.usefixtures("on_device")
def test_products_with_vectors(first, second, dtype, config):
    config.fallback = "error"
    random = np.random.default_rng(5)
    a, b = (random.integers(-4, 5, shape).astype(dtype) for shape in (first, second))
    ours = oxinp.array(a) @ oxinp.array(b)
    numpys = a @ b
    assert (ours.shape, ours.dtype) == (numpys.shape, numpys.dtype)
    assert (ours == numpys).sum() == numpys.size
    functions = [oxinp.matmul, np.matmul, oxinp.dot] if a.ndim < 3 > b.ndim else [oxinp.matmul]
    for function in functions:
        assert (function(oxinp.array(a), oxinp.array(b)) == numpys).sum() == numpys.size


@pytest.mark.parametrize(
    "body",
    [
        lambda xp, x: x @ xp.array([1.0, 2.0]),
        lambda xp, x: x @ xp.float64(2.0),
        lambda xp, x: xp.array(1.0) @ x,
        lambda xp, x: xp.matmul(x.reshape(2, 2), x),
        lambda xp, x: xp.vecdot(x, x[1:]),
        lambda xp, x: xp.dot(x, x[1:]),
        lambda xp, x: xp.inner(x, x[1:]),
        lambda xp, x: xp.vdot(x, x[1:]),
        lambda xp, x: xp.trace(x),
        lambda xp, x: xp.tile(x, "a"),
        lambda xp, x: xp.roll(x, 1, axis=2),
        lambda xp, x: xp.repeat(x, -1),
        lambda xp, x: xp.diff(x, -1),
        lambda xp, x: xp.pad(x, 1.5),
        lambda xp, x: xp.pad(x, -1),
        lambda xp, x: xp.pad(x, 1, mode="nonsense"),
        lambda xp, x: xp.meshgrid(x, indexing="ab"),
        lambda xp, x: xp.select([x > 1], [x, x]),
        lambda xp, x: xp.select([x], [x]),
        lambda xp, x: xp.copyto(x, 1 + 2j, where=x > 1),
        lambda xp, x: xp.copyto(x[:2], x, where=x > 1),
        lambda xp, x: xp.copyto(x, x, where=x),
        lambda xp, x: xp.clip(x, 1),
        lambda xp, x: xp.clip(x, 1, 2, min=3),
    ],
)
@pytest.mark.usefixtures("offload_threshold")
def test_refuses_what_numpy_refuses(body):
    errors = []
    for xp in (np, oxinp):
        x = xp.array([1.0, 2.0, 3.0, 4.0])
        with pytest.raises(Exception) as caught:
            body(xp, x)
        errors.append(caught.type)
        assert [float(value) for value in x] == [1.0, 2.0, 3.0, 4.0]
    assert errors[0] is errors[1]
