"""Write docs/coverage.md from the coverage tables: ``python docs/coverage_page.py``.

The names in submodules are those of the installed NumPy and SciPy, whose versions the page says.
"""

import sys
from pathlib import Path

import numpy as np
import scipy

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "coverage.md"
sys.path.insert(0, str(ROOT))

from oxinp._api import coverage, modules  # noqa: E402 - found by the line above
from oxinp._api.host_parts import HOST_REASONS  # noqa: E402

SUBMODULES = "## Submodules"
"""The heading of what depends on the installed versions."""


def page():
    """Return docs/coverage.md: the tables as they are."""
    lines = [
        "# What is covered, and how",
        "",
        "Every public name of NumPy's is there, and in `oxinp.scipy` every one of SciPy's. This page is written from",
        "the tables in `oxinp/_api/coverage.py` and `oxinp/_api/submodule_rows.py` by `python docs/coverage_page.py`.",
        "",
        *counted(coverage.ROWS, [" meaning |", "---|", *[f" {meaning} |" for meaning in meanings().values()]]),
        "",
        "Whatever the kind, NumPy computes small arrays, and what a native function has no kernel for (a dtype, a",
        "keyword); the latter is counted.",
    ]
    for chapter in dict.fromkeys(row.chapter for row in coverage.ROWS):
        named = {row.name: row for row in coverage.ROWS if row.chapter == chapter}
        lines += ["", f"## {chapter.capitalize()}", "", *listed(named)]
    return "\n".join([*lines, "", *submodules()]) + "\n"


def submodules():
    """Return the lines about submodules."""
    hosts = [row for row in modules.SUBMODULES.values() if row.kind == coverage.HOST and is_there(row)]
    # Known by two names.
    hosts = [row for row in hosts if row.path != "emath"]
    chapters = {row.source: modules.rows(row.path) for row in hosts}
    names = [row for rows in chapters.values() for row in rows.values()]
    own = [row.source for row in modules.SUBMODULES.values() if row.kind == coverage.OWN]
    lines = [
        SUBMODULES,
        "",
        f"Their names are those of {versions()}; other versions have what they have.",
        "",
        *counted(names, ["", "", *[""] * len(coverage.KINDS)]),
        "",
        "Entirely own: " + ", ".join(f"`{name}`" for name in own if not name.startswith("oxinp.")) + ".",
        "`oxinp.scipy.sparse` is `oxinp.sparse`, `numpy.emath` is `numpy.lib.scimath`.",
    ]
    for source, rows in chapters.items():
        lines += ["", f"### {source}", "", *listed(rows)]
        if source in HOST_REASONS:
            lines += ["", f"On the host are {HOST_REASONS[source]}."]
    return lines


def is_there(submodule):
    """Whether the installed version has a submodule."""
    package = np if submodule.source.startswith("numpy") else scipy
    return coverage.is_in(submodule, package.__version__)


def versions():
    """Return what the names in submodules depend on."""
    numpys, scipys = (".".join(package.__version__.split(".")[:2]) for package in (np, scipy))
    return f"NumPy {numpys} and SciPy {scipys}"


def counted(rows, more):
    """Return a table of how many names there are of each kind; `more` ends its lines."""
    counts = [(kind, len([row for row in rows if row.kind == kind])) for kind in coverage.KINDS]
    cells = ["| kind | names |", "|---|---|", *[f"| {kind} | {count} |" for kind, count in counts]]
    return [cell + end for cell, end in zip(cells, more, strict=True)]


def listed(rows):
    """Return a line for each kind, with the names of that kind."""
    lines = []
    for kind in coverage.KINDS:
        named = [described(name, row) for name, row in sorted(rows.items()) if row.kind == kind]
        if named:
            lines.append(f"* {kind}: {', '.join(named)}")
    return lines


def meanings():
    """Read the meanings of the kinds off the table in the docstring of `coverage`."""
    found = {}
    for line in coverage.__doc__.split("\n"):
        kind, _, meaning = line.partition(" ")
        if kind in coverage.KINDS:
            found[kind] = meaning.strip()
    return found


def described(name, row):
    """Return a name and what there is to say of it."""
    package = "SciPy" if row.chapter.startswith("scipy") else "NumPy"
    notes = [f"from {package} {row.since}"] if row.since else []
    notes += [f"up to {package} {row.until}"] if row.until else []
    notes += [said for said in (row.reason, row.note) if said]
    return f"`{name}`" + (f" ({'; '.join(notes)})" if notes else "")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
