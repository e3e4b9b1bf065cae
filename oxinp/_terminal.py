"""The terminal: the one way in which tables are drawn, to fit its width, and pipes that are closed early."""

from __future__ import annotations

import contextlib
import os
import sys
import textwrap
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

__all__ = ["Columns", "Progress", "closing_quietly", "columns", "fields", "shortened", "table"]

NARROWEST = 12
"""Columns of text are not made narrower than this to fit."""

FOLDED = 4
"""By how much lines are indented that follow a row because it has no room for them."""

LEGIBLE = 32
"""The last column, mostly of text, is not made narrower than this: it goes to a line of its own instead."""

QUIET, SHOWN = 1.0, 0.2
"""Seconds after which progress is told of, and for which what is told stays."""

BROKEN_PIPE = 141
"""Exit status of what SIGPIPE ends, as shells have it."""


def columns(stream: Any = None) -> int | None:
    """Return how many columns a stream shows, None where it is no terminal: what is kept or searched is not cut.

    Parameters
    ----------
    stream : text file, optional
        Standard output where it is not given.
    """
    try:
        found = os.get_terminal_size((sys.stdout if stream is None else stream).fileno()).columns
    except (AttributeError, OSError, ValueError):  # no terminal, closed, or no file at all
        return None
    return found or None


def shortened(text: str, width: int, *, keep_end: bool = False) -> str:
    """Return a text of at most so many characters, "..." standing for what is left out of it."""
    if len(text) <= width:
        return text
    kept = max(width - 3, 0)
    if keep_end:
        return "..."[:width] + (text[-kept:] if kept else "")
    return text[:kept] + "..."[:width]


class Columns:
    """The columns of a table: how wide they are, and on which line of a row they stand where one line is too short.

    Parameters
    ----------
    widths : sequence of int
        Of the columns' longest cells; 0 leaves a column out.
    width : int or None
        Of the terminal, see `columns`. None: one line, as wide as it needs to be.
    right : iterable of int
        Columns that are aligned to the right: numbers.
    text : iterable of int
        Columns whose cells lose their end where they are too wide.
    paths : iterable of int
        Columns whose cells lose their beginning.
    """

    def __init__(
        self,
        widths: Sequence[int],
        *,
        width: int | None = None,
        right: Iterable[int] = (),
        text: Iterable[int] = (-1,),
        paths: Iterable[int] = (),
    ) -> None:
        self._width = width
        self._right, ends, self._paths = ({i % len(widths) for i in places} for places in (right, text, paths))
        natural = {i: size for i, size in enumerate(widths) if size}
        self._widths = natural if width is None else _fitted(natural, width, ends | self._paths)
        self._lines = [list(natural)] if width is None else _lines(self._widths, width)
        for line in self._lines:  # what stands alone need not have been made so narrow
            if width is not None and len(line) == 1 and line[0] in ends | self._paths:
                self._widths[line[0]] = min(natural[line[0]], max(width - FOLDED, NARROWEST))
        self._indent = sum(self._widths[i] + 2 for i in self._lines[-1][:-1])
        if len(self._lines) > 1 or (width is not None and width - self._indent < LEGIBLE):
            self._indent = FOLDED

    def draw(self, row: Sequence[str], notes: Sequence[str] = ()) -> str:
        """Return the lines of a row, and of what is to be said of it, which begins where its last column does."""
        lines = [
            " " * (FOLDED * bool(number)) + "  ".join(self._cell(row, i) for i in line)
            for number, line in enumerate(self._lines)
        ]
        for note in notes:
            room = None if self._width is None else max(self._width - self._indent, NARROWEST)
            lines += [" " * self._indent + part for part in ([note] if room is None else textwrap.wrap(note, room))]
        return "\n".join(line.rstrip() for line in lines if line.strip())

    def _cell(self, row: Sequence[str], i: int) -> str:
        value = shortened(row[i], self._widths[i], keep_end=i in self._paths)
        return value.rjust(self._widths[i]) if i in self._right else value.ljust(self._widths[i])


class Progress:
    """How much has been done of what takes long: a line on standard error, at a terminal, after `QUIET` seconds.

    Parameters
    ----------
    what : str
    total : int
        Bytes.
    """

    def __init__(self, what: str, total: int) -> None:
        self._what, self._total, self._done = what, total, 0
        self._begin = self._told = time.perf_counter()
        self._width = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        if self._width:
            sys.stderr.write(f"\r{'':<{self._width}}\r")
            sys.stderr.flush()

    def advance(self, nbytes: int) -> None:
        """Say that so many bytes more have been done."""
        self._done += nbytes
        now = time.perf_counter()
        if now - self._begin < QUIET or now - self._told < SHOWN:
            return
        width = columns(sys.stderr)
        if width is None:
            return
        self._told, rate = now, self._done / (now - self._begin)
        left = max(0, self._total - self._done) / rate
        share = 100 * self._done // max(self._total, 1)
        text = shortened(f"{self._what}: {share} % of {self._total / 1e9:.1f} GB, {left:.0f} s left", width - 1)
        sys.stderr.write(f"\r{text:<{self._width}}")
        sys.stderr.flush()
        self._width = max(self._width, len(text))

    def counted(self, parts: Iterable[Any]) -> Iterator[Any]:
        """Yield arrays, each of which has been done when the next one is asked for."""
        for part in parts:
            yield part
            self.advance(part.nbytes)


def table(
    rows: Iterable[Sequence[str]], *, notes: Callable[[int], Sequence[str]] = lambda _: (), **options: Any
) -> str:
    """Return rows of cells as lines, their columns two spaces apart.

    Parameters
    ----------
    rows : iterable of sequence of str
        All of one length; the first is the head. Columns with nothing below their head are left out.
    notes : callable
        What is to be said below a row, by the row's number; the head is 0.
    **options
        See `Columns`.

    Returns
    -------
    str
        Without a newline at its end.

    Examples
    --------
    >>> from oxinp._terminal import table
    >>> print(table([("name", "count", "what"), ("a", "12", "a long explanation")], width=27, right=[1]))
    name  count  what
    a        12  a long expl...
    """
    cells = [list(row) for row in rows]
    kept = [len(cells) == 1 or any(row[i] for row in cells[1:]) for i in range(len(cells[0]))]
    widths = [max(len(row[i]) for row in cells) * kept[i] for i in range(len(kept))]
    drawn = Columns(widths, **options)
    return "\n".join(drawn.draw(row, notes(number)) for number, row in enumerate(cells))


def fields(rows: Sequence[tuple[str, str]], width: int | None = None) -> str:
    """Return names and values, a pair per line, with long values going on below themselves.

    Parameters
    ----------
    rows : sequence of (str, str)
    width : int or None
        Of the terminal, see `columns`.

    Examples
    --------
    >>> from oxinp._terminal import fields
    >>> print(fields([("name", "Ada"), ("born", "in London in 1815")], width=20))
    name:  Ada
    born:  in London in
           1815
    """
    indent = max(len(name) for name, _ in rows) + 3
    lines = []
    for name, value in rows:
        room = None if width is None else max(width - indent, NARROWEST)
        parts = [value] if room is None else textwrap.wrap(value, room, break_on_hyphens=False) or [""]
        heads = [f"{name}:", *[""] * (len(parts) - 1)]
        lines += [f"{head:<{indent}}{part}".rstrip() for head, part in zip(heads, parts, strict=True)]
    return "\n".join(lines)


def _fitted(widths: dict[int, int], width: int, flexible: set[int]) -> dict[int, int]:
    """Return the widths of columns made narrower until they fit, the widest first, but none too narrow to read."""
    fitted = dict(widths)
    last = max(fitted)
    floors = {i: LEGIBLE if i == last else NARROWEST for i in flexible}
    while sum(fitted.values()) + 2 * (len(fitted) - 1) > width:
        able = [i for i in fitted if i in flexible and fitted[i] > floors[i]]
        if not able:
            break
        fitted[max(able, key=fitted.__getitem__)] -= 1
    return fitted


def _lines(widths: dict[int, int], width: int) -> list[list[int]]:
    """Return the columns that stand on each line of a row: as many as there is room for."""
    lines: list[list[int]] = [[]]
    taken = 0
    for i, size in widths.items():
        if lines[-1] and taken + 2 + size > width:
            lines.append([])
            taken = FOLDED - 2
        taken += size + 2 * bool(lines[-1] or len(lines) > 1)
        lines[-1].append(i)
    return lines


@contextlib.contextmanager
def closing_quietly() -> Iterator[None]:
    """End without a word inside this block where nobody reads standard output any more, as ``| head`` does."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(BROKEN_PIPE)
