"""What the command says of outcomes: unexpected failures and passes by name, what is listed not."""

import importlib
import json
from types import SimpleNamespace

import numpy as np
import pytest

import oxinp
from tests.numpy_suite import BINDING, LEFT_OUT, OUTCOMES, PART, private_names, suite
from tests.numpy_suite import __main__ as command
from tests.numpy_suite.suite import (
    PARTS,
    Difference,
    Outcome,
    find_modules,
    is_listed,
    judge,
    make_tasks,
    outcomes_in,
    read_expected,
)

MODULE = "_core/tests/test_umath"


def _outcomes(**results):
    return {f"{MODULE}.py::{name}": Outcome(result, "why") for name, result in results.items()}


def test_outcomes_are_judged_by_numpys():
    numpys = _outcomes(a="passed", b="passed", c="failed", d="skipped", e="passed", f="passed")
    ours = _outcomes(a="passed", b="failed", c="failed", d="failed", e="died")
    expected = [Difference("meant", (f"{MODULE}.py::b", f"{MODULE}.py::a"))]
    found = judge(MODULE, numpys, ours, expected, "host")
    assert (found.numpys, found.ours, found.expected) == (4, 1, 1)
    assert found.failures == {f"{MODULE}.py::e": "died: why", f"{MODULE}.py::f": "missing: "}
    assert found.passes == [f"{MODULE}.py::a"]
    elsewhere = judge(MODULE, numpys, ours, [Difference("meant", (f"{MODULE}.py::b",), ("cuda",))], "host")
    assert set(elsewhere.failures) == {f"{MODULE}.py::{name}" for name in "bef"}


def test_a_name_lists_its_parameters_and_its_classes():
    assert is_listed("m.py::T::test_x[1]", "m.py::T::test_x")
    assert is_listed("m.py::T::test_x[1]", "m.py::T")
    assert not is_listed("m.py::T::test_xy", "m.py::T::test_x")


def test_modules_are_found_by_their_beginnings():
    assert MODULE in find_modules(["_core/tests/test_umath"])
    assert find_modules(["numpy/_core/tests/test_ufunc.py"]) == ["_core/tests/test_ufunc"]
    with pytest.raises(ValueError, match="no test module"):
        find_modules(["no_such_module"])


def test_expected_differences_are_of_modules_that_run():
    rows = read_expected()
    names = [name for row in rows for name in row.tests]
    assert all(row.reason.endswith(".") for row in rows)
    assert len(set(names)) == len(names)
    assert {name.partition(".py::")[0] for name in names} <= set(find_modules([]))


def test_long_modules_begin_first_and_are_shared():
    modules = [MODULE, "_core/tests/test_abc"]
    tasks = make_tasks(modules[::-1], ("oxinp",))
    assert [task.module for task in tasks] == [MODULE] * PARTS[MODULE] + modules[1:]
    assert [task.part for task in tasks] == [*range(PARTS[MODULE]), 0]
    assert set(PARTS) <= set(find_modules([]))


def test_a_part_leaves_out_the_others_and_what_ends_the_process(monkeypatch, tmp_path):
    monkeypatch.setenv(BINDING, "numpy")
    monkeypatch.setenv(OUTCOMES, str(tmp_path / "outcomes"))
    monkeypatch.setenv(PART, "1/2")
    monkeypatch.setenv(LEFT_OUT, json.dumps(["m.py::test_3"]))
    items = [SimpleNamespace(nodeid=f"numpy/m.py::test_{i}") for i in range(8)]
    importlib.import_module("tests.numpy_suite.plugin").pytest_collection_modifyitems(items)
    assert [item.nodeid[-1] for item in items] == ["1", "5", "7"]


def test_what_is_not_to_run_is_left_out_on_its_backends(monkeypatch, tmp_path):
    rows = [Difference("meant", ("m.py::a",), ("cuda",), is_run=False), Difference("meant", ("m.py::b",))]
    monkeypatch.setattr(suite, "read_expected", lambda: rows)
    left_out = []

    def run(command, env, **others):  # noqa: ARG001 - subprocess.run's
        left_out.append(json.loads(env[LEFT_OUT]))
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(suite.subprocess, "run", run)
    for settings in ({"OXINP_BACKEND": "cuda"}, {"OXINP_BACKEND": "host"}, {}):
        suite.run_task(suite.Task(MODULE, "oxinp", 0, 1), settings, tmp_path / "outcomes")
    assert left_out == [["m.py::a"], [], []]


def test_kept_outcomes_are_judged_without_running_anything(tmp_path, capsys, monkeypatch):
    for kind, outcome in (("numpy", "passed"), ("host", "failed")):
        entry = {"test": f"numpy/{MODULE}.py::a", "outcome": outcome, "message": "why"}
        outcomes_in(tmp_path, MODULE, kind).write_text(json.dumps(entry))
    monkeypatch.setattr("sys.argv", ["", MODULE, "--backend", "host", "--judge", str(tmp_path)])
    monkeypatch.setattr(command, "run_task", None)
    assert command.main() == 1
    assert f"unexpected failure: {MODULE}.py::a\n    failed: why" in capsys.readouterr().out


def test_casts_by_their_loops_are_ours():
    cast = private_names.find_cast(np.dtypes.Float64DType, np.dtypes.Int32DType)
    given, written = oxinp.asarray([1.5, -2.5, 7.0]), oxinp.zeros(3, "i4")
    cast._simple_strided_call((given, written))
    assert written.tolist() == [1, -2, 7]
    for arguments, error in (((given, given), TypeError), ((given, written[:2]), ValueError), ((None, 1), TypeError)):
        with pytest.raises(error):
            cast._simple_strided_call(arguments)
    assert cast._supports_unaligned


def test_what_has_a_public_name_is_ours_in_private_modules():
    umath = private_names.Private("numpy._core.umath")
    assert umath.minimum is oxinp.minimum
    assert umath.pi == np.pi
    assert umath._extobj_contextvar is np._core.umath._extobj_contextvar  # which has no public name
    assert private_names.Private("numpy.lib._stride_tricks_impl").as_strided is oxinp.lib.stride_tricks.as_strided
