"""What the pages say is so: the map names what exists, the README's commands are CI's, their examples run."""

import doctest
import importlib
import json
import os
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from asv_benchmarks import table
from tests.page_examples import OPTIONS, blocks_of
from tests.test_layers import FOR_OTHERS, LAYERS, modules

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PERFORMANCE = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
PATH = re.compile(r"`((?:oxinp|tests|asv_benchmarks|examples|docs|\.ci)/[\w./*-]*)`")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)


def page_id(path):
    return path.relative_to(ROOT).as_posix()


def test_the_list_of_modules_is_the_tree():
    """Also where a module is missing from it."""
    module_map = runpy.run_path(str(ROOT / "docs" / "module_map.py"))
    row = next(line for line in ARCHITECTURE.splitlines() if line.startswith("| `conftest.py`"))
    rendered = module_map["render"](ARCHITECTURE.replace(row + "\n", ""))
    assert rendered == ARCHITECTURE, "run: python docs/module_map.py"


@pytest.mark.parametrize("name", [name for name in LAYERS if name in modules()])
def test_every_layer_has_its_row(name):
    path = name.replace(".", "/")
    path += "/" if (ROOT / path).is_dir() else ".py"
    assert re.search(rf"^\| `{re.escape(path)}` \|", ARCHITECTURE, re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_pages_name_what_exists(page):
    text = page.read_text(encoding="utf-8")
    named = set(PATH.findall(text))
    prose = CODE.sub("", text)
    links = {str((page.parent / link).resolve().relative_to(ROOT)) for link in re.findall(r"\]\(([\w./-]+)\)", prose)}
    made = {f"docs/pictures/{name}" for name in runpy.run_path(str(ROOT / "docs" / "pictures.py"))["names"]()}
    missing = [name for name in sorted((named | links) - made) if not (ROOT / name).exists()]
    assert not missing


def test_performance_is_what_was_measured():
    baseline = ROOT / "asv_benchmarks" / "baseline" / "h200.json"
    if not baseline.exists():
        assert "Not yet measured." in PERFORMANCE
        return
    measured = json.loads(baseline.read_text(encoding="utf-8"))
    assert table.render(PERFORMANCE, measured) == PERFORMANCE, f"run: python -m asv_benchmarks.table {baseline}"


def test_modules_say_what_they_hold():
    silent = [
        name for name, path in modules().items() if not path.read_text(encoding="utf-8").lstrip().startswith('"""')
    ]
    assert not silent


@pytest.mark.skipif(sys.platform == "win32", reason="CI's script is for bash")
def test_ci_runs_the_commands_of_the_readme():
    listed = subprocess.run([ROOT / ".ci" / "run", "--list"], capture_output=True, text=True, check=True).stdout
    commands = listed.splitlines()
    fenced = [line for block in re.findall(r"```bash\n(.*?)```", README, re.DOTALL) for line in block.splitlines()]
    assert commands == fenced
    example, tests = commands
    assert "python -m pip install . &&" in example
    assert "examples/heat_equation.py" in example
    assert 'python -m pip install ".[test]" &&' in tests
    assert "python -m pytest" in tests
    full = subprocess.run([ROOT / ".ci" / "run", "--full", "--list"], capture_output=True, text=True, check=True).stdout
    assert full.splitlines() == [example, f"{tests} --full"]


def test_package_data():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["dependencies"] == ["numpy>=2.0", "scipy"]
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert {name.split(".", maxsplit=1)[0] for name in modules()} == set(wheel)


class Finder(doctest.DocTestFinder):
    """What is found in spite of a bug of Python 3.12.3 (gh-117692), which stops at functions that wrap slots of C."""

    def _find_lineno(self, obj, source_lines):
        try:
            return super()._find_lineno(obj, source_lines)
        except AttributeError:
            return None


def test_modules_can_be_imported():
    for name in modules().keys() - FOR_OTHERS.keys():
        importlib.import_module(name)


def test_modules_for_others_can_be_imported():
    for name, library in FOR_OTHERS.items():
        pytest.importorskip(library)
        importlib.import_module(name)


@pytest.mark.parametrize("name", [name for name, path in modules().items() if ">>>" in path.read_text("utf-8")])
def test_docstring_examples(name):
    module = importlib.import_module(name)
    source = Path(module.__file__).read_text(encoding="utf-8")
    # What is documented elsewhere, as NumPy's functions under our name are, is tested there.
    lines = {test: "".join(example.source for example in test.examples) for test in Finder().find(module)}
    own = [test for test, text in lines.items() if all(line in source for line in text.splitlines())]
    failed = [test.name for test in own if doctest.DocTestRunner(optionflags=OPTIONS).run(test).failed]
    assert not failed


EXAMPLES = [page for page in PAGES if blocks_of(page)]
LONG = {ROOT / "docs" / "sparse.md"}  # which takes the emulator long
# Pages that look at the device, and say what to do where there is none.
OF_A_DEVICE = [ROOT / "docs" / f"{name}.md" for name in ("quickstart", "placement-and-fusion", "kernel-language")]


@pytest.mark.parametrize(
    ("page", "backend"),
    [
        *(
            pytest.param(page, os.environ["OXINP_BACKEND"], marks=pytest.mark.slow if page in LONG else ())
            for page in EXAMPLES
        ),
        *((page, "host") for page in OF_A_DEVICE),
    ],
    ids=lambda value: value if isinstance(value, str) else page_id(value),
)
def test_page_examples(page, backend):
    command = [sys.executable, "-W", "error", "-m", "tests.page_examples", str(page)]
    environment = {**os.environ, "OXINP_BACKEND": backend}
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
