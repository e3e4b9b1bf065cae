"""What was measured to be fastest: the database of choices that is shipped, and the user's own.

One JSON file per compute capability, a row per problem. The shipped ones lie beside this module; the user's, which
``python -m oxinp tune`` writes, in the folder of the compiled kernels. A question is answered by the nearest row of its
family and key: the distance is the sum over the extents of how often one has to be doubled to be the other's.

A file appears whole, by renaming a temporary one. Who writes holds a lock, so that two that tune at the same time keep
each other's rows. What others may have written (`trust`) is not used; `ignored` tells.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
import warnings
from bisect import bisect_left, bisect_right
from pathlib import Path
from threading import get_ident
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from oxinp._config import config
from oxinp._runtime import trust

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

__all__ = ["Database", "Found", "Question", "Row", "TuningWarning", "database", "ignored"]

FORMAT = 1
MAX_DISTANCE = 0.5
"""Doublings in all up to which a row says more than a planner knows by itself: a product with half the columns has half
the tiles, and would leave half the multiprocessors idle if it were cut alike."""

LAYOUT_DISTANCE = 0.25
"""What another layout adds."""

MAX_REMEMBERED = 4096
_SHIPPED = Path(__file__).with_name("measured")
_LOCK_SECONDS = 10.0
"""A lock older than this has lost its owner: writing takes milliseconds."""


class TuningWarning(UserWarning):
    """A file of tuned choices cannot be used."""


class Question(Protocol):
    """What a planner asks; see `oxinp._kernels.choice.Choice`."""

    @property
    def family(self) -> str:
        """What chooses."""

    @property
    def key(self) -> tuple[str, ...]:
        """What has to be the same."""

    @property
    def layout(self) -> tuple[str, ...]:
        """What had better be the same."""

    @property
    def shape(self) -> tuple[int, ...]:
        """What had better be near."""


class Row(NamedTuple):
    """What was best for one problem.

    Attributes
    ----------
    family, key, layout, shape
        The problem; see `oxinp._kernels.choice.Choice`.
    answer : dict
        Fields of the answer.
    seconds : float
        What it took.
    default_seconds : float
        What the planner's own choice took.
    device : str
        Where that was.
    """

    family: str
    key: tuple[str, ...]
    layout: tuple[str, ...]
    shape: tuple[int, ...]
    answer: dict[str, Any]
    seconds: float
    default_seconds: float
    device: str

    @property
    def is_default(self) -> bool:
        """Whether nothing was faster than the planner's own choice."""
        return self.seconds >= self.default_seconds

    @property
    def problem(self) -> tuple[Any, ...]:
        """What tells rows apart."""
        return self[:4]


class Found(NamedTuple):
    """The nearest row, how far it is, and the file it is from."""

    row: Row
    distance: float
    source: str


_Place = tuple[list[float], float, tuple[Row, str]]
"""Logarithms of the extents, what another layout adds, and the row with its file."""


class Database:
    """The choices for a compute capability; called with a `Question` it returns the fields of the answer, or None.

    Files are read when the first question is asked, and again where `config.cache_dir` has changed since.

    Parameters
    ----------
    cc : (int, int)
    shipped : path
        The folder of the shipped files; the newest that is not newer than the device counts.

    Examples
    --------
    >>> from oxinp._runtime.tuned import Database
    >>> Database((9, 0)).path.name
    'sm_90.json'
    """

    def __init__(self, cc: tuple[int, int], shipped: Path = _SHIPPED) -> None:
        self.cc = cc
        self._shipped = shipped
        self._directory: str | None = None
        self._rows: list[tuple[Row, str]] = []
        self._tables: dict[tuple[Any, ...], tuple[list[float], list[_Place]]] = {}
        self._answers: dict[tuple[Any, ...], dict[str, Any] | None] = {}

    def __call__(self, question: Question) -> Mapping[str, Any] | None:
        family, own, layout, shape = question.family, question.key, question.layout, question.shape
        key = family, own, layout, shape
        if self._directory == config.cache_dir:
            known = self._tables.get((family, own, layout, len(shape)))
            if known is not None and not known[0]:  # of most families there are no rows
                return None
            try:
                return self._answers[key]
            except KeyError:
                pass
        found = self.find(question)
        if len(self._answers) >= MAX_REMEMBERED:
            self._answers.clear()
        # Where the planner was right, it is asked: it knows this problem's extents, the row only near ones.
        answer = self._answers[key] = None if found is None or found.row.is_default else found.row.answer
        return answer

    def knows(self, question: Question) -> bool:
        """Whether there are rows of a question's family and key, of as many extents: else no extents have an answer."""
        if self._directory != config.cache_dir:
            self._read()
        return bool(self._table(question)[1])

    @property
    def path(self) -> Path:
        """The user's file; relative where there is no folder for it."""
        return Path(config.cache_dir, "tuned", _name(self.cc))

    def rows(self) -> list[tuple[Row, str]]:
        """Return every row with the file it is from, the user's first."""
        if self._directory != config.cache_dir:
            self._read()
        return list(self._rows)

    def find(self, question: Question, max_distance: float = MAX_DISTANCE) -> Found | None:
        """Return the nearest row, None where none is near."""
        if self._directory != config.cache_dir:
            self._read()
        totals, places = self._table(question)
        here = [*map(math.log2, question.shape)]
        total = sum(here)
        nearest: tuple[Row, str] | None = None
        least = max_distance
        # A row whose extents multiply to something far away is no nearer.
        for i in range(bisect_left(totals, total - max_distance), bisect_right(totals, total + max_distance)):
            logs, distance, pair = places[i]
            for a, b in zip(logs, here, strict=True):
                distance += a - b if a > b else b - a
                if distance > least:
                    break
            else:
                if nearest is None or distance < least:
                    nearest, least = pair, distance
        return None if nearest is None else Found(nearest[0], least, nearest[1])

    def store(self, rows: Iterable[Row]) -> Path:
        """Put rows into the user's file, in the place of those for the same problems; returns its path.

        Raises
        ------
        OSError
            It cannot be written.
        """
        path = self.path
        if not config.cache_dir:
            raise FileNotFoundError("there is no folder for it: set config.cache_dir or OXINP_CACHE_DIR to one")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        trust.check(str(path.parent))
        with _locked(path):
            kept = {row.problem: row for row in _user_rows(path)}
            kept |= {row.problem: row for row in rows}
            temporary = path.with_name(f"{path.name}.{os.getpid()}.{get_ident()}.part")
            trust.create(str(temporary), dump(self.cc, kept.values()).encode())
            temporary.replace(path)
        self._directory = None
        config.renew()  # what nothing was known of may have an answer now
        return path

    def _table(self, question: Question) -> tuple[list[float], list[_Place]]:
        """The rows that could answer, by the product of their extents, and the logarithms of these products."""
        key = question.family, question.key, question.layout, len(question.shape)
        known = self._tables.get(key)
        if known is None:
            places = [
                ([*map(math.log2, row.shape)], LAYOUT_DISTANCE * (row.layout != question.layout), (row, source))
                for row, source in self._rows
                if (row.family, row.key, len(row.shape)) == (question.family, question.key, key[3])
            ]
            places.sort(key=lambda place: sum(place[0]))
            known = self._tables[key] = [sum(logs) for logs, _, _ in places], places
        return known

    def _read(self) -> None:
        self._tables.clear()
        self._answers.clear()
        path = self.path
        own = [(row, str(path)) for row in _user_rows(path)] if config.cache_dir else []
        mine = {row.problem for row, _ in own}
        shipped = _newest(self._shipped, self.cc)
        others = [] if shipped is None else load(shipped)
        self._rows = own + [(row, "shipped") for row in others if row.problem not in mine]
        self._directory = config.cache_dir


def load(path: Path) -> list[Row]:
    """Return the rows of a file.

    Raises
    ------
    OSError
        It cannot be read.
    ValueError
        It is damaged, or of another format; says what is wrong.
    """
    return _rows(path.read_text(encoding="utf-8"))


def _rows(text: str) -> list[Row]:
    content = json.loads(text)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f"it is not of format {FORMAT}")
    try:
        return [_row(fields) for fields in content["rows"]]
    except (KeyError, TypeError) as error:
        raise ValueError(f"a row of it is damaged: {error}") from None


def _row(fields: dict[str, Any]) -> Row:
    shape, answer = tuple(fields["shape"]), fields["answer"]
    if not all(type(extent) is int and extent >= 1 for extent in shape) or not isinstance(answer, dict):
        raise TypeError(f"shape {shape}, answer {answer}")
    return Row(
        str(fields["family"]),
        tuple(map(str, fields["key"])),
        tuple(map(str, fields["layout"])),
        shape,
        answer,
        float(fields["seconds"]),
        float(fields["default_seconds"]),
        str(fields["device"]),
    )


def dump(cc: tuple[int, int], rows: Iterable[Row]) -> str:
    """Return the text of a file, one line per row, in an order that does not depend on theirs."""
    lines = ",\n".join(json.dumps(row._asdict()) for row in sorted(rows, key=lambda row: row.problem))
    return f'{{"format": {FORMAT}, "cc": {list(cc)}, "rows": [\n{lines}\n]}}\n'


_databases: dict[tuple[int, int], Database] = {}


def database(cc: tuple[int, int]) -> Database:
    """Return the choices for a compute capability, the same object every time."""
    return _databases.setdefault(cc, Database(cc))


def _name(cc: tuple[int, int]) -> str:
    return f"sm_{cc[0]}{cc[1]}.json"


def _newest(folder: Path, cc: tuple[int, int]) -> Path | None:
    """The shipped file for the device, or for the newest one before it."""
    known = {int(path.stem.removeprefix("sm_")): path for path in folder.glob("sm_*.json")}
    fitting = [number for number in known if number <= 10 * cc[0] + cc[1]]
    return known[max(fitting)] if fitting else None


def _user_rows(path: Path) -> list[Row]:
    """The rows of the user's file; where it is damaged none, and a warning; where it may be another user's none."""
    try:
        return _rows(_read_own(path))
    except trust.Untrusted:
        return []
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        warnings.warn(
            f"the tuned choices in {path} are not used: {error}; remove the file, or run `python -m oxinp tune` again, "
            "which replaces it",
            TuningWarning,
            stacklevel=2,
        )
        return []


def _read_own(path: Path) -> str:
    trust.check(str(path.parent))
    return trust.read(str(path)).decode()


def ignored() -> list[str]:
    """Return a sentence for each file of the user's that is not used because others may have written it."""
    told = []
    for path in sorted(Path(config.cache_dir, "tuned").glob("sm_*.json")) if config.cache_dir else ():
        try:
            _read_own(path)
        except trust.Untrusted as error:
            remedy = "delete it, or set OXINP_CACHE_DIR to a directory that only you can write to"
            told.append(f"{path} is not used: {error.strerror}; {remedy}")
        except (OSError, ValueError):
            continue  # which is told of where it is used
    return told


@contextlib.contextmanager
def _locked(path: Path, sleep: Callable[[float], None] = time.sleep) -> Iterator[None]:
    """Keep other processes from writing a file meanwhile; one that died while it wrote is not waited for."""
    lock = path.with_name(path.name + ".lock")
    while True:
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            break
        except FileExistsError:
            with contextlib.suppress(FileNotFoundError):
                if time.time() - lock.stat().st_mtime > _LOCK_SECONDS:
                    lock.unlink()
            sleep(0.02)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
