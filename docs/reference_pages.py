"""Make the reference, docs/reference/*.md, from the tables: ``python docs/reference_pages.py``; Sphinx does so, too.

A row for every name: what oxinp makes of it, how exact it is, what differs. What is ours alone is documented from its
docstrings. Nothing here is kept: the tables and the installed NumPy and SciPy say it all.
"""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "reference"
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

import coverage_page  # noqa: E402 - found by the line above

import oxinp  # noqa: E402
from oxinp import cuda  # noqa: E402
from oxinp._api import coverage, modules, notes  # noqa: E402
from oxinp._core.array import dispatch, methods  # noqa: E402
from oxinp._ptx import isa  # noqa: E402


def beside_numpys():
    """Return the functions and classes that the namespace has beside NumPy's names."""
    names = [*oxinp.__all__, *oxinp._IN_NOTEBOOKS]
    return [name for name in names if not hasattr(np, name) and callable(getattr(oxinp, name))]


OURS = {
    "oxinp": ("What oxinp has beside NumPy's names", beside_numpys()),
    "oxinp.cuda": ("The device", cuda.__all__),
    "oxinp.cuda.kernel": ("The kernel language", ["jit", "KernelFunction", "Builder", "warp_reduce", "block_reduce"]),
    "oxinp.cuda.debug": ("Debugging", cuda.debug.__all__),
    "oxinp.cuda.profiler": ("Profiling", cuda.profiler.__all__),
}
"""Modules of ours: a heading, and the names that are documented."""


def pages():
    """Return the text of every page, by its file name."""
    made = {}
    for chapter in dict.fromkeys(row.chapter for row in coverage.ROWS):
        rows = {row.name: row for row in coverage.rows().values() if row.chapter == chapter}
        if rows:
            made[f"numpy-{chapter.replace(' ', '-')}.md"] = table(f"NumPy: {chapter}", "numpy", rows)
    made["ndarray.md"] = ndarray()
    for row in modules.SUBMODULES.values():
        if row.kind == coverage.HOST and coverage_page.is_there(row) and row.path != "emath":
            made[f"{row.source}.md"] = table(row.source, row.source, modules.rows(row.path))
    for module, (heading, names) in OURS.items():
        made[f"{module}.md"] = documented(module, heading, names)
    made["instructions.md"] = instructions()
    made["index.md"] = index(made)
    return made


def index(made):
    """Return the first page, with all others in its table of contents."""
    parts = {
        "Ours": [name for name in made if name.startswith("oxinp") or name == "instructions.md"],
        "NumPy": [name for name in made if name.startswith("numpy") or name == "ndarray.md"],
        "SciPy": [name for name in made if name.startswith("scipy")],
    }
    lines = [
        "# Reference",
        "",
        f"Every name of {coverage_page.versions()}, with its kind (what oxinp makes of it), its accuracy and what",
        "differs from theirs; a name leads to their documentation. `help(np.sqrt)` says the same.",
        "",
        "| kind | meaning |",
        "|---|---|",
        *[f"| {kind} | {meaning} |" for kind, meaning in coverage_page.meanings().items()],
        "",
    ]
    for caption, names in parts.items():
        stems = [name.removesuffix(".md") for name in names]
        lines += ["```{toctree}", f":caption: {caption}", ":maxdepth: 1", "", *stems, "```", ""]
    return "\n".join(lines)


def table(heading, source, rows):
    """Return a page with a row for each name."""
    lines = [f"# {heading}", "", "| name | kind | accuracy | differences |", "|---|---|---|---|"]
    module = importlib.import_module(source)
    for name, row in sorted(rows.items()):
        value = getattr(module, name, None)
        cells = [link(source, name, value), row.kind, accuracy(value), differences(row, source)]
        lines.append(f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def link(source, name, value):
    """Return a name, with a link to its page of NumPy's or SciPy's documentation where it has one."""
    is_documented = callable(value) and not name.startswith("_")
    site = "https://docs.scipy.org/doc/scipy" if source.startswith("scipy") else "https://numpy.org/doc/stable"
    return f"[`{name}`]({site}/reference/generated/{source}.{name}.html)" if is_documented else f"`{name}`"


def accuracy(value):
    """Return how exact a ufunc of NumPy's is; nothing for what is none."""
    ours = dispatch.ufuncs.get(value) if isinstance(value, np.ufunc) else None
    return ours.accuracy if ours is not None else ""


def differences(row, source):
    """Return what is to be said of a name."""
    name = row.name if "." in row.name or source == "numpy" else f"{source}.{row.name}"
    said = [notes.DIFFERENCES.get(name.removeprefix("numpy."), "")]
    said += [f"from {row.since}"] if row.since else []
    said += [f"up to {row.until}"] if row.until else []
    said += [f"refused: {row.reason}"] if row.reason else []
    return "; ".join(filter(None, said))


def ndarray():
    """Return the page of the array's attributes."""
    there = [row for row in methods.ROWS if hasattr(np.ndarray, row.name)]
    lines = ["# Attributes of ndarray", "", "| name | kind | differences |", "|---|---|---|"]
    for row in sorted(there, key=lambda row: row.name):
        kind = row.kind if row.kind != methods.FUNCTION else f"as the function `{row.name}`"
        lines.append(f"| `{row.name}` | {kind} | {row.reason} |")
    lines += [
        "",
        "*own*: written for our arrays; *host*: NumPy computes it, on a copy, and it is counted; *view*: no",
        "",
    ]
    lines[-1] = "element is read; *refused*: there is none, for the reason given.\n"
    return "\n".join(lines)


GROUPS = {"module": "Modules", "function": "Functions", "class": "Classes", "exception": "Exceptions"}


def documented(module, heading, names):
    """Return a page of docstrings, by kinds of objects."""
    found = importlib.import_module(module)
    lines = [f"# {module}: {heading[0].lower()}{heading[1:]}", ""]
    if module != "oxinp":
        lines += [(found.__doc__ or "").strip().split("\n\n")[0].replace("``", "`"), ""]
    groups = {kind: [] for kind in GROUPS}
    for name in sorted(names, key=str.lower):
        if name != "__version__":
            groups[group(getattr(found, name))].append(name)
    for kind, members in groups.items():
        lines += [f"## {GROUPS[kind]}", ""] if members else []
        if kind == "module":
            lines += [f"* [{name}]({module}.{name}.md)" for name in members] + [""]
            continue
        for name in members:
            options = ["   :members:"] if kind == "class" else []
            options += ["   :inherited-members:"] if name == "Builder" else []
            lines += ["```{eval-rst}", f".. auto{kind}:: {module}.{name}", *options, "```", ""]
    return "\n".join(lines)


def group(value):
    """Return what kind of object something is, as Sphinx calls it."""
    if isinstance(value, ModuleType):
        return "module"
    if isinstance(value, type):
        return "exception" if issubclass(value, BaseException) else "class"
    return "function"


def instructions():
    """Return the page of the instructions of the kernel language."""
    importlib.import_module("oxinp._ptx.builder")
    bindings = {}
    for (name, binding), row in isa._INDEX.items():
        types = bindings.setdefault(name, (row, []))[1]
        types.append(",".join(type_.name for type_ in binding))
    lines = [
        "# Instructions",
        "",
        "Every row is a method of the builder `k` of a [kernel](../kernel-language.md): `k.fma(a, b, c)`. The first",
        "word of the signature is the result; `t` and `s` stand for the types that are listed, `w` for the type twice",
        "as wide.",
        "",
        "| name | signature | PTX | types | from |",
        "|---|---|---|---|---|",
    ]
    for name, (row, types) in sorted(bindings.items()):
        suffix = "a" if row.arch_specific else ""
        cells = [f"`{name}`", f"`{row.signature}`", f"`{row.opcode}`", " ".join(types), f"sm_{row.sm}{suffix}"]
        lines.append(f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def write():
    """Write the pages that are not as they should be, and remove what is none of them."""
    FOLDER.mkdir(exist_ok=True)
    made = pages()
    for path in FOLDER.glob("*.md"):
        if path.name not in made:
            path.unlink()
    for name, text in made.items():
        path = FOLDER / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
    print(f"{len(list(FOLDER.glob('*.md')))} pages in {FOLDER}, oxinp.__version__ {oxinp.__version__}")  # noqa: T201
