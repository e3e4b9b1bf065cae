"""Long files of arrays, read to the device and written from it in chunks: they never lie whole in the host's memory.

A thread reads or writes the next chunk while the last one is on its way. At a terminal a line says how far it is.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from oxinp._api.fronts import implements
from oxinp._api.manipulation import concatenate
from oxinp._core.host.fallback import call
from oxinp._core.lazy import placement
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.handle import Handle, fetch
from oxinp._core.lazy.record import is_hosted
from oxinp._core.lazy.results import types
from oxinp._core.lazy.views import view
from oxinp._core.manipulation.copy import copy, own
from oxinp._core.manipulation.shape import ravel
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.ops import creation
from oxinp._core.ops.index import getitem
from oxinp._terminal import Progress

MIN_NBYTES = 64 << 20  # of a file that is read in chunks, and of an array that is written so
CHUNK_NBYTES = 32 << 20
ROWS = 1 << 17  # of a text, per chunk
MAGIC = np.lib.format.MAGIC_PREFIX


class Archive(Mapping[str, Any]):
    """Arrays in an ``.npz`` file, by name; see `numpy.lib.npyio.NpzFile`.

    Parameters
    ----------
    file : numpy.lib.npyio.NpzFile
    """

    def __init__(self, file: Any) -> None:
        self._file = file

    @property
    def __class__(self) -> type:  # type: ignore[override] # by which programs know what to close
        return type(self._file)

    def __getitem__(self, key: str) -> Any:
        array = self._file[key]
        return types.from_host(array) if type(array) is np.ndarray else array

    def __iter__(self) -> Iterator[str]:
        return iter(self._file)

    def __len__(self) -> int:
        return len(self._file)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def __repr__(self) -> str:
        return repr(self._file)


@implements("load", is_hosted=False)
def load(
    file: Any,
    mmap_mode: Any = None,
    allow_pickle: Any = False,
    fix_imports: Any = True,
    encoding: Any = "ASCII",
    *,
    max_header_size: Any = 10000,
) -> Any:
    """See `numpy.load`."""
    if mmap_mode is None:
        with contextlib.suppress(Unsupported):
            return _loaded(file, max_header_size)
    given = {"allow_pickle": allow_pickle, "fix_imports": fix_imports, "encoding": encoding}
    found = call(np.load, (file, mmap_mode), {**given, "max_header_size": max_header_size}, name="load")
    return Archive(found) if isinstance(found, np.lib.npyio.NpzFile) else found


def _loaded(file: Any, max_header_size: int) -> Any:
    """Return the array of a long ``.npy`` file on the device.

    Parameters
    ----------
    file : object
        As `numpy.load` takes it.
    max_header_size : int

    Raises
    ------
    Unsupported
        Anything that is no path of such a file, for which NumPy reads it or says what is wrong.
    """
    if not isinstance(file, str | os.PathLike) or not placement.starts_on_device(MIN_NBYTES):
        raise Unsupported("a file that is open, or no device")
    with _opened(file) as opened:
        size = os.fstat(opened.fileno()).st_size
        if size < MIN_NBYTES or opened.peek(len(MAGIC))[: len(MAGIC)] != MAGIC:
            raise Unsupported("a short file, or another format")
        shape, is_fortran, dtype = _header(opened, max_header_size)
        nbytes = int(np.prod(shape, dtype=object)) * dtype.itemsize
        if dtype not in DEVICE_TYPES or not dtype.isnative or not MIN_NBYTES <= nbytes <= size - opened.tell():
            raise Unsupported("a dtype that stays on the host, or what NumPy refuses")
        with Progress(f"load {os.path.basename(os.fspath(file))}", nbytes) as progress:  # noqa: PTH119 - may be bytes
            chunks = progress.counted(_read(opened, nbytes))
            made = creation.from_chunks(dtype, shape[::-1] if is_fortran else shape, chunks)
    return own(view(made, lambda seen: seen.T)) if is_fortran else made


def _opened(file: Any) -> io.BufferedReader:
    try:
        return open(file, "rb")  # noqa: PTH123
    except OSError as error:
        raise Unsupported("what NumPy says") from error


def _header(opened: Any, max_header_size: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    try:
        read: Any = readers[np.lib.format.read_magic(opened)]
        found: tuple[tuple[int, ...], bool, np.dtype[Any]] = read(opened, max_header_size)
    except (KeyError, ValueError) as error:
        raise Unsupported("what NumPy reads or refuses") from error
    return found


def _read(opened: Any, nbytes: int) -> Iterator[np.ndarray[Any, Any]]:
    """Yield the bytes of a file, in two buffers in turn: one is read while the other is used."""
    parts = [min(CHUNK_NBYTES, nbytes - begin) for begin in range(0, nbytes, CHUNK_NBYTES)]
    buffers = [np.empty(parts[0], np.uint8) for _ in range(2)]
    with _Background() as reading:
        reading.start(_fill, opened, buffers[0])
        for number, size in enumerate(parts, 1):
            reading.join()
            if number < len(parts):
                reading.start(_fill, opened, buffers[number % 2][: parts[number]])
            yield buffers[(number - 1) % 2][:size]


def _fill(opened: Any, part: np.ndarray[Any, Any]) -> None:
    if opened.readinto(part.data) != part.size:
        raise OSError("the file has become shorter while it was read")


class _Background:
    """A thread that does one thing at a time; what it raises is raised where that is waited for."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._errors: list[BaseException] = []

    def __enter__(self) -> _Background:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        if kind is None:
            self.join()
        elif self._thread is not None:
            self._thread.join()

    def start(self, function: Callable[..., Any], *args: Any) -> None:
        """Have a function called; wait for the one before."""
        self.join()

        def run() -> None:
            try:
                function(*args)
            except BaseException as error:  # noqa: BLE001 - which `join` raises
                self._errors.append(error)

        self._thread = threading.Thread(target=run)
        self._thread.start()

    def join(self) -> None:
        """Wait until what has been started is done."""
        if self._thread is not None:
            self._thread.join()
        if self._errors:
            raise self._errors.pop()


@implements("save", is_hosted=False)
def save(file: Any, arr: Any, allow_pickle: bool = True, fix_imports: Any = np._NoValue) -> None:
    """See `numpy.save`."""
    del allow_pickle
    layout = arr._layout if isinstance(arr, Handle) else None
    if layout is None or fix_imports is not np._NoValue or is_hosted([arr]) or layout.nbytes < MIN_NBYTES:
        raise Unsupported("few elements, or elements on the host")
    if layout.dtype not in DEVICE_TYPES or not isinstance(file, str | os.PathLike):
        raise Unsupported("a dtype that stays on the host, or a file that is open")
    name = os.fspath(file)
    if isinstance(name, bytes):
        raise Unsupported("a path of bytes")
    turned = view(arr, lambda seen: seen.T)
    is_fortran = turned._layout.is_contiguous and not layout.is_contiguous
    array = turned if is_fortran else arr
    elements = ravel(array if array._layout.is_contiguous else copy(array))
    header = {
        "descr": np.lib.format.dtype_to_descr(layout.dtype),
        "fortran_order": is_fortran,
        "shape": layout.shape,
    }
    step = CHUNK_NBYTES // layout.dtype.itemsize
    with (
        open(name if name.endswith(".npy") else name + ".npy", "wb") as opened,  # noqa: PTH123
        Progress(f"save {os.path.basename(name)}", layout.nbytes) as progress,  # noqa: PTH119
        _Background() as writing,
    ):
        np.lib.format.write_array_header_1_0(opened, header)
        for begin in range(0, layout.size, step):
            part = fetch(getitem(elements, slice(begin, begin + step)))
            writing.start(opened.write, part.data)
            progress.advance(part.nbytes)


@implements("loadtxt", is_hosted=False)
def loadtxt(
    fname: Any,
    dtype: Any = float,
    comments: Any = "#",
    delimiter: Any = None,
    converters: Any = None,
    skiprows: Any = 0,
    usecols: Any = None,
    unpack: Any = False,
    ndmin: Any = 0,
    encoding: Any = None,
    max_rows: Any = None,
    *,
    quotechar: Any = None,
    like: Any = None,
) -> Any:
    """See `numpy.loadtxt`: of a long file some lines at a time, each part on its way to the device at once."""
    if max_rows is not None or like is not None or quotechar is not None or converters is not None:
        raise Unsupported("what is read at once")
    wanted = np.dtype(dtype)
    if not isinstance(fname, str | os.PathLike) or ndmin not in (0, 1, 2) or encoding == "bytes":
        raise Unsupported("a file that is open, or what NumPy converts or refuses")
    if wanted not in DEVICE_TYPES or not placement.starts_on_device(MIN_NBYTES):
        raise Unsupported("a dtype that stays on the host, or no device")
    options = {"comments": comments, "delimiter": delimiter, "usecols": usecols}
    with _opened(fname) as opened:
        if os.fstat(opened.fileno()).st_size < MIN_NBYTES or opened.peek(4)[:2] in _COMPRESSED:
            raise Unsupported("a short file, or a compressed one")
        try:
            parts = list(_texts(opened, encoding, int(skiprows), {"dtype": wanted, "ndmin": 2, **options}))
            made = concatenate(parts)
        except (ValueError, TypeError) as error:
            raise Unsupported("what NumPy refuses, in words that count lines from the start") from error
    if ndmin < 2 and made._layout.shape[1] == 1:
        made = own(view(made, lambda seen: seen.reshape(-1)))
    return own(view(made, lambda seen: seen.T)) if unpack else made


_COMPRESSED = (b"\x1f\x8b", b"BZ", b"\xfd7")  # how files of gzip, bz2 and xz begin


def _texts(opened: Any, encoding: Any, skiprows: int, options: dict[str, Any]) -> Iterator[Any]:
    """Yield the rows of a text, some lines at a time, on their way to the device."""
    size, seen = os.fstat(opened.fileno()).st_size, 0
    with (
        io.TextIOWrapper(opened, encoding) as lines,
        Progress(f"loadtxt {os.path.basename(opened.name)}", size) as progress,  # noqa: PTH119
    ):
        for first in lines:
            part = itertools.chain([first], itertools.islice(lines, ROWS + skiprows - 1))
            with warnings.catch_warnings():  # of lines without data
                warnings.simplefilter("ignore", UserWarning)
                rows = np.loadtxt(part, skiprows=skiprows, **options)
            if rows.size:
                yield creation.asarray(rows)
            skiprows = 0
            progress.advance(opened.tell() - seen)
            seen = opened.tell()
