"""Reductions of lines like ones that have run: launched by a few integers, with no plan made of them.

A loop over the parts of an array, as a factorisation, reduces a line of another length each turn. What lengths next to
each other have in common is kept by how the line lies, with what launches it; see `_kernels.reduce.nearby`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oxinp._config import config
from oxinp._core.lazy.balance import RELAUNCHED
from oxinp._core.lazy.executor import loaded
from oxinp._core.lazy.op import BoundOp
from oxinp._core.memory.layout import Layout

if TYPE_CHECKING:
    from oxinp._runtime.memory import Buffer

MAX_KEPT = 1024
_LINES = "lines that are reduced"
"""By which a structure keeps, by operations and how its leaves lie, what lines have in common."""
_ONE_BLOCK = 1, 1, 1


def run_near(bound: BoundOp, leaves: tuple[Any, ...]) -> Buffer | None:
    """Reduce a one-dimensional chain to one element by the kernel that others of about its length have run by.

    Returns None where no kernel is kept for such lengths, strides and alignments: `BoundOp.run_first` finds or makes
    one. There is one device.
    """
    if type(bound) is not BoundOp or bound.executables is not None or not bound.rented:
        return None  # products have a way of their own
    (graph,) = bound.graphs
    lines = graph.structure.plans.get(_LINES)
    if lines is None:
        return None
    size = graph.layout.size
    is_vector = len(graph.shape) == 1
    key: tuple[Any, ...] = bound.op, size.bit_length()  # `_key_of`, spelled out
    for entry in graph.leaves:
        if type(entry) is Layout:
            key += (entry.strides if is_vector else entry.is_contiguous, entry.alignment)
    near = lines.get(key)
    if near is None or near[0] != config.version or near[1] is not bound.parameters:
        return None
    _, _, launch, backend, (least, most, _, values, _, unit) = near
    if not least <= size <= most:
        return None
    given = [getattr(entry, "ptr", entry) for entry in leaves]  # which may run what they wait for
    buffer: Buffer = backend.allocate(bound.layouts[0].nbytes)
    num_units = size // unit
    launch(_ONE_BLOCK, buffer.ptr, *given, *values, 1, 0, 1, num_units, size - num_units * unit)
    bound.extra = RELAUNCHED
    bound.rented -= 1
    bound.has_run = True
    return buffer


def keep_near(bound: BoundOp, near: Any) -> None:
    """Keep what others have in common with such a reduction that is about to run."""
    (graph,) = bound.graphs
    launch, backend = loaded(near.kernel)
    if launch is None or graph.structure.has_parts:
        return
    lines = graph.structure.plans.setdefault(_LINES, {})
    if len(lines) >= MAX_KEPT:
        lines.clear()
    lines[_key_of(bound)] = config.version, bound.parameters, launch, backend, near


def _key_of(bound: BoundOp) -> tuple[Any, ...]:
    """Return what lines have in common that are gone through alike, but for the range of their length."""
    (graph,) = bound.graphs
    is_vector = len(graph.shape) == 1
    key: tuple[Any, ...] = bound.op, graph.layout.size.bit_length()
    for entry in graph.leaves:
        if type(entry) is Layout:
            key += (entry.strides if is_vector else entry.is_contiguous, entry.alignment)
    return key


__all__ = ["keep_near", "run_near"]
