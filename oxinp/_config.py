"""Every setting, once: a default, one environment variable and a check each.

The table `SETTINGS` is the only list of them. Values are checked when they are set, so the places that read them (some
on hot paths) need no checks: a setting is a plain slot.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import sys
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["SETTINGS", "Config", "Setting", "before_change", "config", "mistake", "unknown"]

before_change: dict[str, list[Callable[[Any], object]]] = {}
"""What is called with the new value of a setting before it is in force; what that raises leaves the old one."""

_versions = count(1)
_OF_TESTS = ("OXINP_EVERY_SPEC", "OXINP_FUZZ_SEED", "OXINP_REQUIRE_GPU")  # variables that the test suite reads

_TRUTH = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


class Setting(NamedTuple):
    """One row of the table of settings.

    Attributes
    ----------
    name : str
        Attribute of `config`.
    default : Callable
        Gives the value where neither the program nor the environment does.
    check : Callable
        Takes a value, or the text of an environment variable, to the value to store; raises ValueError or TypeError if
        it is not legal.
    legal : str
        The legal values, in words.
    meaning : str
        What the setting does, for the documentation.
    """

    name: str
    default: Callable[[], Any]
    check: Callable[[Any], Any]
    legal: str
    meaning: str

    @property
    def variable(self) -> str:
        """Name of the environment variable that gives the initial value."""
        return f"OXINP_{self.name.upper()}"


def _one_of(*names: str) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if value not in names:
            raise ValueError
        return str(value)

    return check


def _threshold(value: Any) -> int | float:
    if isinstance(value, str):
        value = math.inf if value.strip().lower() == "inf" else int(value)
    if value == math.inf:
        return math.inf
    if isinstance(value, bool) or int(value) != value or value < 0:
        raise ValueError
    return int(value)


def _nbytes(value: Any) -> int:
    number = _threshold(value)
    if number == math.inf:
        raise ValueError
    return int(number)


def _share(value: Any) -> float:
    share = float(value)
    if isinstance(value, bool) or not 0 <= share <= 1:
        raise ValueError
    return share


def _truth(value: Any) -> bool:
    if isinstance(value, str):
        value = _TRUTH.get(value.strip().lower())
    if not isinstance(value, bool):
        raise TypeError
    return value


def _directory(value: Any) -> str:
    text = os.fsdecode(os.fspath(value))
    if "\0" in text:
        raise ValueError
    return os.path.abspath(os.path.expanduser(text)) if text else ""  # noqa: PTH100, PTH111 - pathlib has no "" (off)


def default_cache_dir(platform: str = sys.platform) -> str:
    """Return the platform's directory for what can be made again, or "" where the user has none.

    Parameters
    ----------
    platform : str
        As `sys.platform` names it.

    Returns
    -------
    str
        An absolute path; it need not exist.
    """
    if platform == "win32":
        base = os.environ.get("LOCALAPPDATA", "")
    elif platform == "darwin":
        base = os.path.expanduser("~/Library/Caches")  # noqa: PTH111 - raises nothing where there is no home
    else:
        base = os.environ.get("XDG_CACHE_HOME", "")
        if not os.path.isabs(base):  # noqa: PTH117 - the XDG specification: a relative path is ignored
            base = os.path.expanduser("~/.cache")  # noqa: PTH111
    # No home directory leaves a "~" or nothing: then there is no cache rather than one in the current directory.
    return os.path.join(base, "oxinp") if os.path.isabs(base) else ""  # noqa: PTH117, PTH118


SETTINGS: tuple[Setting, ...] = (
    Setting(
        name="backend",
        default=lambda: "auto",
        check=_one_of("auto", "cuda", "emulator", "host"),
        legal="auto, cuda, emulator, host",
        meaning="where large arrays live: auto takes the GPU if there is one and the host if not",
    ),
    Setting(
        name="offload_threshold",
        default=lambda: 65536,
        check=_threshold,
        legal="a whole number of bytes from 0 up, or inf",
        meaning="operations on host arrays of at least this many bytes run on the device",
    ),
    Setting(
        name="adaptive_placement",
        default=lambda: True,
        check=_truth,
        legal="True or False (in the environment also 1, 0, yes, no, on, off)",
        meaning="let a program that works on arrays of up to 32 times offload_threshold row by row, or waits for each "
        "result, have them on the host",
    ),
    Setting(
        name="machine_code",
        default=lambda: True,
        check=_truth,
        legal="True or False (in the environment also 1, 0, yes, no, on, off)",
        meaning="let operators and elements of small arrays on the host take short ways in the processor's own code, "
        "where the system allows that (Linux on x86-64, Python 3.11 to 3.13)",
    ),
    Setting(
        name="fallback",
        default=lambda: "silent",
        check=_one_of("silent", "warn", "error"),
        legal="silent, warn, error",
        meaning="what happens when NumPy has to do the work on the host: it is counted, also warned about, or an error",
    ),
    Setting(
        name="synchronous",
        default=lambda: False,
        check=_truth,
        legal="True or False (in the environment also 1, 0, yes, no, on, off)",
        meaning="wait for every kernel, so that errors are raised by the line that caused them",
    ),
    Setting(
        name="floating_point_errors",
        default=lambda: "explicit",
        check=_one_of("explicit", "numpy", "ignore"),
        legal="explicit, numpy, ignore",
        meaning="which floating-point errors of device work are told of: numpy follows numpy.errstate, explicit does "
        "so but for 'warn', which is NumPy's default, and ignore checks none",
    ),
    Setting(
        name="matmul",
        default=lambda: "auto",
        check=_one_of("auto", "native", "tf32"),
        legal="auto, native, tf32",
        meaning="how matrices are multiplied: auto lets faster units stand in where the result is as accurate, native "
        "has every product made in the operands' own type, tf32 is auto but that float32 is rounded to 11 bits first",
    ),
    Setting(
        name="matmul_workspace",
        default=lambda: 4 << 30,
        check=_nbytes,
        legal="a whole number of bytes from 0 up",
        meaning="device memory that a product of large float64 or complex128 matrices may use on its way, beside the "
        "result: less of it has them made part by part, and where that is slower, in their own type",
    ),
    Setting(
        name="pending_share",
        default=lambda: 0.25,
        check=_share,
        legal="a number from 0 to 1",
        meaning="share of the device's memory, but for what other arrays use, that pending work may keep for what it "
        "reads: beyond, it is done before more memory is taken",
    ),
    Setting(
        name="memory_pool",
        default=lambda: "arena",
        check=_one_of("arena", "blocks"),
        legal="arena, blocks",
        meaning="what arrays lie in: pieces of one growing range, or a driver allocation each, for memory checkers",
    ),
    Setting(
        name="host_memory_kept",
        default=lambda: 512 << 20,
        check=_nbytes,
        legal="a whole number of bytes from 0 up",
        meaning="host memory that stays with the process once arrays on the host are freed, so that the next ones need "
        "no new pages: of small ones where glibc obeys (0 leaves that to it, and so does a limit in its environment "
        "variables), and of large ones that were fetched from the device",
    ),
    Setting(
        name="cache_dir",
        default=default_cache_dir,
        check=_directory,
        legal="a path, or the empty string for no cache on disk",
        meaning="directory of the compiled kernels kept between processes",
    ),
)

_ROWS = {row.name: row for row in SETTINGS}


class Config:
    """The settings in force, as attributes.

    Parameters
    ----------
    environment : mapping of str to str, optional
        Where the initial values are looked for; the process's environment if not given.

    Attributes
    ----------
    version : int
        Grows with every assignment; caches of decisions that depend on settings keep it in their key.

    Raises
    ------
    ValueError
        A variable, or later an assigned value, is not legal; the message names the legal ones.
    AttributeError
        There is no such setting.

    Examples
    --------
    >>> from oxinp._config import Config
    >>> config = Config({"OXINP_FALLBACK": "error"})
    >>> config.fallback, config.offload_threshold
    ('error', 65536)
    >>> config.backend = "gpu"
    Traceback (most recent call last):
    ValueError: backend cannot be 'gpu'; legal values: auto, cuda, emulator, host
    """

    __slots__ = {  # what `help` says of them
        **{row.name: f"{row.meaning}.\n\nLegal: {row.legal}; from {row.variable}." for row in SETTINGS},
        "version": "Grows with every assignment.",
    }

    adaptive_placement: bool
    backend: str
    cache_dir: str
    fallback: str
    host_memory_kept: int
    machine_code: bool
    floating_point_errors: str
    matmul: str
    matmul_workspace: int
    memory_pool: str
    offload_threshold: int | float
    pending_share: float
    synchronous: bool
    version: int

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        environment = os.environ if environment is None else environment
        object.__setattr__(self, "version", 0)
        for row in SETTINGS:
            text = environment.get(row.variable)
            value = row.default() if text is None else _checked(row, text, f"the environment variable {row.variable}")
            object.__setattr__(self, row.name, value)

    if not TYPE_CHECKING:  # to type checkers, the settings are all the attributes there are

        def __setattr__(self, name: str, value: Any) -> None:
            row = _ROWS.get(name)
            if row is None:
                known = ", ".join(_ROWS)
                raise AttributeError(f"there is no setting {name!r}; there are {known}")
            value = _checked(row, value, name)
            for prepare in before_change.get(name, ()):
                prepare(value)
            object.__setattr__(self, name, value)
            self.renew()

    def renew(self) -> None:
        """Let every decision that was kept under the present `version` be taken anew."""
        object.__setattr__(self, "version", next(_versions))  # threads may at the same time

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a setting cannot be deleted: {name}")

    def __repr__(self) -> str:
        return "\n".join(f"{name} = {getattr(self, name)!r}" for name in _ROWS)

    @contextlib.contextmanager
    def override(self, **settings: Any) -> Iterator[None]:
        """Give settings other values inside a `with` block, for the whole process.

        Parameters
        ----------
        **settings
            Values by name.
        """
        before = {name: getattr(self, name) for name in settings}
        try:
            for name, value in settings.items():
                setattr(self, name, value)
            yield
        finally:
            for name, value in before.items():
                setattr(self, name, value)


def _checked(row: Setting, value: Any, subject: str) -> Any:
    try:
        return row.check(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{subject} cannot be {value!r}; legal values: {row.legal}") from None


def unknown(environment: os._Environ[str] | dict[str, str] = os.environ) -> list[str]:
    """Return a sentence for each ``OXINP_*`` variable of an environment that no setting has.

    Examples
    --------
    >>> from oxinp._config import unknown
    >>> unknown({"OXINP_BACKENT": "cuda"})
    ['there is no setting for the environment variable OXINP_BACKENT: did you mean OXINP_BACKEND?']
    """
    known = [row.variable for row in SETTINGS]
    told = []
    for name in sorted(environment):
        if not name.startswith("OXINP_") or name in known or name in _OF_TESTS:
            continue
        near = importlib.import_module("difflib").get_close_matches(name, known, 1, 0.8)
        advice = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        told.append(f"there is no setting for the environment variable {name}: {advice}")
    return told


def _read(environment: os._Environ[str]) -> tuple[Config, ValueError | None]:
    """Return the settings; where a variable is not legal the defaults, and the error for the package to raise."""
    try:
        return Config(environment), None
    except ValueError as error:
        return Config({}), error


config, mistake = _read(os.environ)
