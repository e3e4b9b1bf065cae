"""Write the list of modules in docs/architecture.md from the first line of each module's docstring.

    python docs/module_map.py

Modules describe themselves once, in their docstring; the page only collects what they say.
"""

import ast
import inspect
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"
BLANK = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE}
BEGIN = "<!-- written by docs/module_map.py: begin -->"
END = "<!-- end -->"
TREES = ("oxinp", "tests", "asv_benchmarks", "examples")


def folders():
    """Return the folders that hold Python files, parents first."""
    return [folder for tree in TREES for folder in sorted({path.parent for path in (ROOT / tree).rglob("*.py")})]


def summary(path):
    """Return the first paragraph of a module's docstring, on one line; nothing for one without."""
    with path.open(encoding="utf-8") as file:  # whose rest is not looked at
        first = next(token for token in tokenize.generate_tokens(file.readline) if token.type not in BLANK)
    docstring = inspect.cleandoc(ast.literal_eval(first.string)) if first.type == tokenize.STRING else ""
    return " ".join(docstring.split("\n\n", 1)[0].split())


def is_mirror(path):
    """Whether a file holds the tests of one part, named after it, so that the tree itself says what it is."""
    return path.name.startswith("test_") and path.parent != ROOT / "tests"


def section(folder):
    """Return the lines about one folder."""
    own = folder / "__init__.py"
    lines = [f"### `{folder.relative_to(ROOT).as_posix()}/`", ""]
    if own.exists() and summary(own):
        lines += [summary(own), ""]
    modules = [path for path in sorted(folder.glob("*.py")) if path != own and not is_mirror(path)]
    if modules:
        lines += ["| module | holds |", "|---|---|"]
        lines += [f"| `{path.name}` | {summary(path).replace('|', chr(92) + '|')} |" for path in modules]
        lines.append("")
    return lines


def render(page):
    """Return the page with its list of modules as the tree is now."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    lines = [line for folder in folders() for line in section(folder)]
    return f"{before}{BEGIN}\n\n" + "\n".join(lines) + f"{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
