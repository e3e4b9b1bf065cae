"""matplotlib draws our arrays."""

import io

import numpy as np
import pytest

import oxinp

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
pyplot = pytest.importorskip("matplotlib.pyplot")
pytestmark = pytest.mark.usefixtures("offload_threshold")


@pytest.fixture
def axes():
    figure, axes = pyplot.subplots()
    yield axes
    figure.savefig(io.BytesIO(), format="png")
    pyplot.close(figure)


def test_lines(axes):
    x = oxinp.linspace(0, 1, 500)
    (line,) = axes.plot(x, x**2)
    assert np.array_equal(line.get_ydata(), np.linspace(0, 1, 500) ** 2)
    axes.set_xlim(x[0], x[-1])
    axes.axhline(x.mean())


def test_images(axes):
    image = oxinp.arange(20_000.0).reshape(100, 200)
    drawn = axes.imshow(image)
    assert np.array_equal(drawn.get_array(), np.arange(20_000.0).reshape(100, 200))
    axes.contour(image)


@pytest.mark.parametrize(
    "draw",
    [
        lambda axes, x: axes.scatter(x, x, c=x, s=x),
        lambda axes, x: axes.hist(x, bins=5),
        lambda axes, x: axes.bar(x, x),
        lambda axes, x: axes.errorbar(x, x, yerr=abs(x)),
        lambda axes, x: axes.fill_between(x, x, x + 1),
        lambda axes, x: axes.step(x, x),
        lambda axes, x: axes.quiver(x, x, x, x),
        lambda axes, x: axes.pcolormesh(oxinp.outer(x, x)),
        lambda axes, x: axes.pie(x + 1),
        lambda axes, x: axes.boxplot(x),
    ],
)
def test_charts(axes, draw):
    draw(axes, oxinp.arange(9.0))
