"""The coverage table is NumPy's namespace, and the namespace is what the table says."""

import importlib
import inspect
import pickle
import runpy
from pathlib import Path

import numpy as np
import pytest

import oxinp
from oxinp._api import coverage
from oxinp._api.fronts import HostUfunc
from oxinp._api.submodule_rows import SUBMODULES
from oxinp._core.array import dispatch
from oxinp._core.host import fallback
from oxinp._core.ufunc.objects import ufunc

ROOT = Path(__file__).resolve().parents[2]
ROWS = coverage.rows()


def of_kind(*kinds):
    return sorted(name for name, row in ROWS.items() if row.kind in kinds)


def test_rows_are_numpys_public_names():
    public = {name for name in {*dir(np), *np.__all__} if not name.startswith("_")}
    public |= {name for name in np.__all__ if name.startswith("__")}
    assert set(ROWS) == public


def test_one_row_per_name():
    names = [row.name for row in coverage.ROWS]
    assert sorted(names) == sorted(set(names))


def test_rows_of_other_versions():
    assert "trapz" in coverage.rows("2.3.5")
    assert "trapz" not in coverage.rows("2.4.0")
    assert "matvec" not in coverage.rows("2.1.3")
    assert "matvec" in coverage.rows("2.10.0")


def test_kinds_are_known():
    assert {row.kind for row in coverage.ROWS} == set(coverage.KINDS)
    assert all(bool(row.reason) == (row.kind == coverage.REFUSED) for row in coverage.ROWS)
    assert all(row.kind in (coverage.COMPOSED, coverage.HOST) for row in coverage.ROWS if row.mutates)


def test_most_functions_run_on_the_device():
    functions = [name for name in ROWS if callable(getattr(np, name)) and not isinstance(getattr(np, name), type)]
    on_device = set(of_kind(coverage.NATIVE, coverage.COMPOSED)) & set(functions)
    assert len(on_device) >= 0.85 * len(functions)


def is_entered(name):
    """Whether a name has a function of ours behind it, which NumPy's function finds too."""
    numpys = getattr(np, name)
    if isinstance(numpys, np.ufunc):
        return type(getattr(oxinp, name)) is not HostUfunc
    return numpys in dispatch.functions


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_native_rows_have_functions():
    classes = {"flatiter", "ndarray", "ufunc", "mgrid", "ogrid", "c_", "r_"}
    entered = {name for name in ROWS if isinstance(getattr(np, name), np.ufunc) or callable(getattr(np, name))}
    entered = {name for name in entered - classes if is_entered(name)}
    assert entered == set(of_kind(coverage.NATIVE, coverage.COMPOSED)) - classes


@pytest.mark.parametrize("name", of_kind(coverage.OWN))
def test_own_objects_are_numpys(name):
    ours = getattr(oxinp, name)
    if name in SUBMODULES:
        assert SUBMODULES[name].kind == coverage.OWN
        assert dir(ours) == dir(getattr(np, name))
    else:
        assert ours is getattr(np, name)


@pytest.mark.parametrize("name", sorted({*SUBMODULES} & {*ROWS}))
def test_rows_of_submodules(name):
    assert getattr(oxinp, name) is importlib.import_module(f"oxinp.{name}")
    assert ROWS[name].kind == SUBMODULES[name].kind


def test_an_import_statement_finds_submodules():
    names = {}
    exec(  # noqa: S102 - our own code
        "import oxinp.linalg as la, oxinp.lib.stride_tricks\nfrom oxinp.fft import rfft",
        names,
    )
    assert names["la"] is oxinp.linalg
    assert names["rfft"].__name__ == "rfft"


def test_refused_says_why():
    for name in of_kind(coverage.REFUSED):
        with pytest.raises(NotImplementedError, match=ROWS[name].reason.partition("(")[0]):
            getattr(oxinp, name)()


def test_from_import_star():
    names = {}
    exec("from oxinp import *", names)  # noqa: S102 - our own code
    assert set(np.__all__) - {"__version__"} <= set(names)
    assert names["linspace"] is oxinp.linspace


def test_dir_lists_what_is_there():
    listed = dir(oxinp)
    assert set(np.__all__) <= set(listed) | {"__version__"}
    assert {"config", "cuda", "evaluate", "explain"} <= set(listed)


def test_a_name_is_made_once():
    assert oxinp.cumsum is oxinp.cumsum
    assert oxinp.concat is oxinp.concatenate
    assert oxinp.abs is oxinp.absolute
    assert oxinp.linalg.svd is oxinp.linalg.svd


def test_names_that_numpy_has_not():
    with pytest.raises(AttributeError, match="module 'oxinp' has no attribute 'nonsense'"):
        _ = oxinp.nonsense
    with pytest.raises(AttributeError, match="was removed in the NumPy"):
        _ = oxinp.float_
    assert not hasattr(oxinp, "__nonsense__")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_functions_are_named_and_documented_as_numpys():
    for name in of_kind(coverage.NATIVE, coverage.COMPOSED, coverage.HOST):
        ours, numpys = getattr(oxinp, name), getattr(np, name)
        if inspect.isroutine(numpys) or type(numpys).__name__ == "_ArrayFunctionDispatcher":
            assert ours.__name__ == numpys.__name__, name
            if name != "sinc":  # whose documentation other libraries rewrite
                assert ours.__doc__.startswith(numpys.__doc__.rstrip()), name
        elif isinstance(numpys, np.ufunc):
            assert isinstance(ours, oxinp.ufunc), name
            assert (ours.__name__, ours.nin, ours.nout) == (numpys.__name__, numpys.nin, numpys.nout), name


# Ours takes what several versions of NumPy take.
MORE_THAN_NUMPYS = {"arange", "reshape"}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_signatures_are_numpys():
    for name in sorted(set(of_kind(coverage.NATIVE, coverage.COMPOSED)) - MORE_THAN_NUMPYS):
        ours, numpys = getattr(oxinp, name), getattr(np, name)
        if isinstance(ours, (ufunc, type)) or not callable(ours):
            continue
        expected = signature_of(numpys)
        if expected is None:
            continue
        given = inspect.signature(getattr(ours, "ours", None) or ours)
        shared = [p for p in given.parameters if p in expected.parameters]
        assert shared == list(expected.parameters), f"{name}{given}, NumPy's {expected}"


def signature_of(function):
    """Return a signature, or None where it has none that can be read, as C functions before NumPy 2.4."""
    try:
        return inspect.signature(function)
    except ValueError:
        return None


@pytest.mark.parametrize("name", ["cumsum", "sum", "exp", "add", "linalg.svd", "r_", "random.default_rng"])
def test_functions_can_be_pickled(name):
    value = oxinp
    for part in name.split("."):
        value = getattr(value, part)
    copied = pickle.loads(pickle.dumps(value))  # noqa: S301 - our own bytes
    assert copied is value or type(copied) is type(value) is type(oxinp.r_)


@pytest.mark.parametrize("row", [row for row in ROWS.values() if row.mutates], ids=lambda row: row.name)
def test_mutated_arguments_exist(row):
    parameters = fallback.positions(getattr(np, row.name))
    for entry in row.mutates:
        if isinstance(entry, tuple):
            assert entry[0] in parameters
        elif entry not in ("*", fallback.KEPT):
            assert parameters[entry] == 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_page_is_the_table():
    made = runpy.run_path(str(ROOT / "docs" / "coverage_page.py"))
    written, page = made["PAGE"].read_text(encoding="utf-8"), made["page"]()
    if made["versions"]() not in written:  # what other versions have in their submodules is not on the page
        written, page = (text.partition(made["SUBMODULES"])[0] for text in (written, page))
    assert page == written, "run: python docs/coverage_page.py"
