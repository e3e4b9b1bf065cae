"""A profile as a table for people and as JSON for programs."""

from __future__ import annotations

import atexit
import json
import linecache
import os
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

from oxinp._runner import program
from oxinp._runner.advice import advise
from oxinp._runner.profile import Line, Profile
from oxinp._terminal import columns, shortened, table

__all__ = ["as_json", "as_table", "start"]

MAX_ROWS = 30
MAX_WIDTH = 100  # of a line's place and source
NEGLIGIBLE = 0.005  # share of the time up to which a line that caused nothing is left out of the table
_CELL = re.compile(r"^<ipython-input-|[\\/]ipykernel_\d+[\\/]")  # what notebooks call the text of a cell
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_THOUSANDS = ("", "k", "M", "G", "T", "P")
_HEAD = ("time", "", "launches", "flops", "moved", "to device", "to host", "line")
_COUNTS = (
    "launches",
    "flops",
    "device_bytes",
    "h2d_bytes",
    "d2h_bytes",
    "num_h2d",
    "num_d2h",
    "compiled",
    "cache_hits",
)


def start(path: str) -> None:
    """Watch the program from now on; report when Python ends.

    Parameters
    ----------
    path : str
        The file to write JSON to; "" for a table on standard error.

    Raises
    ------
    OSError
        The file cannot be written to.
    """
    file = program.open_report(path) if path else None
    profile = Profile()
    # Registered before the program's own, and so called after them.
    atexit.register(_report, profile, file, os.getpid())
    profile.start()


def _report(profile: Profile, file: int | None, process: int) -> None:
    if os.getpid() != process:  # forked by the program: nobody samples there
        return
    profile.stop()
    if file is None:
        sys.stderr.write(as_table(profile))
        return
    try:
        with open(file, "w", encoding="utf-8") as report:  # noqa: PTH123 - a descriptor
            report.write(json.dumps(as_json(profile), indent=1) + "\n")
    except OSError as error:
        sys.stderr.write(f"the profile could not be written: {error.strerror}\n")


def as_json(profile: Profile) -> dict[str, Any]:
    """Return the profile in JSON's types: ``seconds``, ``total`` and ``lines``, times in seconds, sizes in bytes."""
    lines = profile.lines()
    return {
        "program": sys.argv,
        "seconds": profile.seconds,
        "total": _counts(_total(lines)),
        "lines": [
            {
                "file": line.file,
                "line": line.number,
                "source": _source(line),
                "seconds": line.seconds,
                **_counts(line),
                "advice": advise(line, profile.seconds),
            }
            for line in lines
            if line.seconds or _has_counts(line)
        ],
    }


def as_table(profile: Profile) -> str:
    """Return the profile as lines of text, the most expensive lines of the program first."""
    lines = [line for line in profile.lines() if _has_counts(line) or line.seconds >= NEGLIGIBLE * profile.seconds]
    total = _total(lines)
    shown = lines[:MAX_ROWS]
    rows = [_HEAD, *[_row(line, profile.seconds) for line in shown]]
    title = (
        f"profile: {profile.seconds:.2f} s, {_plural(total.launches, 'launch', 'launches')}, "
        f"{_number(total.flops)} flops, {_size(total.device_bytes)} moved, "
        f"{_size(total.h2d_bytes)} to the device, {_size(total.d2h_bytes)} to the host, "
        f"{_plural(sum(total.fallbacks.values()), 'fallback', 'fallbacks')}, {total.compiled} compiled"
    )

    def remarks(number: int) -> list[str]:
        if not number:
            return []
        line = shown[number - 1]
        fallbacks = sorted(line.fallbacks.items(), key=lambda item: -item[1])
        told = [f"on the host: {', '.join(f'{name} x {count}' for name, count in fallbacks)}"] if fallbacks else []
        return [*told, *[f"-> {advice}" for advice in advise(line, profile.seconds)]]

    width = columns(sys.stderr)
    drawn = table(rows, width=width, right=range(len(_HEAD) - 1), notes=remarks)
    text = ["", title if width is None else textwrap.fill(title, width), drawn]
    if len(lines) > len(shown):
        text.append(f"{len(lines) - len(shown)} more lines; --profile=FILE has them all")
    return "\n".join(text) + "\n"


def _row(line: Line, seconds: float) -> tuple[str, ...]:
    place = f"{_short(line.file)}:{line.number}: {_source(line)}" if line.file else "outside the program's lines"
    place = shortened(place, MAX_WIDTH)
    sizes = (line.device_bytes, line.h2d_bytes, line.d2h_bytes)
    moved, *copied = [_size(nbytes) if nbytes else "" for nbytes in sizes]
    launches = str(line.launches) if line.launches else ""
    flops = _number(line.flops) if line.flops else ""
    return f"{line.seconds:.3f} s", f"{100 * line.seconds / seconds:.0f} %", launches, flops, moved, *copied, place


def _total(lines: list[Line]) -> Line:
    total = Line("", 0)
    for line in lines:
        for name in _COUNTS:
            setattr(total, name, getattr(total, name) + getattr(line, name))
        for name, count in line.fallbacks.items():
            total.fallbacks[name] = total.fallbacks.get(name, 0) + count
    return total


def _counts(line: Line) -> dict[str, Any]:
    return {**{name: getattr(line, name) for name in _COUNTS}, "fallbacks": line.fallbacks}


def _has_counts(line: Line) -> bool:
    return bool(line.fallbacks or any(getattr(line, name) for name in _COUNTS))


def _source(line: Line) -> str:
    return linecache.getline(line.file, line.number).strip()


def _short(file: str) -> str:
    if _CELL.search(file):
        return "cell"
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except (ValueError, OSError):
        return file


def _size(nbytes: float) -> str:
    for unit in _UNITS:
        if nbytes < 1024 or unit == _UNITS[-1]:
            break
        nbytes /= 1024
    return f"{nbytes:.0f} {unit}" if unit == "B" else f"{nbytes:.1f} {unit}"


def _number(number: float) -> str:
    for unit in _THOUSANDS:
        if number < 1000 or unit == _THOUSANDS[-1]:
            break
        number /= 1000
    return f"{number:.3g} {unit}".rstrip()


def _plural(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
