"""Worker processes of `multiprocessing` and `concurrent.futures`: they import the program bound as it is here.

A worker that is not forked gets from its parent, pickled, what it needs to become the program; among that is now a
`Binding`, which binds as it is unpickled, before the program is imported. Forked workers have everything from their
parent.
"""

from __future__ import annotations

import multiprocessing
from multiprocessing import spawn
from pathlib import Path
from typing import Any

from oxinp._config import config
from oxinp._runner import dynamic, finder

__all__ = ["install"]

_prepare = spawn.get_preparation_data


class Binding:
    """What a worker has to know of the runner's options.

    Parameters
    ----------
    root : Path
        The program's folder.
    settings : dict of str to str
        Those that options have set.
    """

    def __init__(self, root: Path, settings: dict[str, str]) -> None:
        self._what = str(root), settings

    def __reduce__(self) -> Any:
        return bind, self._what


def bind(root: str, settings: dict[str, str]) -> None:
    """Bind the modules under `root` in this process, and let its own workers do the same."""
    for name, value in settings.items():
        setattr(config, name, value)
    finder.install(Path(root))
    install(settings)


def install(settings: dict[str, str]) -> None:
    """Bind what is imported and executed while the program runs, in this process and in its workers.

    Parameters
    ----------
    settings : dict of str to str
        Those that options have set.
    """
    dynamic.install()

    def get_preparation_data(name: str) -> dict[str, Any]:
        root = finder.root()
        return {**({} if root is None else {"oxinp": Binding(root, settings)}), **_prepare(name)}

    spawn.get_preparation_data = get_preparation_data
    if "forkserver" in multiprocessing.get_all_start_methods():
        # Its server must not import the program before it is told how.
        multiprocessing.set_forkserver_preload([__name__])
