"""What is an array itself, whose base an array is, and `flat`."""

# ruff: noqa: ICN001 - oxinp is np where programs are written

import numpy
import pytest

import oxinp
from tests.comparator import assert_same

pytestmark = pytest.mark.usefixtures("offload_threshold")

EXPRESSIONS = (
    """
x.real is x;np.real(x) is x;x.squeeze() is x;np.squeeze(x) is x;x.squeeze(()) is x;x.flatten().base is None;x.T.T is x
X.flatten().base is None;X.T.flatten().base is None;X.flatten("F").base is None;x.ravel().base is x;c.real.base is c
X.T.ravel().base is None;x.flat.base is x;X[0].flat.base is x;x.conj() is x;x.imag.base is None;X.squeeze() is X
X[None].squeeze().base is x;np.atleast_1d(x) is x;x.view() is x;x.astype(float, copy=False) is x;x[...] is x
""".replace("\n", ";")
    .strip(";")
    .split(";")
)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_identities(expression):
    found = []
    for xp in (oxinp, numpy):
        x = xp.arange(6.0) * 1
        names = {"np": xp, "x": x, "X": x.reshape(2, 3), "c": x * 1j}
        found.append(eval(expression, names))  # noqa: S307 - of the list
    assert found[0] is found[1]


def elements(xp, x):
    flat = x.flat
    found = [len(flat), next(flat), next(flat), flat.index, flat.coords, flat[2], flat[1:3], flat[[0, -1]], flat.copy()]
    flat[3] = 7
    flat[[0, 1]] = xp.arange(2.0) + 1
    flat[xp.arange(6) > 4] = 8
    found += [x.copy(), x.flat == x.flat[0], x.flat < 3, xp.asarray(x.flat), xp.sum(x.flat), list(x.flat), max(x.flat)]
    x += 1
    found += [flat[2], isinstance(flat, xp.flatiter), type(flat).__name__]
    x.flat = [1, 2]
    return [*found, x.copy()]


def test_flat():
    for make in (lambda x: x.reshape(2, 3), lambda x: x.reshape(3, 2).T, lambda x: x[::-1]):
        ours, numpys = (elements(xp, make(xp.arange(6.0) * 1)) for xp in (oxinp, numpy))
        assert_same(ours, numpys)
    for xp in (oxinp, numpy):
        with pytest.raises(ValueError, match="read-only"):
            xp.broadcast_to(xp.ones(1), (2,)).flat[0] = 2
        with pytest.raises(TypeError):
            hash(xp.ones(1).flat)


@pytest.mark.parametrize(
    "elements",
    [
        lambda xp, x: (element for _, element in xp.ndenumerate(x)),
        lambda xp, x: (pair[0] for pair in xp.broadcast(x, x)),
        lambda _, x: x.flat,
        lambda xp, x: xp.nditer(x),
        lambda _, x: iter(x),
    ],
)
def test_writes_are_seen_by_who_iterates(elements):
    for xp in (oxinp, numpy):
        x = xp.arange(6.0)
        for i, element in enumerate(elements(xp, x)):
            if i < 5:
                x[i + 1] += element
        assert x.tolist() == [0, 1, 3, 6, 10, 15]
