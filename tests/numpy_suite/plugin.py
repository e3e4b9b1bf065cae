"""The pytest plugin of a run: test modules are loaded with `numpy` bound as asked, outcomes written as they come."""

import json
import os
import sys
from importlib.machinery import PathFinder
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tests.numpy_suite import BINDING, LEFT_OUT, OUTCOMES, PART

PACKAGE = Path(np.__file__).parent
PROCESS = os.getpid()


class Binder:
    """Finds the modules in NumPy's folders of tests, and has the runner compile them."""

    def find_spec(self, name, path=None, target=None):
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
            return None
        file = Path(spec.origin)
        if file.parent.name != "tests" or not file.is_relative_to(PACKAGE):
            return None
        folders = spec.submodule_search_locations
        return spec_from_file_location(
            name, file, loader=finder.UsersLoader(name, str(file)), submodule_search_locations=folders
        )


if os.environ[BINDING] == "oxinp":
    from oxinp._runner import bindings, finder
    from tests.numpy_suite.private_names import bound_modules

    bindings.BOUND.update(bound_modules())
    sys.meta_path.insert(0, Binder())


def pytest_make_parametrize_id(config, val, argname):  # noqa: ARG001 - pytest's
    """Name modules of ours, which are parameters of tests, as NumPy's are."""
    name = val.__name__ if isinstance(val, ModuleType) else ""
    return name.replace("oxinp", "numpy", 1) if name.partition(".")[0] == "oxinp" else None


def _outcomes():
    return Path(os.environ[OUTCOMES])


def _write(**entry):
    if os.getpid() != PROCESS:
        os._exit(1)  # a child that a test has forked, and that an error has kept from ending
    with _outcomes().open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")


def pytest_collection_modifyitems(items):
    """Leave out other parts, what would end the process, and what a run that died has begun or done before."""
    part, count = map(int, os.environ[PART].split("/"))
    left_out = tuple(json.loads(os.environ[LEFT_OUT]))
    items[:] = [item for item in items[part::count] if not item.nodeid.removeprefix("numpy/").startswith(left_out)]
    if _outcomes().exists():
        lines = _outcomes().read_text("utf-8").splitlines()
        begun = {entry.get("begun") for entry in map(json.loads, lines)}
        items[:] = [item for item in items if item.nodeid not in begun]


def pytest_collectreport(report):
    if report.failed:
        _write(test=report.nodeid, outcome="failed", message=str(report.longrepr)[-2000:])


def pytest_runtest_logstart(nodeid):
    _write(begun=nodeid)


def _message(report):
    crash = getattr(report.longrepr, "reprcrash", None)
    where = "" if crash is None else f"{Path(crash.path).name}:{crash.lineno}: "
    return where + (str(report.longrepr) if crash is None else crash.message)[:600]


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report):
    outcome = "xfailed" if hasattr(report, "wasxfail") else report.outcome
    if report.when == "call" or outcome != "passed":
        _write(test=report.nodeid, outcome=outcome, message=_message(report) if report.failed else "")
