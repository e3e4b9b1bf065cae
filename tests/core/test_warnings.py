"""Warnings and errors name the user's line, whoever computes: NumPy's on the same program."""

import decimal
import types
import warnings

import numpy  # noqa: ICN001 - beside ours
import pytest

import oxinp

PROGRAM = """\
def run(np):
    zeros, ones, small = np.zeros(3), np.ones(3), np.ones(2, "f4")
    ones / zeros
    1.0 / zeros
    zeros / 0
    -np.log(zeros)
    np.sqrt(-ones)
    a = np.zeros(3); a /= zeros
    np.divide(ones, zeros, out=a)
    np.divide(ones, zeros, where=ones > 0)
    np.array([1e300, 1.0]).astype("f4")
    small[...] = np.array([1e300, 1.0])
    np.array([1e308] * 2).sum()
    np.multiply.reduce(np.array([1e308] * 2))
    np.cumsum(np.array([1e308] * 2))
    np.array([1, 2]) // np.array([0, 1])
    np.array([1, 2]) % 0
    np.array([1e300], dtype="f4")
    np.array([1e300]) ** 2
    np.asarray(np.array([np.nan]), "i4")
    np.array([1e300]) @ np.array([1e300])
    np.mean(np.ones(0))
    np.ones(0).mean()
    np.ones(1).var(ddof=1)
    np.nanmean(np.array([np.nan]))
    np.logspace(0, 400, 3)
    np.vander(np.array([1e300]), 3)
    np.ediff1d(np.array([1e308, -1e308]))
    np.diff(np.array([1e308, -1e308, 1e308]), n=2)
    np.sinc(np.array([np.inf]))
    np.nanstd(np.array([np.nan]))
    np.nanmax(np.array([[np.nan]]), axis=0)
    np.array([1j]).astype(float)
    np.power(zeros, -1)
    np.divmod(ones, zeros)
    np.float_power(np.array([1e300]), 2)
    for _ in range(2):
        np.exp(np.array([1e300]))
"""


def warned_of(namespace, action, name="users", program=PROGRAM):
    """Return (message, category, file, line) of what the program warns of as a module of this name."""
    module = types.ModuleType(name)
    exec(compile(program, f"{name}.py", "exec"), module.__dict__)  # noqa: S102
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(action)
        module.run(namespace)
    return [(str(w.message), w.category, w.filename, w.lineno) for w in caught]


@pytest.fixture(params=["host", "small"])
def on_host(request):
    """Everything is computed by NumPy: since there is nothing else, or since the arrays are small."""
    settings = {"backend": "host"} if request.param == "host" else {"offload_threshold": float("inf")}
    with oxinp.config.override(**settings):
        yield


@pytest.mark.usefixtures("on_host")
@pytest.mark.parametrize("values", [[float("nan")], [[1.0, float("nan")], [2.0, float("nan")]]])
def test_what_numpy_says_of_lists_names_the_line(values):
    with pytest.warns(RuntimeWarning, match="All-NaN") as found:
        oxinp.nanmax(values, axis=0)
    assert [w.filename for w in found] == [__file__]


@pytest.mark.usefixtures("on_host")
@pytest.mark.parametrize("action", ["always", "default"])
def test_warnings_name_the_line_that_asked(action):
    expected, found = warned_of(numpy, action), warned_of(oxinp, action)
    by_line = [w for w in expected if w[2] == "users.py"]
    assert len(by_line) > 15
    assert [w for w in by_line if w not in found] == []
    # Where NumPy's own Python code is what NumPy's warning names, ours may name the user's line.
    assert [w for w in found if w not in expected and w[2] != "users.py"] == []


WRITES = """\
def run(np):
    x, table, half, c = np.zeros(3, "f4"), np.zeros((20, 20), "f4"), np.zeros(2, "f2"), np.zeros(2)
    x[0] = 1e300
    x[1:] = 1e300
    x[-1] = np.float64(1e300)
    x[[0, 1]] = 1e300
    x[x > 9] = 1e300
    x.fill(1e300)
    x.flat[0] = 1e300
    np.copyto(x, 1e300)
    table[1, 2] = 1e300
    table[:, 1] = 1e300
    table[...] = 1e300
    half[1] = 70000
    half[:] = 70000
    c[0] = np.complex128(1 + 1j)
    c[1:] = np.complex64(1 + 1j)
    table[0] = 65504
    c[0] = 2**60
"""


@pytest.mark.usefixtures("offload_threshold")
def test_numbers_that_are_written_and_do_not_fit_name_the_line():
    expected, found = warned_of(numpy, "always", program=WRITES), warned_of(oxinp, "always", program=WRITES)
    assert len(expected) > 10
    assert found == expected


def told_of(np):
    """Return what is called and what is warned of, in order, by states of both."""
    a, said = np.array([1e308, np.inf, 1e-300]), []
    for settings in ({"over": "call"}, {"under": "call"}, {"divide": "call", "over": "call"}):
        for factor in ([10.0, 0.0, 1.0], [10.0, 1.0, 1.0], [1.0, 0.0, 1e-300]):
            b = np.array(factor)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                with np.errstate(**{"all": "warn"} | settings, call=lambda kind, _: said.append(kind)):
                    a * b
                    a / b
            said.append([str(w.message) for w in caught])
    with np.errstate(over="print"), pytest.warns(RuntimeWarning, match="invalid"):
        a * np.array([10.0, 0.0, 1.0])
    return said


@pytest.mark.usefixtures("on_host")
def test_what_is_told_of_at_once_is_told_once(capsys):
    """Beside a warning, for which the same is computed again from the user's line."""
    expected = told_of(numpy), capsys.readouterr().out
    assert (told_of(oxinp), capsys.readouterr().out) == expected


@pytest.mark.usefixtures("on_host")
def test_a_location_warns_once_and_each_of_several_does():
    source = "def f(np):\n    np.ones(2) / np.zeros(2)\ndef g(np):\n    np.ones(2) / np.zeros(2)\n"
    module = types.ModuleType("users")
    exec(compile(source, "users.py", "exec"), module.__dict__)  # noqa: S102
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            module.f(oxinp)
            module.g(oxinp)
    assert [w.lineno for w in caught] == [2, 4]


@pytest.mark.usefixtures("on_host")
def test_filters_go_by_the_users_module():
    with warnings.catch_warnings():
        warnings.filterwarnings("error", module="users")
        warnings.filterwarnings("ignore", module="others")
        warned_of(oxinp, "always", "others")
        with pytest.raises(RuntimeWarning, match=r"^divide by zero encountered in divide$"):
            exec(compile("np.ones(2) / np.zeros(2)", "u.py", "exec"), {"np": oxinp, "__name__": "users"})  # noqa: S102


@pytest.mark.usefixtures("on_host")
def test_states_other_than_the_default_are_numpys():
    said = []
    with (
        oxinp.errstate(divide="raise"),
        pytest.raises(FloatingPointError, match="divide by zero encountered in divide"),
    ):
        oxinp.ones(2) / oxinp.zeros(2)
    with oxinp.errstate(all="call", call=lambda kind, flag: said.append((kind, flag))):
        oxinp.ones(2) / oxinp.zeros(2)
    with warnings.catch_warnings(), oxinp.errstate(all="ignore"):
        warnings.simplefilter("error")
        oxinp.ones(2) / oxinp.zeros(2)
    assert said == [("divide by zero", 1)]


@pytest.mark.usefixtures("on_host")
def test_objects_compute_in_the_users_context():
    x = oxinp.array([decimal.Decimal(1)])
    with decimal.localcontext(prec=3):
        assert (x / oxinp.array([decimal.Decimal(3)]))[0] == decimal.Decimal("0.333")
