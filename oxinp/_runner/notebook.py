"""Notebooks and IPython: ``%load_ext oxinp``, or `install`, binds `numpy` to ours in cells; ``%%oxinp.profile``."""

from __future__ import annotations

import sys
from pathlib import Path
from traceback import walk_tb
from types import ModuleType, TracebackType
from typing import Any

from oxinp._runner import bindings, finder, program, worker
from oxinp._runner.profile import Profile
from oxinp._runner.profile_report import as_table

__all__ = ["install", "load_ipython_extension"]

MAGIC = "oxinp.profile"


def install() -> None:
    """Bind `numpy` and `scipy` to oxinp in this notebook, or IPython session, as ``%load_ext oxinp`` does.

    What cells, and modules that are imported from the notebook's folder, import from now on is ours. Installed
    libraries keep NumPy. Beside it there is ``%%oxinp.profile``, which says what each line of a cell cost.

    Raises
    ------
    RuntimeError
        This is no notebook.

    Notes
    -----
    A cell that imported NumPy before has to be run again: names that still mean NumPy are listed.

    Examples
    --------
    >>> import oxinp
    >>> oxinp.install()
    Traceback (most recent call last):
    RuntimeError: there is no notebook here to bind numpy in: run a program with `python -m oxinp program.py`...
    """
    ipython: Any = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is None:
        raise RuntimeError(
            "there is no notebook here to bind numpy in: run a program with `python -m oxinp program.py`, or write "
            "`import oxinp as np`"
        )
    load_ipython_extension(shell)


def load_ipython_extension(shell: Any) -> None:
    """Do what ``%load_ext oxinp`` says.

    Parameters
    ----------
    shell : IPython.core.interactiveshell.InteractiveShell
    """
    if finder.root() is None:  # else it runs under ``python -m oxinp``
        finder.install(Path.cwd())
        worker.install({})
    shell.register_magic_function(_Magic(shell), "line_cell", MAGIC)
    if not shell.custom_exceptions:  # else the notebook shows them in its own way
        shell.set_custom_exc((Exception,), _show)
    theirs = [name for name, value in shell.user_ns.items() if _is_theirs(value) and not name.startswith("_")]
    if theirs:
        names = f"{', '.join(theirs)} still {'means' if len(theirs) == 1 else 'mean'}"
        sys.stderr.write(f"oxinp: {names} what was imported before: run the cells with these imports again\n")


def _show(
    shell: Any,
    kind: type[BaseException],
    error: BaseException,
    traceback: TracebackType | None,
    tb_offset: int | None = None,
) -> None:
    """Show an exception of a cell without our frames, as the runner does; see `InteractiveShell.set_custom_exc`."""
    frames = [frame for frame, _ in walk_tb(traceback)]
    has_run = any(finder.is_users_file(frame.f_code.co_filename) for frame in frames)  # else the cell is no Python
    shown = kind, error, program.cut(error, traceback)
    shell.showtraceback(shown, tb_offset=tb_offset, running_compiled_code=has_run)


def _is_theirs(value: Any) -> bool:
    return isinstance(value, ModuleType) and bindings.is_bound(value.__name__)


class _Magic:
    """``%%oxinp.profile``, or ``%oxinp.profile statement``: run it and say what each line cost.

    Parameters
    ----------
    shell : IPython.core.interactiveshell.InteractiveShell
    """

    __name__ = "profile"

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    def __call__(self, line: str, cell: str | None = None) -> None:
        """Run a cell, or a line, under a profile."""
        profile = Profile()
        profile.start()
        try:
            self._shell.run_cell(line if cell is None else cell)
        finally:
            profile.stop()
        sys.stdout.flush()
        sys.stderr.write(as_table(profile))
