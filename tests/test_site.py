"""The documentation site and the package's page: every page can be reached, and every link leads somewhere."""

import importlib
import os
import re
import runpy
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import pytest

from oxinp._config import SETTINGS
from oxinp._version import __version__
from tests.test_docs import CODE

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
TOCTREE = re.compile(r"```\{toctree\}\n(.*?)```", re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]*)(?:#[^)\s]*)?\)|^\[[\w-]+\]: (\S+)", re.MULTILINE)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
IN_THE_TREE = f"{PROJECT['urls']['Repository']}/blob/main/"


def script(name):
    return runpy.run_path(str(DOCS / f"{name}.py"))


@pytest.fixture(scope="module")
def pages():
    """Return the text of every page of the site, by its path below docs/."""
    written = {path.name: path.read_text(encoding="utf-8") for path in DOCS.glob("*.md")}
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # of what SciPy is to remove
        made = script("reference_pages")["pages"]()
    return written | {f"reference/{name}": text for name, text in made.items()}


def in_toctrees(pages):
    """Return the pages that are in the table of contents of a page."""
    found = []
    for path, text in pages.items():
        for entries in TOCTREE.findall(text):
            names = [line for line in entries.splitlines() if line and not line.startswith(":")]
            found += [os.path.normpath(f"{Path(path).parent}/{name}.md") for name in names]
    return found


def dead_links(pages, there):
    """Return the links between pages that lead nowhere, each with its page."""
    dead = []
    for path, text in pages.items():
        for link in {first or second for first, second in LINK.findall(CODE.sub("", text))}:
            target = os.path.normpath(f"{Path(path).parent}/{link}")
            if link and not link.startswith(("https://", "mailto:")) and target not in there:
                dead.append((path, link))
    return dead


def test_every_page_is_in_one_toctree(pages):
    listed = in_toctrees(pages)
    assert sorted(listed) == sorted(set(pages) - {"index.md"})


def test_links_between_pages_resolve(pages):
    pictures = {f"pictures/{name}" for name in script("pictures")["names"]()}
    assert not dead_links(pages, {*pages, *pictures})


def test_a_page_that_is_left_out_and_a_dead_link_are_seen():
    site = {"index.md": "```{toctree}\n:maxdepth: 1\n\na\n```\n", "a.md": "[b](b.md#x), `[no](link.md)`", "b.md": ""}
    assert in_toctrees(site) == ["a.md"]
    assert dead_links({"a.md": "[c](c.md), [b](b.md)"}, site) == [("a.md", "c.md")]


def test_the_reference_has_every_name(pages):
    numpy_names = {name for name in importlib.import_module("numpy").__all__ if not name.startswith("_")}
    text = "\n".join(text for path, text in pages.items() if path.startswith("reference/numpy-"))
    missing = {name for name in numpy_names if f"`{name}`" not in text}
    assert not missing
    cuda = importlib.import_module("oxinp.cuda")
    ours = pages["reference/oxinp.cuda.md"]
    assert all(f"oxinp.cuda.{name}" in ours for name in cuda.__all__ if name != "__version__")
    assert "within 1 ulp of the true value, NumPy's within 4" in pages["reference/numpy-mathematics.md"]


def test_the_page_of_settings_is_the_table():
    written = (DOCS / "settings.md").read_text(encoding="utf-8")
    assert written == script("settings_page")["page"]().rstrip() + "\n", "run: python docs/settings_page.py"
    assert all(row.variable in written for row in SETTINGS)


def test_links_of_the_packages_page_are_absolute_and_lead_into_the_tree():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    links = [first or second for first, second in LINK.findall(CODE.sub("", readme))]
    assert links
    assert all(link.startswith("https://") for link in links)
    missing = [
        link for link in links if link.startswith(IN_THE_TREE) and not (ROOT / link[len(IN_THE_TREE) :]).exists()
    ]
    assert not missing
    used = set(re.findall(r"\]\[([\w-]+)\]", readme)) | {name.lower() for name in re.findall(r"\[(\w+)\]\[\]", readme)}
    assert used == set(re.findall(r"^\[([\w-]+)\]:", readme, re.MULTILINE))


def test_the_package_says_where_everything_is():
    assert {"Homepage", "Documentation", "Repository", "Issues", "Changelog"} <= set(PROJECT["urls"])
    sdist = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"][
        "sdist"
    ]
    for pattern in sdist["include"]:
        assert list(ROOT.glob(pattern.removeprefix("/"))), pattern
    assert {"/asv.conf.json", "/tests", "/docs", "/.ci"} <= set(sdist["include"])


def test_the_version_is_cited_and_has_its_changes():
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\n## {__version__}\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_workflow_runs_every_python_and_numpy_that_is_supported():
    text = (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
    (listed,) = re.findall(r"python: \[(.*)\]", text)
    claimed = [row.rpartition(" ")[2] for row in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", row)]
    assert re.findall(r'"([\d.]+)"', listed) == claimed
    oldest = PROJECT["dependencies"][0].removeprefix("numpy>=")
    assert f'"numpy=={oldest}.*"' in text
    assert "pyright tests/typing/user_code.py" in text
    build = "python -m sphinx -W -b html docs build/docs"
    assert build in (ROOT / ".github" / "workflows" / "docs.yml").read_text(encoding="utf-8")
    assert build in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    release = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    assert "id-token: write" in release
    assert "password" not in release


@pytest.mark.slow
def test_the_site_builds_without_warnings(tmp_path):
    pytest.importorskip("sphinx", reason='the docs extra is not installed: pip install ".[docs]"')
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html", "docs", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "oxinp.cuda.kernel.jit" in (tmp_path / "reference" / "oxinp.cuda.kernel.html").read_text(encoding="utf-8")
