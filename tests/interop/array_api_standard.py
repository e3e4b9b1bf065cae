"""The names and signatures of the array API standard: `python -m tests.interop.array_api_standard` writes the table.

They are read off array_api_strict, which follows the standard to the letter, and kept in `array_api_standard.txt`, so
that the namespace is held against the standard where array_api_strict is not installed, too.
"""

import importlib
import inspect
from pathlib import Path

TABLE = Path(__file__).with_suffix(".txt")
NOT_OF_THE_STANDARD = {
    *("ArrayAPIStrictFlags", "Device", "__version__"),
    *("get_array_api_strict_flags", "reset_array_api_strict_flags", "set_array_api_strict_flags"),
}
KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: "/",
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "",
    inspect.Parameter.KEYWORD_ONLY: "*",
    inspect.Parameter.VAR_POSITIONAL: "...",
}


def row(path, value):
    """Return the line of a name: for a function, its parameters, each with how it may be given."""
    if not inspect.isroutine(value):
        return path
    parameters = inspect.signature(value).parameters.values()
    return " ".join([path, "(", *[KINDS[each.kind] + each.name for each in parameters], ")"])


def rows_of_strict():
    """Return the lines of the standard, by array_api_strict."""
    strict = importlib.import_module("array_api_strict")
    found = [f"__array_api_version__ = {strict.__array_api_version__}"]
    for below in ("", "fft.", "linalg."):
        module = getattr(strict, below[:-1]) if below else strict
        names = set(module.__all__) - NOT_OF_THE_STANDARD - {"__array_api_version__"}
        found += [row(f"{below}{name}", getattr(module, name)) for name in sorted(names)]
    return found


if __name__ == "__main__":
    TABLE.write_text("\n".join([*rows_of_strict(), ""]), "utf-8")
