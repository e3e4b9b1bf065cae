"""Compiled kernels on disk, shared by all processes of a user.

One file per kernel, named by the BLAKE2b of what the machine code depends on: a header with a digest, then the code.
Files appear whole, by renaming a temporary one, and are never changed; so any number of processes may read, write and
evict at once, and whoever comes second replaces a file with its equal. What does not match its digest is deleted and
compiled again. What others may have written (`trust`) is not there.

A cache that cannot be used costs time, never the program: nothing here raises or warns, `CubinCache.trouble` says why.
"""

from __future__ import annotations

import importlib
import os
import time
from threading import get_ident
from typing import TYPE_CHECKING, Any

from oxinp._runtime import trust

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["CubinCache", "cubin_key"]

_MAGIC = b"oxinp cubin 2\n\0\0"
"""First bytes of a file; the number is the version of the format, and part of every key."""

_DIGEST_NBYTES = 32
_SUFFIX = ".cubin"
_TEMPORARY_SUFFIX = ".part"
_STORES_PER_CHECK = 64
"""The size of the directory is checked at a process's first store and then once per this many."""

_FRESH_SECONDS = 3600
"""A file used within this time need not be marked as used again; a temporary file older than it has lost its writer."""


def cubin_key(ptx: str, driver_version: int, cc: tuple[int, int]) -> str:
    """Return the name under which a kernel's machine code is kept.

    Parameters
    ----------
    ptx : str
        Module text.
    driver_version : int
        Of the driver that compiles: another one may compile better, or right.
    cc : (int, int)
        Compute capability compiled for.

    Returns
    -------
    str
        64 hexadecimal digits.
    """
    digest = _hash(_MAGIC)
    digest.update(f"driver {driver_version} cc {cc[0]}.{cc[1]}\n".encode())
    digest.update(ptx.encode())
    text: str = digest.hexdigest()
    return text


def _hash(content: bytes) -> Any:
    """Begin a hash. `hashlib` itself takes some milliseconds to import, since it loads OpenSSL first."""
    try:
        module = importlib.import_module("_blake2")
    except ImportError:
        module = importlib.import_module("hashlib")
    return module.blake2b(content, digest_size=_DIGEST_NBYTES)


class CubinCache:
    """A directory of compiled kernels, bounded in size; the least recently used go first.

    Parameters
    ----------
    directory : str
        Made when first written to. Empty: no cache.
    limit_nbytes : int
        Size at which old files are removed.

    Attributes
    ----------
    directory : str
        As given.
    trouble : str or None
        Why kernels are not kept, cause and remedy, once that is known.

    Examples
    --------
    >>> import tempfile
    >>> from oxinp._runtime.cubins import CubinCache, cubin_key
    >>> key = cubin_key(".version 8.0", 13000, (9, 0))
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     cache = CubinCache(directory)
    ...     cache.store(key, b"machine code")
    ...     cache.load(key)
    b'machine code'
    """

    def __init__(self, directory: str, limit_nbytes: int = 256 << 20) -> None:
        self.directory = directory
        self.trouble: str | None = None
        self._limit_nbytes = limit_nbytes
        self._num_stores = 0
        self._folder = os.path.join(directory, "cubins")
        self._is_checked = False
        if not directory:
            self.trouble = "there is no directory for compiled kernels: set config.cache_dir or OXINP_CACHE_DIR to one"

    def load(self, key: str) -> bytes | None:
        """Return the machine code kept under a key, or None."""
        if not self.directory:
            return None
        path = self._path(key)
        try:
            self._check()
            content = trust.read(path)
        except FileNotFoundError:
            return None
        except trust.Untrusted as error:
            if error.filename == self._folder:
                self._note(error)
            return None
        except OSError as error:
            self._note(error)
            return None
        start = len(_MAGIC) + _DIGEST_NBYTES
        cubin = content[start:]
        if content[:start] != _MAGIC + _hash(cubin).digest():
            self.discard(key)
            return None
        self._mark_used(path)
        return cubin

    def store(self, key: str, cubin: bytes) -> None:
        """Keep machine code under a key."""
        if self.trouble is not None:  # once is enough: the next attempt would fail the same way and cost time
            return
        path = self._path(key)
        temporary = os.path.join(self._folder, f"{key}.{os.getpid()}.{get_ident()}{_TEMPORARY_SUFFIX}")
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            self._check()
            trust.create(temporary, _MAGIC + _hash(cubin).digest() + cubin)
            os.replace(temporary, path)
        except trust.Untrusted as error:
            self._note(error)
            return
        except OSError as error:
            _unlink(temporary)
            # Windows refuses to replace a file that another process is reading: then that file is the same kernel.
            if not (isinstance(error, PermissionError) and os.path.exists(path)):
                self._note(error)
            return
        if self._num_stores % _STORES_PER_CHECK == 0:
            self._evict()
        self._num_stores += 1

    def discard(self, key: str) -> None:
        """Forget what is kept under a key: it turned out to be unusable."""
        _unlink(self._path(key))

    def num_ignored(self) -> int:
        """Return how many kernels are not loaded because others may have written them."""
        return sum(not _is_trusted(path) for _, _, path in self._files())

    def _path(self, key: str) -> str:
        return os.path.join(self._folder, key + _SUFFIX)

    def _check(self) -> None:
        """Raise if others may put files into the folder, or if there is none; asked until it is there."""
        if not self._is_checked:
            trust.check(self._folder)
            self._is_checked = True

    def _note(self, error: OSError) -> None:
        if isinstance(error, trust.Untrusted):
            self.trouble = (
                f"compiled kernels are neither loaded from {self._folder} nor kept there: {error.strerror}; set "
                "config.cache_dir or OXINP_CACHE_DIR to a directory that only you can write to"
            )
            return
        self.trouble = (
            f"compiled kernels are not kept in {self.directory}: {error.strerror or error}; make it writable, or set "
            "config.cache_dir or OXINP_CACHE_DIR to a directory that is"
        )

    @staticmethod
    def _mark_used(path: str) -> None:
        try:
            if time.time() - os.stat(path).st_mtime > _FRESH_SECONDS:
                os.utime(path)
        except OSError:
            return  # evicted meanwhile, or a cache somebody else owns: it is only read

    def _evict(self) -> None:
        """Bring the directory to nine tenths of its limit if it is above, and remove abandoned temporary files."""
        files = sorted(self._files(), reverse=True)
        total = sum(nbytes for _, nbytes, _ in files)
        if total <= self._limit_nbytes:
            return
        while files and total > self._limit_nbytes * 9 // 10:
            _, nbytes, path = files.pop()
            _unlink(path)
            total -= nbytes

    def _files(self) -> Iterator[tuple[float, int, str]]:
        """Yield time of use, size and path of every kept kernel."""
        abandoned = time.time() - _FRESH_SECONDS
        try:
            with os.scandir(self._folder) as entries:
                for entry in entries:
                    try:
                        status = entry.stat()
                    except OSError:
                        continue  # another process has just removed it
                    if entry.name.endswith(_SUFFIX):
                        yield status.st_mtime, status.st_size, entry.path
                    elif entry.name.endswith(_TEMPORARY_SUFFIX) and status.st_mtime < abandoned:
                        _unlink(entry.path)
        except OSError as error:
            self._note(error)


def _is_trusted(path: str) -> bool:
    try:
        trust.check(path)
    except OSError as error:
        return not isinstance(error, trust.Untrusted)  # it may be gone
    return True


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return  # gone already, or not ours to remove
