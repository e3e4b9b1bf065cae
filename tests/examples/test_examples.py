"""Every program in `examples/`, small: under NumPy and under the runner, with results compared and host work named."""

import importlib.util
import os
import re
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

import oxinp
from asv_benchmarks.example_table import EXAMPLES, FOLDER, MODULES_BESIDE
from tests.conftest import REQUIRE_GPU

ROOT = Path(__file__).resolve().parents[2]
# What makes or draws the data, before and after.
OPTIONS = {
    "black_scholes": ["--size", "2000", "--steps", "8"],
    "heat_sink": ["--size", "40", "--steps", "30"],
    "kmeans": ["--size", "3000", "--clusters", "5", "--steps", "3"],
    "mandelbrot": ["--size", "48", "--steps", "40"],
    "nbody": ["--size", "100", "--steps", "3"],
    "pagerank": ["--size", "200"],
    "photograph": ["--radius", "1"],
}
DRAW = set(OPTIONS) - {"black_scholes", "pagerank"}


def test_every_example_is_here():
    programs = {path.stem for path in FOLDER.glob("*.py")} - set(MODULES_BESIDE)
    assert programs == set(EXAMPLES) | {"heat_equation"}
    assert set(OPTIONS) == set(EXAMPLES)


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_examples_know_nothing_of_oxinp(name):
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if "oxinp" in line and "python -m oxinp" not in line] == []


@pytest.mark.parametrize("offload_threshold", [0, 65536], indirect=True)
@pytest.mark.parametrize("name", sorted(EXAMPLES))
@pytest.mark.usefixtures("offload_threshold")
def test_computes_what_numpy_computes(name, stats):
    example = EXAMPLES[name]
    size, steps = example.sizes["tiny"]
    plain, ours = example.load(), example.load(for_oxinp=True)
    assert (plain.np, ours.np) == (np, oxinp)
    problem = example.problem(plain, size)
    given = [oxinp.array(value) if isinstance(value, np.ndarray) else value for value in problem]
    computed = example.solve(ours, given, steps)
    used = set(stats().fallbacks)
    expected = example.solve(plain, problem, steps)
    assert used <= example.waits_for
    assert len(computed) == len(expected)
    for result, numpys in zip(computed, expected, strict=True):
        if isinstance(numpys, np.ndarray):
            assert type(result) is oxinp.ndarray
            assert (result.shape, result.dtype) == (numpys.shape, numpys.dtype)
        np.testing.assert_allclose(
            np.asarray(result), numpys, rtol=0, atol=example.tolerance * float(np.abs(numpys).max())
        )


def run(command, folder, **variables):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    environment |= {"OXINP_BACKEND": "cuda" if REQUIRE_GPU else "emulator", **variables}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)
    if "no photograph" in done.stderr:
        pytest.skip("neither scikit-learn nor matplotlib is installed, or Pillow is not")
    assert done.returncode == 0, done.stderr
    return done.stdout


# The time that it took, and how small an error is.
VARYING = re.compile(r" in \d+\.\d+ s$|changed by \S+|within \S+ of", re.MULTILINE)


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_prints_and_draws_what_numpy_does(name, tmp_path):
    script = [str(FOLDER / f"{name}.py"), *OPTIONS[name]]
    if name == "photograph":
        script += ["--image", str(small_photograph(tmp_path))]
    without = without_matplotlib(tmp_path)
    printed, pictures = [], []
    strict = ["--strict"] if name == "mandelbrot" else []  # as the quickstart runs it
    for side, command in (("ours", ["-m", "oxinp", *strict]), ("numpys", [])):
        picture = tmp_path / side / "picture.png"
        picture.parent.mkdir()
        options = ["--picture", picture.name] if name in DRAW else []
        variables = {"OXINP_OFFLOAD_THRESHOLD": "0", "PYTHONPATH": without}
        printed.append(run([sys.executable, "-W", "error", *command, *script, *options], picture.parent, **variables))
        if name in DRAW:
            pictures.append(levels(picture))
    ours, numpys = (VARYING.sub("", text) for text in printed)
    assert "nan" not in numpys
    assert ours == numpys
    if pictures:
        assert np.abs(pictures[0] - pictures[1]).max() <= 1
        assert pictures[1].max() > 200


def without_matplotlib(folder):
    """Return a PYTHONPATH under which matplotlib is not to be found: pictures are the points alone then."""
    (folder / "without").mkdir()
    (folder / "without" / "matplotlib.py").write_text("raise ImportError('hidden')\n", encoding="utf-8")
    return os.pathsep.join([str(ROOT), str(folder / "without")])


@pytest.mark.parametrize("name", sorted({*EXAMPLES, "heat_equation"}))
def test_senseless_sizes_are_refused_in_a_sentence(name, tmp_path):
    size = "-1" if name == "photograph" else "0"
    command = [sys.executable, str(FOLDER / f"{name}.py"), "--size", size]
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=variables)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(f"{name}.py: error: ")


def test_pictures_have_titles_axes_and_scales(tmp_path, capsys):
    pytest.importorskip("matplotlib.figure")
    module = load_beside("picture")
    levels = np.arange(12, dtype=np.uint8).reshape(3, 4)
    x, y = module.Axis("time, s", 0.0, 2.0), module.Axis("height, m", -1.0, 1.0)
    drawn = module.figure(levels, "A title", x, y, "warmth", module.INFERNO, 10.0, 20.0)
    axes, scale = drawn.axes
    assert (axes.get_title(), axes.get_xlabel(), axes.get_ylabel()) == ("A title", "time, s", "height, m")
    assert (axes.get_xlim(), axes.get_ylim()) == ((0.0, 2.0), (-1.0, 1.0))
    assert scale.get_ylabel() == "warmth"
    assert [label.get_text() for label in scale.get_yticklabels()][::5] == ["10", "20"]
    path = tmp_path / "picture.png"
    module.write_picture(str(path), levels.astype(float), "A title", x, y)
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert capsys.readouterr().out == f"wrote {path}\n"


def test_a_program_draws_with_axes(tmp_path):
    pytest.importorskip("matplotlib.figure")
    command = [sys.executable, "-m", "oxinp", str(FOLDER / "mandelbrot.py"), *OPTIONS["mandelbrot"]]
    assert run(command, tmp_path).endswith("wrote mandelbrot.png\n")
    header = (tmp_path / "mandelbrot.png").read_bytes()[16:24]
    assert (int.from_bytes(header[:4], "big"), int.from_bytes(header[4:], "big")) == (800, 650)


def load_beside(name):
    """Import a module that examples share."""
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def small_photograph(folder):
    """Write every fifth point of the photograph that the example finds by itself."""
    images, example = pytest.importorskip("PIL.Image"), EXAMPLES["photograph"].load()
    try:
        whole = example.photograph()
    except SystemExit as error:
        pytest.skip(str(error))
    path = folder / "small.png"
    images.fromarray((whole[::5, ::5] * 255).round().astype(np.uint8)).save(path)
    return path


def levels(path):
    """Read a picture of ours back as integers."""
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    chunks, place = {}, 8
    while place < len(data):
        length = int.from_bytes(data[place : place + 4], "big")
        name, held = data[place + 4 : place + 8], data[place + 8 : place + 8 + length]
        assert zlib.crc32(name + held) == int.from_bytes(data[place + 8 + length : place + 12 + length], "big")
        chunks[name] = held
        place += length + 12
    assert list(chunks)[-1] == b"IEND"
    width, height = (int.from_bytes(chunks[b"IHDR"][i : i + 4], "big") for i in (0, 4))
    channels = 3 if chunks[b"IHDR"][9] == 2 else 1
    assert (channels == 3) != (len(chunks.get(b"PLTE", b"")) == 768)
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, 1 + channels * width)
    assert not rows[:, 0].any()
    return rows[:, 1:].astype(np.int64)


@pytest.mark.parametrize("threshold", ["0", "65536"])
def test_heat_equation(tmp_path, threshold):
    command = [sys.executable, FOLDER / "heat_equation.py", "--size", "48", "--steps", "40", "--picture", "heat.png"]
    variables = {"OXINP_OFFLOAD_THRESHOLD": threshold, "PYTHONPATH": without_matplotlib(tmp_path)}
    printed = run(command, tmp_path, **variables)
    assert float(re.search(r"largest error .*: (\S+) ", printed)[1]) < 5e-3, printed
    assert levels(tmp_path / "heat.png").shape == (48, 48)
