"""What `help`, `dir` and `inspect` say: NumPy's text and signatures with our notes, and public names alone."""

import contextlib
import importlib
import inspect
import pickle
import pydoc
import re

import numpy as np
import pytest

import oxinp
from oxinp import cuda
from oxinp._api import coverage, notes
from oxinp._core.array import dispatch
from oxinp._core.documentation import HEADING, appended
from oxinp._core.ufunc.table import UFUNCS
from oxinp._version import __version__

INTERNAL = re.compile(r"oxinp\._|_driver|UfuncRow|\bAny\b|environ\(")


def signature(value):
    try:
        return str(inspect.signature(value))
    except (TypeError, ValueError):
        return None


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_functions_show_numpys_signatures_and_no_name_of_ours():
    different = {}
    for name in np.__all__:
        ours, numpys = getattr(oxinp, name), getattr(np, name)
        if not callable(numpys):
            continue
        expected = signature(numpys)
        if expected is not None and signature(ours) != expected:
            different[name] = signature(ours), expected
    assert not different


@pytest.mark.parametrize("name", ["inner", "where", "bincount", "arange", "frombuffer", "nested_iters", "sum"])
@pytest.mark.parametrize("attribute", ["__signature__", "__text_signature__"])
def test_functions_tell_signatures_by_the_attributes_that_numpys_have(name, attribute):
    assert getattr(getattr(oxinp, name), attribute, None) == getattr(getattr(np, name), attribute, None)


@pytest.mark.parametrize(
    "name", ["sum", "sort", "astype", "reshape", "take", "__add__", "dump", "clip", "max", "round"]
)
def test_methods_are_documented_as_numpys(name):
    ours, numpys = getattr(oxinp.ndarray, name), getattr(np.ndarray, name)
    assert ours.__doc__.startswith(numpys.__doc__.rstrip())
    if signature(numpys) is not None:
        assert signature(ours) == signature(numpys)


def test_classes_below_ours_have_their_own_signature():
    class Below(oxinp.ndarray):
        def __new__(cls, length):
            return oxinp.zeros(length).view(cls)

    assert signature(Below) == "(length)"


@pytest.mark.parametrize("name", ["ndarray", "flatiter", "vectorize", "ndenumerate", "load"])
def test_classes_are_documented_as_numpys(name):
    text, heading, _ = getattr(oxinp, name).__doc__.partition(HEADING)
    assert heading
    assert text.startswith(getattr(np, name).__doc__.rstrip())


@pytest.mark.parametrize("row", UFUNCS, ids=lambda row: row.name)
def test_ufuncs_tell_how_exact_they_are(row):
    text = dispatch.ufuncs[row.numpy].__doc__
    assert text.startswith(row.numpy.__doc__.rstrip())
    told = " ".join(text.split(HEADING)[1].split())
    assert (f"within {row.ulp:g} ulp" if row.ulp else "bit for bit") in told


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("matmul", "device"),
        ("power", "1 ulp"),
        ("savetxt", "fallbacks"),
        ("isnat", "fallbacks"),
        ("partition", "another order"),
        ("linalg.svd", "device"),
        ("fft.fft", "pocketfft"),
        ("scipy.special.gamma", "fallbacks"),
        ("scipy.signal.find_peaks", "fallbacks"),
    ],
)
def test_notes_follow_numpys_text(name, told):
    value = oxinp
    for part in name.split("."):
        value = getattr(value, part)
    text, _, note = value.__doc__.partition(HEADING)
    assert len(text) > len(note)
    assert told in note
    assert value.__doc__.count(HEADING) == 1


@pytest.mark.parametrize("name", notes.DIFFERENCES)
def test_differences_are_of_functions_that_are_there(name):
    module, _, last = f"oxinp.{name}".rpartition(".")
    value = getattr(importlib.import_module(module), last, None)
    assert value is not None or name in {row.name for row in coverage.ROWS if row.since}
    if value is not None:
        assert notes.DIFFERENCES[name].split()[0] in value.__doc__.partition(HEADING)[2]


def test_the_note_is_indented_as_the_text():
    text = "One line.\n\n    Parameters\n    ----------\n"
    assert appended(text, "Of ours.").endswith(f"\n\n    {HEADING}\n    {'-' * len(HEADING)}\n    Of ours.")
    assert appended(None, "x") is None
    assert appended("as it was ") == "as it was "


@pytest.mark.parametrize("what", [oxinp.sqrt, oxinp.ufunc, oxinp.sum, oxinp.ndarray.sum, oxinp.explain])
def test_help_shows_no_private_name(what):
    head = "\n".join(pydoc.render_doc(what, renderer=pydoc.plaintext).splitlines()[:6])
    assert not INTERNAL.search(head), head


@pytest.mark.parametrize("kind", [oxinp.ufunc, oxinp.ndarray, oxinp.vectorize, oxinp.flatiter])
def test_methods_are_of_the_module_that_their_class_shows(kind):
    """Else newer versions of pydoc say where they come from."""
    functions = [value for value in vars(kind).values() if inspect.isfunction(value)]
    assert functions
    assert {function.__module__ for function in functions} == {kind.__module__}


def test_help_of_settings_says_what_they_mean_and_not_what_the_environment_holds(monkeypatch):
    monkeypatch.setenv("A_TOKEN", "a secret")
    text = pydoc.render_doc(oxinp.config, renderer=pydoc.plaintext)
    assert "OXINP_OFFLOAD_THRESHOLD" in text
    assert "environ(" not in text
    assert "a secret" not in text


def test_exceptions_and_types_show_where_users_find_them():
    for name in cuda.__all__:
        value = getattr(cuda, name)
        if isinstance(value, type) and issubclass(value, BaseException):
            assert f"{value.__module__}.{value.__qualname__}" == f"oxinp.cuda.{name}"
    for name in ("FallbackError", "FallbackWarning", "ndarray", "ufunc", "evaluate", "explain", "show_versions"):
        assert getattr(oxinp, name).__module__ == "oxinp"
    with pytest.raises(cuda.NotFound) as raised:
        raise cuda.NotFound("no such name")
    assert type(pickle.loads(pickle.dumps(raised.value))) is cuda.NotFound  # noqa: S301 - our own bytes


@pytest.mark.parametrize("module", [oxinp, cuda, cuda.kernel], ids=lambda module: module.__name__)
def test_dir_has_every_public_name(module):
    assert set(module.__all__) <= set(dir(module))
    for name in dir(module):
        getattr(module, name)


def test_dir_of_the_namespace_has_what_numpys_has():
    public = {name for name in dir(np) if not name.startswith("_")}
    with contextlib.suppress(AttributeError):
        public -= {name for name in public if not hasattr(oxinp, name)}
    assert public <= set(dir(oxinp))
    private = {name for name in dir(oxinp) if name.startswith("_") and not name.startswith("__")}
    assert private <= set(np.__all__)


def test_versions(capsys):
    assert oxinp.__version__ == np.__version__
    assert cuda.__version__ == __version__
    oxinp.show_versions()
    printed = capsys.readouterr().out
    assert __version__ in printed
    assert np.__version__ in printed
