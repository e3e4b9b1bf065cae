"""What NumPy refuses is refused with its words, and neither it nor a draw without room for it moves the state."""

import numpy as np
import pytest

import oxinp
from oxinp._core.ops.twister import TwistEnding
from tests.thinned import thinned

GENERATORS = {
    **{kind: lambda xp, kind=kind: xp.random.Generator(getattr(np.random, kind)(5)) for kind in ("PCG64", "Philox")},
    "MT19937": lambda xp: xp.random.Generator(np.random.MT19937(5)),
    "RandomState": lambda xp: xp.random.RandomState(5),
}
OF_BOTH = (
    *("standard_normal(-5)", "standard_normal((500, -1))", "standard_cauchy(-1)", "standard_exponential(-1)"),
    *(
        "normal(0, -1, 500)",
        "normal(np.zeros(300), -np.ones(300))",
        "normal(np.zeros(3), 1, 500)",
        "normal(1, 2, 3, 4)",
    ),
    *("uniform(0, np.inf, 500)", "uniform(np.zeros(300), np.full(300, np.inf))", "exponential(-1, 500)"),
    *("lognormal(0, -1, 500)", "gumbel(0, -1, 500)", "logistic(0, -2, 500)", "laplace(0, -1, 500)"),
    *("weibull(-1, 500)", "pareto(0, 500)", "power(-1, 500)", "rayleigh(-1, 500)", "triangular(3, 2, 1, 500)"),
    *("choice(0, 500)", "choice(5, 500, replace=False)", "choice(2, 500, p=[0.6, 0.6])", "choice(2, 500, p=[-1, 2])"),
    *(
        "choice(2.5, 500)",
        "permutation(2.5)",
        "permutation('abc')",
        "shuffle(5)",
        "shuffle(read_only)",
    ),
    *("gamma(-1, 1, 500)", "poisson(-1, 500)"),
)
OF_GENERATORS = (
    *("random(-1)", "random(2.5)", "random(500, dtype='i4')", "random(500, 'f4', out=y)", "random(out=y[::2])"),
    *("random(400, out=y)", "random(out=read_only)", "standard_normal(500, dtype='f2')"),
    *("standard_normal(out=read_only)", "triangular(1, 1, 1, 500)"),
    *("integers(5, 2, 500)", "integers(0, size=500)", "integers(0, 2**70, 500)", "integers(-1, 200, 500, dtype='u1')"),
    *(
        "integers(0, 10, 500, dtype='f8')",
        "integers(np.full(300, 5), np.full(300, 2))",
        "integers(0, np.zeros(300, int))",
    ),
    *("integers(np.arange(2), np.arange(3), 500)", "integers(5, 4, 500, endpoint=True)"),
    *(
        "choice(np.zeros((2, 3)), 500, axis=5)",
        "choice(np.zeros(300), 400, replace=False)",
        "choice(2, 500, p=[np.nan, 1])",
    ),
    *("permutation(y, axis=3)", "shuffle(y, axis=2)", "permuted(y, axis=4)", "permuted(y, out=y[::2])"),
)
OF_ARRAYS = (
    *("uniform(np.zeros(300), -np.ones(300))", "triangular(np.full(300, 2.0), 1.0, 3.0)"),
    *("triangular(0.0, np.full(300, 4.0), 3.0)", "triangular(np.ones(300), 1.0, 1.0)", "pareto(np.arange(300.0))"),
    *("integers(np.arange(90), 80)", "integers(np.arange(90), 2**33, dtype='i4')", "choice(3, 500, p=[0.5, 0.5])"),
    *("integers(-1, np.arange(1, 90), dtype='u4')", "integers(np.zeros(90, int), 80, size=(3, 8))"),
    *("normal(np.zeros(3), 1, size=(3, 2))", "normal(np.zeros(300), np.ones(200))"),
)
OF_STATES = (
    *("rand(-1)", "rand(2.5)", "randn('a')", "random_sample(-3)", "randint(5, 2, 500)", "randint(0, size=500)"),
    *("randint(0, 2**70, 500)", "randint(0, 10, 500, dtype='f8')", "choice(np.zeros((2, 3)), 500)", "seed(-1)"),
    *("seed('a')", "set_state(5)", "random_sample(10**20)"),
)
TOO_LARGE = ("standard_normal(10**14)", "permutation(2**60)", "normal(0, 1, 10**15)", "choice(10, 10**15)")
CASES = thinned(list(GENERATORS), [*OF_BOTH, *TOO_LARGE])
CASES += thinned(["PCG64", "MT19937"], [*OF_GENERATORS, *OF_ARRAYS, "random(10**15)"])
CASES += [("RandomState", code) for code in OF_STATES]


def state(generator):
    return repr(generator.get_state(legacy=False) if hasattr(generator, "get_state") else generator.bit_generator.state)


def outcome(kind, code, xp):
    """Return what is raised, the states before and after, and what is drawn then."""
    generator = GENERATORS[kind](xp)
    generator.standard_normal(333)  # on the device, which knows where it ended
    before = state(generator)
    read_only = xp.zeros(2000)
    read_only.flags.writeable = False
    names = {"g": generator, "np": xp, "y": xp.zeros(2000), "read_only": read_only}
    with pytest.raises(Exception) as caught:
        eval(f"g.{code}", names)  # noqa: S307 - our own code
    error = caught.value
    return type(error), str(error), before, state(generator), generator.uniform(size=3).tolist()


def _says(error, code):
    """Whether NumPy's words are ours to say: those of Python on arguments name a class of ours."""
    return not issubclass(error, MemoryError) and "1, 2, 3, 4" not in code


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize(("kind", "code"), CASES)
def test_a_call_that_raises_leaves_the_state(kind, code):
    ours, numpys = outcome(kind, code, oxinp), outcome(kind, code, np)
    assert ours[0] is numpys[0]
    if _says(ours[0], code):
        assert ours[1] == numpys[1]
    assert ours[2:] == numpys[2:]
    assert ours[2] == ours[3]


@pytest.mark.usefixtures("on_device")
def test_a_seed_does_not_ask_where_the_last_draw_ended(monkeypatch):
    generator, numpys = oxinp.random.RandomState(3), np.random.RandomState(9)
    generator.randn(500)

    def failing(_):
        raise MemoryError

    monkeypatch.setattr(TwistEnding, "position", failing)
    with pytest.raises(MemoryError):
        generator.rand(2)
    with pytest.raises(ValueError, match="Seed must be"):
        generator.seed(-1)
    with pytest.raises(MemoryError):  # still
        generator.rand(2)
    generator.seed(9)
    assert generator.rand(2).tolist() == numpys.rand(2).tolist()


@pytest.mark.usefixtures("on_device")
def test_a_reduction_of_more_than_fits_is_no_bad_input():
    """A draw of which nothing is to be stored takes no room: it is recorded, and NumPy's words are skipped."""
    generator, numpys = oxinp.random.default_rng(5), np.random.PCG64(5)
    generator.random(1 << 33) < 0.5  # noqa: B015 - only recorded: 64 GiB, of which the emulator has 4
    numpys.advance(1 << 33)
    assert generator.random(3).tolist() == np.random.Generator(numpys).random(3).tolist()
