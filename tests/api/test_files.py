"""Long files: read to the device and written from it in chunks, as NumPy reads and writes them."""

# ruff: noqa: ICN001 - oxinp is np

import io
import sys

import numpy
import pytest

import oxinp as np
from oxinp import _terminal
from oxinp._api import files
from oxinp._core.ops import creation
from tests.comparator import assert_same

pytestmark = pytest.mark.usefixtures("on_device")

RNG = numpy.random.default_rng(0)


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch):
    monkeypatch.setattr(files, "MIN_NBYTES", 1000)
    monkeypatch.setattr(files, "CHUNK_NBYTES", 640)
    monkeypatch.setattr(files, "ROWS", 7)


ARRAYS = {
    "a vector": RNG.standard_normal(777),
    "whole chunks": RNG.integers(0, 99, 640),
    "an image": RNG.random((20, 30, 3)).astype("f4"),
    "Fortran order": numpy.asfortranarray(RNG.random((13, 40))),
    "truth": RNG.random(2000) < 0.5,
    "complex": RNG.random(100) + 1j,
    "big-endian": RNG.random(300).astype(">f8"),
    "a short one": RNG.random(3),
    "dates": RNG.integers(0, 9, 300).astype("M8[s]"),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_load(name, tmp_path, stats):
    x, path = ARRAYS[name], tmp_path / "x.npy"
    numpy.save(path, x)
    found, expected = np.load(path), numpy.load(path)
    assert type(found) is np.ndarray
    assert set(stats().fallbacks) == ({"load"} if name in ("big-endian", "a short one", "dates") else set())
    assert_same(found, expected)
    assert found.flags.f_contiguous == expected.flags.f_contiguous
    found[...] = 0
    assert not found.any()


def test_versions_and_modes(tmp_path):
    x, path = ARRAYS["a vector"], tmp_path / "x.npy"
    with path.open("wb") as file:
        numpy.lib.format.write_array(file, x, version=(2, 0))
    assert_same(np.load(str(path)), x)
    assert_same(np.load(path, allow_pickle=True), x)
    assert_same(np.load(path, mmap_mode="r"), x)
    assert_same(np.asarray(numpy.load(path, mmap_mode="r")), x)
    assert_same(np.load(io.BytesIO(path.read_bytes())), x)


def test_what_numpy_refuses_to_load(tmp_path):
    path = tmp_path / "x.npy"
    numpy.save(path, ARRAYS["a vector"])
    whole = path.read_bytes()
    for wrong in (whole[:-8], whole[:6] + b"\x09" + whole[7:], b"\x00" * 3000):
        path.write_bytes(wrong)
        with pytest.raises(Exception) as expected:
            numpy.load(path)
        with pytest.raises(expected.type) as raised:
            np.load(path)
        assert str(raised.value) == str(expected.value)
    with pytest.raises(FileNotFoundError):
        np.load(tmp_path / "nothing.npy")
    path.write_bytes(whole)
    with pytest.raises(ValueError, match="max_header_size"):
        np.load(path, max_header_size=10)


def test_a_file_that_becomes_shorter(tmp_path, monkeypatch):
    path = tmp_path / "x.npy"
    numpy.save(path, ARRAYS["a vector"])
    make = creation.from_chunks

    def from_chunks(dtype, shape, chunks):
        with path.open("r+b") as file:
            file.truncate(1000)
        return make(dtype, shape, chunks)

    monkeypatch.setattr(files, "_opened", lambda file: file.open("rb", buffering=128))
    monkeypatch.setattr(creation, "from_chunks", from_chunks)
    with pytest.raises(OSError, match="shorter"):
        np.load(path)


@pytest.mark.parametrize("name", ARRAYS)
def test_save(name, tmp_path, stats):
    x = ARRAYS[name]
    ours = np.asarray(x)
    if name in ("a vector", "an image", "Fortran order"):
        ours, x = ours * 2, x * 2
    numpy.save(tmp_path / "expected.npy", x)
    np.save(tmp_path / "found", ours)
    assert (tmp_path / "found.npy").read_bytes() == (tmp_path / "expected.npy").read_bytes()
    if ours.nbytes > 1000 and name in ("a vector", "an image", "Fortran order"):
        assert not stats().fallbacks


def test_save_views(tmp_path, stats):
    x = ARRAYS["an image"]
    ours = np.asarray(x) * 1
    for number, make in enumerate((lambda y: y[::-1, 2:], lambda y: y[..., 1], lambda y: y.T, lambda y: y[3:])):
        np.save(tmp_path / "found.npy", make(ours))
        numpy.save(tmp_path / "expected.npy", make(x))
        assert (tmp_path / "found.npy").read_bytes() == (tmp_path / "expected.npy").read_bytes(), number
    assert not stats().fallbacks


def test_what_cannot_be_written(tmp_path):
    ours = np.asarray(ARRAYS["a vector"]) * 1
    with pytest.raises(FileNotFoundError):
        np.save(tmp_path / "nowhere" / "x.npy", ours)


TEXTS = {
    "a table": ("\n".join(f"{i} {i / 3:.17g} {-i}" for i in range(200)), {}),
    "a column": ("\n".join(map(str, range(600))), {}),
    "a column, kept": ("\n".join(map(str, range(600))), {"ndmin": 2}),
    "commas, from a line on": (
        "a,b\n# c\n" + "\n".join(f"{i},{i * i}" for i in range(200)) + "\n\n# end\n" * 9,
        {"delimiter": ",", "skiprows": 1, "dtype": int},
    ),
    "columns apart": ("\n".join(f"{i} {i} {i * 2}" for i in range(200)), {"usecols": (2, 0), "unpack": True}),
}


@pytest.mark.parametrize("name", TEXTS)
def test_loadtxt(name, tmp_path, stats):
    text, options = TEXTS[name]
    path = tmp_path / "x.txt"
    path.write_text(text)
    found, expected = np.loadtxt(path, **options), numpy.loadtxt(path, **options)
    if options.get("unpack"):
        found, expected = np.array(found), numpy.array(expected)
    assert "loadtxt" not in stats().fallbacks
    assert_same(found, expected)


@pytest.mark.parametrize("end", ["\n1 2 3", "\n1 x"])
def test_what_numpy_refuses_to_read(end, tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("\n".join(f"{i} {i}" for i in range(400)) + end)
    with pytest.raises(ValueError, match=r"400|401") as expected:
        numpy.loadtxt(path)
    with pytest.raises(ValueError, match=r"400|401") as raised:
        np.loadtxt(path)
    assert str(raised.value) == str(expected.value)


class Terminal(io.StringIO):
    """What takes the place of standard error."""


@pytest.mark.parametrize("is_terminal", [True, False])
def test_progress_is_told_at_a_terminal(is_terminal, tmp_path, monkeypatch):
    told = Terminal()
    monkeypatch.setattr(sys, "stderr", told)
    monkeypatch.setattr(_terminal, "columns", lambda _: 60 if is_terminal else None)
    monkeypatch.setattr(_terminal, "QUIET", 0.0)
    monkeypatch.setattr(_terminal, "SHOWN", 0.0)
    x, path = ARRAYS["a vector"], tmp_path / "x.npy"
    numpy.save(path, x)
    assert_same(np.load(path), x)
    np.save(path, np.asarray(x) * 1)
    text = told.getvalue()
    assert ("load x.npy: 10 %" in text) == ("save x.npy: 10 %" in text) == is_terminal
    assert bool(text) == is_terminal
    monkeypatch.setattr(creation, "MIN_CHUNKED", 1000)
    monkeypatch.setattr(creation, "CHUNK_NBYTES", 640)
    assert_same(np.asarray(numpy.load(path, mmap_mode="r")) * 1, x)
    assert ("to the device: 10 %" in told.getvalue()) == is_terminal
