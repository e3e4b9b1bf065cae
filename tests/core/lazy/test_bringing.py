"""Small results of the device where arrays of their size belong on the host: operators fetch them and go on."""

import sys

import numpy as np
import pytest

import oxinp
from oxinp import config
from oxinp._core.lazy.balance import balance
from oxinp._core.native import objects
from oxinp.cuda import stats
from tests.comparator import assert_same

SIZE = 300

EXPRESSIONS = (
    *(
        "q + 1.0",
        "q - v",
        "v * q",
        "2.0 / q",
        "q * q",
        "-q",
        "abs(q)",
        "q < v",
        "q == q",
        "q**2",
        "q ** 0.5",
        "v + q[:1]",
    ),
    *(
        "np.sqrt(q)",
        "np.maximum(q, v)",
        "np.maximum(0.0, q)",
        "np.hypot(q, q)",
        "v @ q",
        "q @ q",
        "q @ v",
        "q[1:] + v[1:]",
    ),
    *("q[:, None] + v", "q + w", "q.sum()", "q + c", "np.float64(2.0) * q", "q[3]", "q > 'x'", "q + v.reshape(30, 10)"),
)
STATEMENTS = (
    "v += q",
    "v -= 0.5 * q",
    "q += v",
    "q[2:5] = v[:3]",
    "v[1:] = q[:-1]",
    "q *= 2.0",
    "v[:] = q",
    "w[:300] -= q",
)


@pytest.fixture(params=[True, False], ids=["machine code", "Python"])
def is_native(request):
    with config.override(machine_code=request.param, adaptive_placement=True, offload_threshold=65536):
        balance.begin(config.offload_threshold, is_adaptive=True)
        yield request.param


def given(xp):
    random = np.random.default_rng(2)
    made = {
        "A": random.integers(-4, 5, (SIZE, SIZE)).astype(float),  # whose products are the same in any order
        "v": random.integers(1, 9, SIZE).astype(float),
        "w": random.integers(1, 9, 40_000).astype(float),
        "c": random.integers(1, 9, SIZE) + 1j,
    }
    return {"np": xp, **{name: xp.array(value) for name, value in made.items()}}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("text", EXPRESSIONS + STATEMENTS)
@pytest.mark.usefixtures("is_native")
def test_results_of_products_are_numpys(text):
    code = compile(text, "users.py", "eval" if text in EXPRESSIONS else "exec")
    ours, numpys = given(oxinp), given(np)
    oxinp.evaluate(ours["A"])
    for _ in range(3):
        outcomes = []
        for names in (ours, numpys):
            balance._settle(1)
            names["q"] = names["A"] @ names["v"]
            try:
                outcomes.append(eval(code, names))  # noqa: S307 - our own text
            except Exception as error:  # noqa: BLE001 - NumPy's is ours
                outcomes.append(type(error))
        found, expected = outcomes
        if isinstance(expected, type):
            assert found is expected
        elif expected is not None:
            assert_same(found, expected)
        for name in ("q", "v", "w"):
            assert_same(ours[name], numpys[name])


def entered_by(text):
    """Return the names of the functions of Python that a statement enters each time, and see to what it fetches."""
    names, entered = given(oxinp), []
    code = compile(text, "users.py", "exec")
    oxinp.evaluate(names["A"])
    for _ in range(3):
        balance._settle(1)
        names["q"] = names["A"] @ names["v"]
        before = stats()
        entered.append(set())
        sys.setprofile(lambda frame, event, _: event == "call" and entered[-1].add(frame.f_code.co_name))
        try:
            exec(code, names)  # noqa: S102 - our own text
        finally:
            sys.setprofile(None)
        assert stats().d2h_bytes - before.d2h_bytes == SIZE * 8
    return entered


@pytest.mark.skipif(not objects.ARE_KNOWN, reason="this Python's objects are laid out in another way")
@pytest.mark.parametrize("is_native", [True], indirect=True)
@pytest.mark.parametrize("text", ["q + 1.0", "v - q", "q * q", "-q", "v < q", "np.abs(q)", "v @ q", "v += q"])
@pytest.mark.usefixtures("is_native")
def test_nothing_else_is_found_out_about_them(text):
    for entered in entered_by(text):
        assert {name for name in entered if name.startswith("brought")}
        assert not {"apply", "is_hosted", "host_view", "operator", "compute_into"} & entered


@pytest.mark.parametrize("is_native", [False], indirect=True)
@pytest.mark.parametrize("text", ["q + 1.0", "v - q", "q * q", "2.0 / q", "np.float64(2.0) * q"])
@pytest.mark.usefixtures("is_native")
def test_operators_of_python_find_out_nothing_else_either(text):
    for entered in entered_by(text):
        assert "brought" in entered
        assert not {"apply", "is_hosted", "cost_of", "other_side"} & entered


@pytest.mark.parametrize("is_native", [True], indirect=True)
@pytest.mark.usefixtures("is_native")
def test_what_goes_with_larger_arrays_stays_on_the_device():
    names = given(oxinp)
    oxinp.evaluate(names["A"])
    balance._settle(1)
    q = names["A"] @ names["v"]
    before = stats().d2h_bytes
    made = names["A"] + q
    oxinp.evaluate(made)
    assert stats().d2h_bytes == before
    assert q._held.host is None


@pytest.mark.parametrize("is_native", [True, False], indirect=True)
@pytest.mark.usefixtures("is_native")
def test_vectors_that_are_new_each_time_are_uploaded_and_fetched_in_few_functions():
    names, entered = given(oxinp), []
    oxinp.evaluate(names["A"])
    exact = np.array(names["A"]) @ np.array(names["v"])
    for _ in range(20):
        balance._settle(1)
        vector = names["v"] * 1.0
        sys.setprofile(lambda frame, event, _, entered=entered: event == "call" and entered.append(frame.f_code))
        try:
            found = names["A"] @ vector
            squared = found @ found
        finally:
            sys.setprofile(None)
        assert_same(found, exact)
        assert float(squared) == exact @ exact
        last, entered = [code for code in entered if "/_core/" in code.co_filename], []
    assert not {"device_value", "settled", "_upload", "is_writeable"} & {code.co_name for code in last}
