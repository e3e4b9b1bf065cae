"""Code of texts that are expanded at import, kept beside Python's own bytecode: expanding and compiling take longer.

It is kept where, and as long as, the bytecode of the module would be that the texts are expanded by: a file in
``__pycache__``, valid for one version of Python and of that module, not written where Python writes no bytecode.
"""

from __future__ import annotations

import atexit
import contextlib
import marshal
import os
import sys
from importlib.util import MAGIC_NUMBER, cache_from_source
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

Key = tuple[str, str, bool]


class CodeCache:
    """What is kept for the texts that a module expands.

    Parameters
    ----------
    module : str
        The file of the module.
    """

    def __init__(self, module: str) -> None:
        self._path: str | None = None
        self._stamp: Any = None
        self._kept: dict[Key, tuple[str, bytes]] = {}
        self._used: dict[Key, tuple[str, bytes]] = {}
        with contextlib.suppress(OSError, NotImplementedError):  # no such file, or no bytecode
            state = os.stat(module)  # noqa: PTH116 - importing pathlib takes as long as some of the texts
            self._stamp = MAGIC_NUMBER, state.st_mtime_ns, state.st_size
            self._path = cache_from_source(module).removesuffix("pyc") + "texts"
            self._kept = self._read(self._path)

    def _read(self, path: str) -> dict[Key, tuple[str, bytes]]:
        try:
            with open(path, "rb") as file:  # noqa: PTH123
                stamp, kept = marshal.load(file)  # noqa: S302 - as Python's own, from where that is
        except (OSError, EOFError, ValueError, TypeError):  # none yet, or damaged
            return {}
        return kept if stamp == self._stamp else {}

    def code_of(self, name: str, text: str, *, may_warn: bool, expand: Callable[[], str]) -> tuple[str, CodeType]:
        """Return what a text is expanded to, and the code of that.

        Parameters
        ----------
        name : str
            Of the file that tracebacks name.
        text : str
        may_warn : bool
            Which of two ways it is expanded.
        expand : callable
            Returns the expanded text.
        """
        key = name, text, may_warn
        found = self._kept.get(key)
        if found is None:
            source = expand()
            code = compile(source, name, "exec")
            if not self._used.keys() - self._kept.keys():
                atexit.register(self.write)
            self._used[key] = source, marshal.dumps(code)
            return source, code
        self._used[key] = found
        source, dumped = found
        return source, marshal.loads(dumped)  # noqa: S302

    def write(self) -> None:
        """Keep what has been used since; nothing happens where that cannot be written."""
        if self._path is None or sys.dont_write_bytecode:
            return
        names = {name for name, _, _ in self._used}
        kept = {key: found for key, found in self._kept.items() if key[0] not in names} | self._used
        temporary = f"{self._path}.{os.getpid()}"
        with contextlib.suppress(OSError):
            with open(temporary, "wb") as file:  # noqa: PTH123
                marshal.dump((self._stamp, kept), file)
            os.replace(temporary, self._path)  # noqa: PTH105


__all__ = ["CodeCache"]
