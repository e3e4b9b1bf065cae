"""Registries: objects that are known as long as others hold them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, TypeVar
from weakref import ref

from oxinp._runtime.forking import free_in_children

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Registry"]

_Entry = TypeVar("_Entry")


class Registry(Generic[_Entry]):
    """Weakly held objects. Threads may go through them while one is added, which a `WeakSet` does not survive."""

    def __init__(self) -> None:
        self._references: tuple[ref[_Entry], ...] = ()
        self._adding = free_in_children(threading.RLock())

    def add(self, entry: _Entry) -> None:
        """Enter one."""
        with self._adding:
            self._references = (*(known for known in self._references if known() is not None), ref(entry))

    def clear(self) -> None:
        """Forget all."""
        self._references = ()

    def __iter__(self) -> Iterator[_Entry]:
        return iter([entry for known in self._references if (entry := known()) is not None])

    def __len__(self) -> int:
        return sum(1 for _ in self)
