"""Forked children: locks are free there, whoever held them in the parent, and hooks say what is out of reach.

A fork copies the calling thread alone. A lock that another thread held would be held for ever in the child, so each
lock that an operation on the host may ask for is entered here. What those threads were in the middle of is half done
in the child; it concerns the device, which no child can use (`select`), or elements that were being written.
"""

from __future__ import annotations

import os
from typing import Any, TypeVar
from weakref import WeakSet

from oxinp._runtime import hooks

__all__ = ["free_in_children"]

_Lock = TypeVar("_Lock")

_locks: WeakSet[Any] = WeakSet()


def free_in_children(lock: _Lock) -> _Lock:
    """Return a lock, which from now on nobody holds in a child that has just been forked."""
    _locks.add(lock)
    return lock


def _begin_child() -> None:
    for lock in _locks:
        lock._at_fork_reinit()  # as the locks of `threading` and `logging` are freed
    for hook in tuple(hooks.in_forked_child):
        hook()


def _prepare() -> None:
    for hook in tuple(hooks.before_fork):
        hook()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_prepare, after_in_child=_begin_child)
