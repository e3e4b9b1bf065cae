"""Random numbers: NumPy's own streams, in our arrays."""

import inspect
import pickle

import numpy as np
import pytest

import oxinp
from oxinp._api.submodule_rows import ROWS
from oxinp._core.host import fallback
from oxinp._core.lazy.balance import balance
from oxinp._core.ops.c_library import OWN, form_of
from oxinp._kernels.random.lcg import GENERATORS
from oxinp.random import methods, transformed
from tests.comparator import assert_same

CALLS = (
    "random(3)",
    "integers(0, 10, size=4)",
    "normal(size=(2, 2))",
    "choice(v, 3, replace=False)",
    "permutation(v)",
    "permuted(v)",
    "standard_normal(4, 'f8', v)",
    "standard_exponential(4, 'f8', 'zig', v)",
    "standard_gamma(2.0, 4, 'f8', v)",
    "random(4, 'f8', v)",
    "random(out=v)",
    "shuffle(v)",
    "shuffle(x=v)",
    "multivariate_normal(v[:2], s)",
    "normal(v, 1.0)",
    "integers(5)",
)


@pytest.mark.usefixtures("offload_threshold")
@pytest.mark.parametrize("code", CALLS)
def test_generator(code):
    results = []
    for xp in (oxinp, np):
        names = {"g": xp.random.default_rng(5), "v": xp.arange(4.0), "s": xp.eye(2)}
        given = eval(f"g.{code}", names)  # noqa: S307 - our own code
        results.append([given, names["v"], names["g"].integers(1000)])
    assert_same(*results)


def test_results_are_ours():
    assert type(oxinp.random.default_rng(1).random(3)) is oxinp.ndarray
    assert type(oxinp.random.rand(3)) is oxinp.ndarray
    assert type(oxinp.random.RandomState(1).rand(3)) is oxinp.ndarray
    assert type(oxinp.random.default_rng(1).random()) is float


def test_generators_are_numpys_kind():
    generator = oxinp.random.default_rng(3)
    assert isinstance(generator, np.random.Generator)
    assert isinstance(generator, oxinp.random.Generator)
    assert oxinp.random.default_rng(generator) is generator
    theirs = np.random.default_rng(3)
    assert_same(oxinp.random.default_rng(theirs).random(2), np.random.default_rng(3).random(2))
    assert type(generator.spawn(2)[1]) is type(generator)


@pytest.mark.parametrize("make", [lambda xp: xp.random.default_rng(3), lambda xp: xp.random.RandomState(3)])
def test_pickles(make):
    ours, numpys = make(oxinp), make(np)
    ours.normal(size=3), numpys.normal(size=3)
    twin = pickle.loads(pickle.dumps(ours))  # noqa: S301 - our own bytes
    assert type(twin) is type(ours)
    assert_same(twin.normal(size=2), numpys.normal(size=2))


@pytest.mark.parametrize("kind", ["PCG64", "PCG64DXSM", "Philox", "SFC64", "MT19937"])
@pytest.mark.usefixtures("offload_threshold")
def test_pickles_of_bit_generators_are_numpys(kind):
    """What NumPy has pickled goes on as ours, and the other way round."""
    ours, numpys = (xp.random.Generator(getattr(xp.random, kind)(11)) for xp in (oxinp, np))
    ours.standard_normal(300), numpys.standard_normal(300)
    given = pickle.dumps(ours.bit_generator)
    assert b"oxinp" not in given
    twin = np.random.Generator(pickle.loads(given))  # noqa: S301 - our own bytes
    adopted = oxinp.random.Generator(pickle.loads(pickle.dumps(numpys)).bit_generator)  # noqa: S301 - our own bytes
    assert_same([g.random(200) for g in (twin, adopted, ours)], [numpys.random(200)] * 3)
    if kind != "SFC64":
        assert_same(*[type(g)(g.bit_generator.jumped(2)).random(100) for g in (ours, numpys)])
    if kind in {"PCG64", "PCG64DXSM", "Philox"}:
        ours.bit_generator.advance(1000), numpys.bit_generator.advance(1000)
        assert_same(ours.random(100), numpys.random(100))
    children = [g.spawn(2)[1].random(200) for g in (ours, numpys)]
    assert_same(*children)


def _forged(kind, place):
    """A bit generator of which a word from which it makes a number is 0, some numbers on."""
    made = getattr(np.random, kind)(3)
    state = made.state
    if kind == "MT19937":
        state["state"]["pos"] = 1
        state["state"]["key"][1 + 2 * place : 3 + 2 * place] = 0
    else:
        increment = state["state"]["inc"]
        word = 5 << 64 | 5 if kind == "PCG64" else 7  # halves that are equal; an upper half of 0
        lcg = GENERATORS[kind]
        state["state"]["state"] = lcg.advanced(word, increment, -place - lcg.lead)
    made.state = state
    return made


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("name", ["gumbel", "logistic", "laplace", "random"])
@pytest.mark.parametrize("kind", ["PCG64", "PCG64DXSM", "MT19937", "RandomState"])
def test_a_uniform_number_of_0_is_drawn_again_where_numpy_does(kind, name):
    found = []
    for xp in (oxinp, np):
        made = _forged("MT19937" if kind == "RandomState" else kind, 70)
        generator = (xp.random.RandomState if kind == "RandomState" else xp.random.Generator)(made)
        found.append([getattr(generator, name)(size=300), generator.uniform(size=5)])
    assert_same(*found)
    if name == "random":
        assert found[0][0][70] == 0.0


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("kind", ["PCG64", "Philox", "MT19937", "Philox4x32"])
def test_what_takes_as_many_words_as_it_needs_is_drawn_on_the_device(kind):
    generator = oxinp.random.Generator(getattr(oxinp.random, kind)(5))
    numpys = np.random.Generator(getattr(oxinp.random, kind)(5))
    for draw in (
        lambda g: g.standard_normal(700),
        lambda g: g.standard_exponential(900, dtype="f4"),
        lambda g: g.integers(0, 200, 801, dtype="u1"),
        lambda g: g.integers(0, 2**63 + 5, 300, dtype="u8"),
    ):
        before = oxinp.cuda.stats()
        ours = draw(generator)
        after = oxinp.cuda.stats()
        assert after.launches > before.launches
        assert after.fallbacks == before.fallbacks
        assert_same(ours, draw(numpys), ulp=2 * (form_of("log1p_f8") == OWN))
    assert_same(generator.random(3, "f4"), numpys.random(3, "f4"))


# A draw, and the bytes that tell where it ended: none where its size does.
ENDS = {
    "random(3000)": 0,
    "random(3000, 'f4')": 0,
    "uniform(1.0, 2.0, 3000)": 0,
    "integers(0, 2**32, 3000, 'u4')": 0,
    "standard_normal(3000)": 16,
    "integers(0, 10, 3000)": 16,
    "permutation(3000)": 16,
}


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("code", ENDS)
def test_a_draw_reads_where_it_ended_alone(code):
    ours, numpys = (xp.random.default_rng(4) for xp in (oxinp, np))
    before = oxinp.cuda.stats()
    drawn = eval(f"g.{code}", {"g": ours})  # noqa: S307 - our own code
    between = oxinp.cuda.stats()
    state = ours.bit_generator.state
    after = oxinp.cuda.stats()
    assert between.d2h_bytes == before.d2h_bytes
    assert after.d2h_bytes - between.d2h_bytes == ENDS[code]
    assert_same(drawn, eval(f"g.{code}", {"g": numpys}))  # noqa: S307 - our own code
    assert state == numpys.bit_generator.state


@pytest.mark.usefixtures("on_device")
def test_a_stream_of_our_own_is_one_wherever_it_is_drawn():
    ours, hosts = (xp.random.Generator(oxinp.random.Philox4x32(3)) for xp in (oxinp, np))
    for code in (
        "random(100)",
        "standard_normal(333)",
        "integers(0, 10, 201, dtype='i4')",
        "random(77, dtype='f4')",
        "gumbel(size=200)",
        "integers(0, np.full(300, 9))",
        "permutation(2000)",
        "bytes(1001)",
        "choice(10, 300, p=[0.1] * 10)",
        "integers(5)",
    ):
        assert_same(*[eval(f"g.{code}", {"g": g, "np": np}) for g in (ours, hosts)])  # noqa: S307 - our own code
        assert ours.bit_generator.state == hosts.bit_generator.state
    twin = pickle.loads(pickle.dumps(ours))  # noqa: S301 - our own bytes
    assert type(twin.bit_generator) is oxinp.random.Philox4x32
    assert_same(twin.random(300), hosts.random(300))


KINDS = {"Generator": {"multivariate_hypergeometric"}, "RandomState": {"random_integers", "tomaxint"}}


@pytest.mark.parametrize("name", KINDS)
def test_the_coverage_page_says_what_numpy_draws(name):
    kind = getattr(oxinp.random, name)
    hosted = {method for method in dir(kind) if not method.startswith("_") and method not in vars(kind)}
    said = ROWS[f"random.{name}"].note.removeprefix("on the host: ").split(", ")
    assert hosted - {"spawn", "bit_generator"} == set(said)
    assert KINDS[name] < set(said)


def test_the_global_state_is_numpys():
    oxinp.random.seed(4)
    ours = [oxinp.random.rand(2), oxinp.random.permutation(5)]
    np.random.seed(4)  # noqa: NPY002 - what is tested
    assert_same(ours, [np.random.rand(2), np.random.permutation(5)])  # noqa: NPY002


def test_every_out_is_written_back():
    """A parameter called out that stands in a signature must be found where it is passed by position."""
    for kind in (np.random.Generator, np.random.RandomState):
        for name in dir(kind):
            method = getattr(kind, name)
            if name.startswith("_") or not callable(method) or "out=" not in (method.__doc__ or "").split("\n\n")[0]:
                continue
            entries = methods.MUTATES.get(f"{kind.__name__}.{name}")
            assert entries is not None, name
            stated = [parameter.strip() for parameter in method.__doc__.split("(", 1)[1].split(")")[0].split(",")]
            if "*" in stated:
                continue
            position = next(i for i, parameter in enumerate(stated) if parameter.startswith("out"))
            assert position + ("self" not in stated) in entries


def test_positions_are_read_off_signatures():
    assert fallback.positions(np.sum)["out"] == list(inspect.signature(np.sum).parameters).index("out")
    assert fallback.positions(np.add) == {"out": 2}


def test_functions_of_the_c_library_are_the_devices_wherever_arrays_belong(config):
    """NumPy's ufuncs round the last bit of some otherwise than the C library, which its generators call."""
    config.offload_threshold = 65536
    numbers = oxinp.random.default_rng(1).standard_exponential(8192)
    oxinp.evaluate(numbers)
    balance._settle(3)  # as a change of placement amid a draw
    found = transformed.expm1(numbers / 2.0)
    if form_of("expm1_f8") != OWN:
        assert_same(found, np.random.default_rng(1).pareto(2.0, 8192))
    assert found._storage.host is None or found._storage.value is not None
    assert balance.limit > found.nbytes
    balance.begin(65536, is_adaptive=True)
