"""Submodules: their names are NumPy's and SciPy's, each is what its row says, and nothing is imported unasked."""

import importlib
import inspect
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy

import oxinp
from oxinp._api import coverage, modules
from oxinp._api.fronts import HostUfunc, find_theirs
from oxinp._api.submodule_rows import ASSERTIONS, ROWS, SUBMODULES
from oxinp._core.array import dispatch

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
VERSIONS = {"numpy": np.__version__, "scipy": scipy.__version__, "oxinp": scipy.__version__}
THERE = sorted(path for path, row in SUBMODULES.items() if coverage.is_in(row, VERSIONS[row.source.partition(".")[0]]))
HOSTS = [path for path in THERE if SUBMODULES[path].kind == coverage.HOST]


def source(path):
    return importlib.import_module(SUBMODULES[path].source)


def ours(path):
    return importlib.import_module(f"oxinp.{path}")


def listed(path):
    """Return the public names of a module of NumPy's or SciPy's, found another way than `modules.public_names`."""
    module = source(path)
    if path in ("scipy.linalg.blas", "scipy.linalg.lapack"):  # which list two functions, and document hundreds
        others = ("np", "HAS_ILP64", "HAS_LP64", "functools", "find_best_lapack_type")
        return {name for name in dir(module) if not name.startswith("_") and name not in others}
    return set(getattr(module, "__all__", [name for name in dir(module) if not name.startswith("_")]))


@pytest.mark.parametrize("path", HOSTS)
def test_rows_are_the_public_names(path):
    rows = modules.rows(path)
    assert set(rows) == listed(path)
    assert {row.kind for row in rows.values()} <= set(coverage.KINDS)
    assert all(hasattr(ours(path), name) for name in rows)


def test_rows_have_names_that_exist():
    for name, row in ROWS.items():
        version = VERSIONS["scipy" if name.startswith("scipy.") else "numpy"]
        assert (find_theirs(name) is not None) == coverage.is_in(row, version), name
        assert row.reason or row.kind != coverage.REFUSED, name
        assert row.kind in (coverage.HOST, coverage.NATIVE) or not row.mutates, name


@pytest.mark.parametrize("path", HOSTS)
def test_names_are_what_their_rows_say(path):
    for name, row in modules.rows(path).items():
        value, theirs = getattr(ours(path), name), getattr(source(path), name)
        if inspect.ismodule(theirs):
            assert value is (ours(f"{path}.{name}") if f"{path}.{name}" in SUBMODULES else theirs)
            continue
        is_hashable = type(theirs).__hash__ is not None
        is_registered = is_hashable and dispatch.functions.get(theirs) is not None
        if row.kind == coverage.OWN:
            assert value is theirs
        elif row.kind in (coverage.NATIVE, coverage.COMPOSED):
            assert is_registered or isinstance(theirs, np.ufunc)
            assert value is (dispatch.ufuncs if isinstance(theirs, np.ufunc) else dispatch.functions)[theirs]
            assert type(value) is not HostUfunc
        elif row.kind == coverage.HOST:
            assert value is not theirs
            assert type(value) is HostUfunc or inspect.isfunction(value) or inspect.isclass(value)
            assert not is_registered or row.chapter in ("random", "scipy.stats.qmc")
        else:
            with pytest.raises(NotImplementedError, match=r"oxinp has no scipy\.test: it runs SciPy's own tests"):
                value()


@pytest.mark.parametrize("path", sorted(SUBMODULES))
def test_submodules_exist(path):
    is_found = importlib.util.find_spec(SUBMODULES[path].source) is not None
    assert is_found == (path in THERE)
    parent, _, name = f"oxinp.{path}".rpartition(".")
    assert hasattr(importlib.import_module(parent), name) == is_found


BESIDE_SCIPYS = {
    "sparse": ["sddmm"],
    "sparse.csgraph": ["greedy_coloring"],
    "sparse.linalg": ["ic0", "ilu0", "smoothed_aggregation"],
}


@pytest.mark.parametrize("path", THERE)
def test_modules_describe_themselves_as_their_source(path):
    module, theirs = ours(path), source(path)
    assert module.__name__ == f"oxinp.{path}"
    assert module.__doc__ == theirs.__doc__
    beside = BESIDE_SCIPYS.get(path, [])
    assert dir(module) == sorted([*dir(theirs), *beside])
    assert module.__all__ == [*getattr(theirs, "__all__", sorted(listed(path))), *beside]
    assert module is importlib.import_module(module.__name__)
    assert pickle.loads(pickle.dumps(module)) is module  # noqa: S301 - our own bytes
    assert importlib.util.find_spec(module.__name__) is not None
    with pytest.raises(AttributeError):
        _ = module.nonsense
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(f"{module.__name__}.nonsense")


def parameters(function):
    try:
        found = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return None
    return [(parameter.name, parameter.kind, repr(parameter.default)) for parameter in found]


# Generators: classes of ours.
CLASSES = {("random", "Generator"), ("random", "RandomState"), ("scipy.signal", "ShortTimeFFT")}


@pytest.mark.parametrize("path", HOSTS)
def test_functions_are_described_as_theirs(path):
    kinds = (coverage.NATIVE, coverage.COMPOSED, coverage.HOST)
    for name, row in modules.rows(path).items():
        theirs = getattr(source(path), name)
        if row.kind not in kinds or inspect.ismodule(theirs) or (path, name) in CLASSES:
            continue
        value = getattr(ours(path), name)
        # Ufuncs tell it from NumPy 2.4 on.
        assert parameters(value) == parameters(theirs) or (isinstance(theirs, np.ufunc) and not parameters(theirs))
        if name != "sinc":  # whose documentation SciPy rewrites
            assert (value.__doc__ or "").startswith((theirs.__doc__ or "").rstrip())
        if isinstance(theirs, np.ufunc):
            assert isinstance(value, oxinp.ufunc)
            assert (value.__name__, value.nin, value.nout) == (theirs.__name__, theirs.nin, theirs.nout)
            continue
        # It can be found where it says that it is, and so be pickled.
        assert getattr(importlib.import_module(value.__module__), value.__qualname__) is value
        assert pickle.loads(pickle.dumps(value)) is value  # noqa: S301 - our own bytes


DRAWING = {
    "random.Generator",
    "random.RandomState",
    "random.default_rng",
}  # of which no function of NumPy's is replaced
# Classes of NumPy's that take arrays of ours.
TAKING = {"random." + name for name in ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64", "SeedSequence")}
# Of what has a row by its first name.
OTHER_NAMES = {"ma.testutils.assert_close", "ma.testutils.fail_if_equal", "scipy.linalg.solve_lyapunov"}


def test_every_implementation_has_its_row():
    for path in (*HOSTS, *ASSERTIONS):
        ours(path)
    registered = {function.__module__ + "." + function.__name__ for function in dispatch.functions.values()}
    below = {name.removeprefix("oxinp.") for name in registered if name.count(".") > 1} - {"random._api.Generator"}
    assert below - TAKING - {"random.legacy.RandomState", "scipy.stats.qmc.LatinHypercube", "random.default_rng"} == {
        name
        for name, row in ROWS.items()
        if row.kind in (coverage.NATIVE, coverage.COMPOSED) and name not in (*OTHER_NAMES, *DRAWING)
    }


def test_one_object_per_function():
    scipys = oxinp.scipy
    assert scipys.sparse.kron is oxinp.sparse.kron
    assert scipys.sparse.csr_array is oxinp.sparse.csr_array is not scipy.sparse.csr_array
    assert scipys.sparse.linalg.spsolve is oxinp.sparse.linalg.spsolve
    assert scipys.sparse.csgraph.dijkstra is oxinp.sparse.csgraph.dijkstra
    assert scipys.signal.get_window is scipys.signal.windows.get_window
    assert scipys.special.sinc is oxinp.sinc
    assert scipys.fftpack.fftshift is oxinp.fft.fftshift
    assert scipys.special.cbrt is not oxinp.cbrt
    assert oxinp.char.add is oxinp.strings.add is oxinp.add
    assert oxinp.emath.sqrt is oxinp.lib.scimath.sqrt


# -- importing ---------------------------------------------------------------------------------------------------------

LOADED = "import {}; import sys, json; print(json.dumps([name for name in sys.modules]))"


def loaded(name):
    """Return the modules that an import loads in a fresh process."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", LOADED.format(name)], capture_output=True, text=True, check=True, env=environment
    )
    return set(json.loads(done.stdout))


def test_importing_oxinp_imports_no_submodule():
    found = loaded("oxinp")
    assert not [name for name in found if name.partition(".")[0] == "scipy"]
    assert not {f"oxinp.{path}" for path in SUBMODULES} & found


@pytest.mark.parametrize("name", ["linalg", "special", "sparse.csgraph"])
def test_importing_a_submodule_imports_no_other(name):
    scipys = {each for each in loaded(f"scipy.{name}") if each.startswith("scipy.")}
    assert {each for each in loaded(f"oxinp.scipy.{name}") if each.startswith("scipy.")} == scipys
    assert f"scipy.{name}" in scipys


def test_importing_of_numpys_submodules_imports_no_scipy():
    assert not [name for name in loaded("oxinp.linalg, oxinp.fft, oxinp.random") if name.startswith("scipy")]


def test_an_import_statement_finds_what_has_no_folder():
    names = {}
    exec(  # noqa: S102 - our own code
        "import oxinp.lib.stride_tricks, oxinp.scipy.signal.windows as w\n"
        "from oxinp.scipy.stats import qmc, norm\nfrom oxinp.scipy.ndimage import *\nfrom oxinp import scipy",
        names,
    )
    assert names["w"] is names["scipy"].signal.windows
    assert names["norm"] is scipy.stats.norm
    assert names["gaussian_filter"] is oxinp.scipy.ndimage.gaussian_filter
    assert names["qmc"].__name__ == "oxinp.scipy.stats.qmc"


# -- the registry ------------------------------------------------------------------------------------------------------


def test_what_has_no_row_is_found_as_it_is():
    module = importlib.import_module("oxinp.lib.user_array")
    assert module is importlib.import_module("numpy.lib.user_array")
    assert module.__spec__.name == "numpy.lib.user_array"
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'oxinp\.lib\.absent'"):
        importlib.import_module("oxinp.lib.absent")


def test_numpys_own_function_loads_the_package_that_has_it():
    script = (
        "import numpy, oxinp, sys\nwith oxinp.config.override(fallback='error', offload_threshold=0):\n"
        "    norm = numpy.linalg.norm(oxinp.arange(5.0))\n"
        "    print(float(norm) ** 2 // 1, 'oxinp.linalg' in sys.modules, 'oxinp.fft' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False)
    assert done.stdout.strip() == "30.0 True False", done.stderr


def test_what_is_registered_answers_everywhere(monkeypatch):
    for table in (dispatch.functions, dispatch.ufuncs):
        monkeypatch.setattr(dispatch, "functions" if table is dispatch.functions else "ufuncs", {**table})
    x = oxinp.arange(3.0)

    def trapezoid(*args, **kwargs):
        return "ours", args, kwargs

    dispatch.functions.pop(np.i0, None)
    assert dispatch.register(np.i0, trapezoid) is trapezoid
    assert dispatch.register(np.i0, len) is trapezoid
    assert np.i0(x=x) == ("ours", (), {"x": x})
    assert modules.adapted(np.i0, "i0") is trapezoid
    dispatch.ufuncs.pop(scipy.special.erf, None)
    dispatch.register(scipy.special.erf, trapezoid)
    assert scipy.special.erf(x) == ("ours", (x,), {})


def test_a_ufunc_of_scipys_is_counted_by_its_name(stats):
    x = oxinp.arange(3.0)
    assert type(scipy.special.erf(x)) is oxinp.ndarray
    oxinp.scipy.special.erf(x)
    oxinp.scipy.special.logit.at(x, [1])
    scipy.special.expit.at(x, [1])
    assert stats().fallbacks == {"scipy.special.erf": 2, "scipy.special.logit.at": 1, "scipy.special.expit.at": 1}


def test_ufuncs_of_scalars_are_not_counted(config, stats):
    config.fallback = "error"
    assert oxinp.scipy.special.erf(0.5) == scipy.special.erf(0.5)
    assert stats().fallbacks == {}
