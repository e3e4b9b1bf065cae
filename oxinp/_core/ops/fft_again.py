"""Fourier transforms that have been asked for before, of arrays laid out as then: found by look-ups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oxinp._core.lazy import schedule
from oxinp._core.lazy.balance import balance
from oxinp._core.lazy.building import attempt
from oxinp._core.lazy.calls import Pending
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.results import types, wrap_result
from oxinp._core.memory.storage import SHARED
from oxinp._core.ops.fft import FEWEST, FFT, SHIFT
from oxinp._core.ops.filtered import filtered
from oxinp._core.ops.overwriting import BOUND
from oxinp._runtime import current, here

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._core.lazy.handle import Handle
    from oxinp._core.memory.layout import Layout
    from oxinp._core.ops.fft_request import Request

MOST = 1 << 10
"""Ways of calling a function that are kept."""
_KINDS = frozenset({int, str, tuple, type(None)})
_NAMED = object()


def transform_again(x: Handle, request: Request) -> Any:
    """Return the transform of an array that is on the device, laid out as one before; None for others.

    It finds with a look-up what `transform`, and those who ask before it, find by asking. So it does of a chain that
    was transformed before: of one that reads a transform, which may become one with that, too.
    """
    storage: Any = x._held
    value = None if storage is None or storage.host is not None else storage.value
    if value is None or here.are_several:
        return None
    graph, leaves, mask = value
    layout: Layout = graph.layout
    if mask & SHARED or layout is not x._known or graph.structure.is_flagged:
        return None
    if Pending in map(type, leaves):
        if graph.nodes and getattr(storage, "is_updated", False):
            graph, leaves, mask = schedule.materialise(storage)
        calls = [entry.call for entry in leaves if type(entry) is Pending]
        read = [call.bound.op for call in calls if call is not None]
        if SHIFT in read:
            return None
        if graph.nodes and FFT in read:
            del calls
            return filtered(x, request)
    bound = BOUND.get((FFT, graph, request))
    if bound is None:
        return None
    nbytes, backend = layout.nbytes, current()
    is_asked = nbytes < balance.limit or nbytes + bound.layouts[0].nbytes >= FEWEST
    if is_asked or backend is None or backend.pool.limit_nbytes is not None:
        return None
    (made,) = attempt(schedule.defer, bound, leaves, mask, 4)
    return wrap_result(made, as_array=True)


def again(request_of: Callable[..., Request | None]) -> Callable[..., Any]:
    """Return what is asked before a function that transforms: an array and the function's other arguments.

    Parameters
    ----------
    request_of : callable
        The request that the other arguments make; None for what has to be asked.
    """
    requests: dict[Any, Request | None] = {}

    def ahead(a: Any, *given: Any, **named: Any) -> Any:
        if named:
            given = (*given, _NAMED, *named, *named.values())
        kinds = tuple([tuple(map(type, each)) if type(each) is tuple else type(each) for each in given])
        try:
            wanted = requests.get((given, kinds))
            if wanted is None:
                wanted = _request(request_of, given, named)
                if wanted is None:
                    return None
                if len(requests) >= MOST:
                    requests.clear()
                requests[given, kinds] = wanted
        except TypeError:  # of what has no hash, or what the function does not take
            return None
        return transform_again(a, wanted) if type(a) is types.ndarray else None

    return ahead


def _request(
    request_of: Callable[..., Request | None], given: tuple[Any, ...], named: dict[str, Any]
) -> Request | None:
    """Return the request that arguments make where these are integers, their tuples and names of norms."""
    given = given[: given.index(_NAMED)] if named else given
    if not _KINDS.issuperset(map(type, (*given, *named.values()))):
        return None
    try:
        return request_of(*given, **named)
    except Unsupported:  # of which the library says why it refuses them
        return None


__all__ = ["again", "transform_again"]
