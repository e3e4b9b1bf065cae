"""Type checkers see NumPy's types under our names, and ours; pyright reads the same page in the workflow."""

import ast
import runpy
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from oxinp import cuda
from oxinp.cuda import kernel

ROOT = Path(__file__).resolve().parents[2]
GENERATOR = runpy.run_path(str(ROOT / "docs" / "type_stubs.py"))
with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # of modules that NumPy is to remove
    STUBS = GENERATOR["stubs"]()


def test_mypy_accepts_a_page_of_user_code():
    # What is wrong on the page says so, and --strict reports what says so and is right.
    command = [sys.executable, "-m", "mypy", "--config-file=", "--strict", "--follow-imports=silent"]
    done = subprocess.run(
        [*command, "tests/typing/user_code.py"], cwd=ROOT, text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", STUBS)
def test_stubs_are_what_the_tables_say(path):
    written, expected = (ROOT / path).read_text(encoding="utf-8"), STUBS[path]
    if "\nfrom numpy." in expected and not written.startswith(GENERATOR["HEAD"]):
        pytest.skip("the names in NumPy's submodules are those of the versions that the stub names")
    assert written.partition("\n")[2] == expected.partition("\n")[2], "run: python docs/type_stubs.py"


def test_no_stub_is_left_over():
    written = {path.relative_to(ROOT).as_posix() for path in (ROOT / "oxinp").rglob("*.pyi")}
    assert written == {*STUBS, GENERATOR["BY_HAND"]}
    assert (ROOT / "oxinp" / "py.typed").exists()


def test_the_stub_of_kernels_has_their_names():
    tree = ast.parse((ROOT / "oxinp" / "cuda" / "kernel.pyi").read_text(encoding="utf-8"))
    assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
    (listed,) = [ast.literal_eval(node.value) for node in assigned if ast.unparse(node.targets[0]) == "__all__"]
    assert listed == kernel.__all__


def test_type_checkers_know_the_names_that_are_loaded_late():
    tree = ast.parse(Path(cuda.__file__).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    named = {
        alias.name: node.module if node.module != "oxinp.cuda" else f"oxinp.cuda.{alias.name}"
        for node in block.body
        for alias in node.names
    }
    assert named == cuda._LAZY
