"""Fourier transforms of arrays that the device's memory does not hold: in parts, from host memory to host memory.

Along each axis, parts of the array that have whole sequences go through the device one after the other. A sequence that
is too long for that is split, ``n = n1 * n2``: sequences of n1 elements that lie n2 apart, in parts of neighbouring
ones, times roots of unity, then rows of n2, whose results go n1 apart. Parts, their results and the workspace take at
most half of the device's memory; `oxinp.explain` reports one after the other.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from oxinp import _runtime
from oxinp._core.lazy import schedule
from oxinp._core.lazy.building import attempt
from oxinp._core.lazy.explain import REPORTS, note
from oxinp._core.lazy.handle import Handle, host_view
from oxinp._core.lazy.placement import device, device_of
from oxinp._core.lazy.results import wrap_host
from oxinp._core.ops.creation import asarray
from oxinp._core.ops.fft import FEWEST, transform
from oxinp._core.ops.fft_request import COMPLEX, HALF, MAX_LENGTH, Request, resolve, scale_of
from oxinp._terminal import Progress

MAX_SPLIT = MAX_LENGTH**2  # elements of a sequence that is two factors
SHARE = 2  # part of the device's memory that is used
NUM_LANES = 3  # parts at a time: one comes, one is computed, one goes
WORKSPACE = 5  # times the complex numbers of a part that transforms may take beside: convolutions of primes do
Array = np.ndarray[Any, Any]


class _Step(NamedTuple):
    """Transforms along one axis.

    Attributes
    ----------
    request : Request
        Of one axis.
    axis, length : int
    room : int
        Bytes that a part may take.
    """

    request: Request
    axis: int
    length: int
    room: int


def memory() -> int:
    """Return how many bytes the pool may have."""
    pool = device().pool
    return pool.stats().total_nbytes if pool.limit_nbytes is None else pool.limit_nbytes


def in_parts(x: Any, request: Request, *, is_overwritable: bool = False) -> Any:
    """Return the transform of an array that does not fit the device with its result; None where it does.

    The result lies on the host.

    Parameters
    ----------
    x : ndarray or numpy.ndarray
    request : Request
    is_overwritable : bool
        Its elements on the host may be overwritten by results of their dtype.

    Raises
    ------
    MemoryError
        A sequence is too long for the device, and of a length that is no product of two that are not.
    """
    backend = _runtime.current()
    nbytes = x._layout.nbytes if isinstance(x, Handle) else x.nbytes
    if backend is None or (request.lengths is None and 2 * nbytes < FEWEST and backend.pool.limit_nbytes is None):
        return None
    found = resolve(request, x.shape, x.dtype, MAX_SPLIT)
    needed, is_whole = nbytes + math.prod(found.shape) * found.dtype.itemsize, max(found.lengths) <= MAX_LENGTH
    if is_whole and needed < FEWEST and backend.pool.limit_nbytes is None:  # to ask the driver takes longer
        return None
    most = memory()
    if is_whole and needed <= most:
        return None
    kind, is_forward = request.kind
    others = [(axis, n, "fft" if is_forward else "ifft") for axis, n in zip(found.axes, found.lengths, strict=True)]
    last = (found.axes[-1], found.lengths[-1], request.name.rstrip("2n"))
    order = [*others[:-1], last] if kind == HALF else [last, *reversed(others[:-1])]
    given = host_view(x) if isinstance(x, Handle) else x
    for axis, n, name in order:
        own = Request(request.library, name, (n,), (axis,), request.norm)
        way = resolve(own, given.shape, given.dtype, MAX_SPLIT)
        is_alike = is_overwritable and (way.shape, way.dtype) == (given.shape, given.dtype) and given.flags.writeable
        made = given if is_alike else np.empty(way.shape, way.dtype)
        with _Lanes(own, given.nbytes) as lanes:
            _many(given, made, _Step(own, axis, n, most // SHARE // NUM_LANES), lanes)
            lanes.finish()
        given, is_overwritable = made, True
    return wrap_host(given)


def _needed(given: Array, made: Array) -> int:
    """The bytes that a part takes on the device."""
    complex_nbytes = np.result_type(made.dtype, np.complex64).itemsize
    size = max(given.size, made.size)
    return given.nbytes + made.nbytes + WORKSPACE * size * complex_nbytes


class _Lanes:
    """Threads with a stream each, on which parts take turns: one is computed while others come and go.

    Parameters
    ----------
    request : Request
    nbytes : int
        Of all parts, of whose progress is told.
    """

    def __init__(self, request: Request, nbytes: int) -> None:
        self.backend = _runtime.current()
        self.name = request.name
        self.progress = Progress(self.name, nbytes)
        self.pool = ThreadPoolExecutor(NUM_LANES)
        self.queued: list[tuple[Future[None], int]] = []

    def __enter__(self) -> _Lanes:
        self.progress.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.pool.shutdown(cancel_futures=True)
        self.progress.__exit__(*error)

    def add(
        self,
        step: _Step,
        given: Array,
        compute: Callable[[Any], Any],
        store: Callable[[Array], object],
        done: int | None = None,
    ) -> None:
        """Have a part computed: what `compute` makes of it on the device is handed to `store` on the host.

        Of all bytes, `done` are transformed then; None for those of the part.
        """
        if REPORTS:
            note("device", f"part of {self.name} along axis {step.axis}", f"{given.nbytes} B of {given.shape}")
        work = self.pool.submit(self._through, given, compute, store)
        self.queued.append((work, given.nbytes if done is None else done))

    def _through(self, given: Array, compute: Callable[[Any], Any], store: Callable[[Array], object]) -> None:
        assert self.backend is not None
        with self.backend.aside():
            store(_downloaded(compute(asarray(given))))

    def finish(self) -> None:
        """Wait until all parts are stored."""
        for future, nbytes in self.queued:
            future.result()
            self.progress.advance(nbytes)
        self.queued = []


def _downloaded(result: Any) -> Array:
    """An array on the host, for which no lock is held while it comes: others are computed meanwhile."""
    storage = result._storage
    if storage.host is not None:
        return host_view(result)
    graph, (buffer, *_), _ = attempt(schedule.materialise, storage)
    host = np.empty(graph.layout.shape, graph.layout.dtype)
    device_of(buffer).download(host, buffer.ptr)
    return host


def _many(given: Array, made: Array, step: _Step, lanes: _Lanes) -> None:
    """Transform along an axis in parts that have whole sequences."""
    needed = _needed(given, made)
    if needed <= step.room and step.length <= MAX_LENGTH:
        lanes.add(step, given, lambda x: transform(x, step.request), partial(operator.setitem, made, ...))
        return
    outer = next((i for i, n in enumerate(made.shape) if i != step.axis % made.ndim and n > 1), None)
    if outer is None:
        line = tuple(slice(None) if i == step.axis else 0 for i in range(made.ndim))
        _long(given[line], made[line], step, lanes)
        return
    extent = made.shape[outer]
    count = max(1, min(extent - 1, step.room * extent // needed))
    for start in range(0, extent, count):
        part = tuple(slice(start, start + count) if i == outer else slice(None) for i in range(made.ndim))
        _many(given[part], made[part], step, lanes)


def _long(given: Array, made: Array, step: _Step, lanes: _Lanes) -> None:
    """Transform one sequence through an array of the host."""
    n, (kind, is_forward) = step.length, step.request.kind
    n1 = max(d for d in range(1, math.isqrt(n) + 1) if n % d == 0)
    n2 = n // n1
    if n1 == 1 or n2 > MAX_LENGTH:
        raise MemoryError(
            f"a transform of {n} elements needs {_needed(given, made)} bytes of the device's memory, where a part may "
            f"have {step.room}, and is not split: the smaller factors are {n1} and {n2}"
        )
    dtype = np.result_type(made.dtype, np.complex64)
    columns = _whole(given, n, kind, dtype).reshape(n1, n2)
    between = np.empty((n1, n2), dtype)
    name, library = "fft" if is_forward else "ifft", step.request.library
    unscaled = "backward" if is_forward else "forward"
    turn = (-2j if is_forward else 2j) * math.pi / n
    scale = scale_of(step.request, (n,), given.dtype)

    def along_columns(part: slice, x: Any) -> Any:
        """Roots of unity are computed of exponents between minus and plus half of the order."""
        found = transform(x, Request(library, name, (n1,), (0,), unscaled))
        exponents = asarray(np.arange(n1))[:, None] * asarray(np.arange(part.start, part.stop)) % n
        exponents = exponents - n * (exponents > n // 2)
        return (found * np.exp(exponents * turn)).astype(dtype)

    def along_rows(x: Any) -> Any:
        return (transform(x, Request(library, name, (n2,), (1,), unscaled)) * scale).astype(dtype).T.copy()

    for part in _parts(n2, n1, dtype, step):
        target = between[:, part]
        store = partial(operator.setitem, target, ...)
        lanes.add(step, columns[:, part], partial(along_columns, part), store, _share(given.nbytes // 2, part, n2))
    lanes.finish()
    result = made.reshape(n2, n1) if kind == COMPLEX else np.empty((n2, n1), dtype)
    for part in _parts(n1, n2, dtype, step):
        store = partial(operator.setitem, result[:, part], ...)
        lanes.add(step, between[part], along_rows, store, _share(-(-given.nbytes // 2), part, n1))
    lanes.finish()
    if kind != COMPLEX:
        own = result.reshape(-1)[: made.size]
        made[...] = own.real if kind == HALF else own


def _parts(count: int, length: int, dtype: np.dtype[Any], step: _Step) -> list[slice]:
    """Parts of so many sequences, with room for roots of unity and exponents beside them."""
    each = length * dtype.itemsize * (2 + WORKSPACE) + length * 48
    size = max(1, min(count, step.room // each))
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


def _share(nbytes: int, part: slice, count: int) -> int:
    """What a part of so many sequences has of so many bytes."""
    start, stop = nbytes * part.start // count, nbytes * part.stop // count
    return int(stop - start)


def _whole(given: Array, n: int, kind: str, dtype: np.dtype[Any]) -> Array:
    """All elements of a sequence: cropped, continued with zeros or with what its first half says."""
    count = n // 2 + 1 if kind == HALF else n
    if len(given) >= count:
        whole = given[:count]
    else:
        whole = np.zeros(count, given.dtype)
        whole[: len(given)] = given
    if kind != HALF:
        return whole
    half = whole.astype(dtype)
    for i in {0, n // 2} if n % 2 == 0 else {0}:  # which are their own mirror images
        half[i] = half[i].real
    return np.concatenate([half, half[1 : (n + 1) // 2][::-1].conj()])


__all__ = ["in_parts"]
