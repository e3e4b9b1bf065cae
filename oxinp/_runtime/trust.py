"""Which files of a cache may be used: those that nobody but their user, or the system's administrator, can write.

Compiled kernels are machine code, and tuned choices are what kernels are made by. Where another user owns such a file,
or may write to it or to its folder, it may hold anything: it is left alone, as if it were not there.
"""

from __future__ import annotations

import os
import stat

__all__ = ["Untrusted", "check", "create", "read"]

_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_ADMINISTRATOR = 0


class Untrusted(PermissionError):
    """Others may have written a file or a folder."""


def _check(status: os.stat_result, path: str) -> None:
    if not hasattr(os, "geteuid"):  # Windows, where the user's own folder is what others have no rights in
        if not _is_below(path, os.path.expanduser("~")):
            raise Untrusted(0, "it is outside of the user's own folder, where other users may write", path)
        return
    if status.st_uid not in (os.geteuid(), _ADMINISTRATOR):
        raise Untrusted(0, f"another user (number {status.st_uid}) owns it", path)
    if status.st_mode & _WRITABLE_BY_OTHERS:
        raise Untrusted(0, f"other users may write to it (mode {stat.S_IMODE(status.st_mode):o})", path)


def _is_below(path: str, folder: str) -> bool:
    path, folder = (os.path.normcase(os.path.realpath(each)) for each in (path, folder))
    return path.startswith(os.path.join(folder, ""))


def check(path: str) -> None:
    """Raise unless a file, or what is in a folder, is what this user put there.

    Raises
    ------
    Untrusted
        Others may have written it.
    OSError
        There is no such thing, or it cannot be looked at.
    """
    _check(os.stat(path), path)


def read(path: str) -> bytes:
    """Return what a file holds.

    Raises
    ------
    Untrusted
        Others may have written it.
    OSError
        It cannot be read.
    """
    with open(path, "rb") as file:
        _check(os.fstat(file.fileno()), path)  # of what was opened: the name may mean another file by now
        return file.read()


def create(path: str, content: bytes) -> None:
    """Write a new file that `read` takes, whatever the process's umask.

    Raises
    ------
    OSError
        It cannot be written, or is there already.
    """
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(content)
