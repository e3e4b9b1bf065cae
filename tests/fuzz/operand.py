"""Operands of kernels for random problems: their types, strides and alignments, and what joins elements."""

from __future__ import annotations

from typing import Any

import numpy  # noqa: ICN001 - np is ours

from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._kernels.plan import ALIGNMENT
from oxinp._ptx.types import Type, pred, u8
from tests.fuzz import planning
from tests.fuzz.problem import DTYPES, Problem

ALIGNMENTS = (ALIGNMENT, ALIGNMENT, 64, 16, 8)


def type_of(p: Problem, dtypes: tuple[str, ...] = DTYPES) -> Type:
    """Return a random type of elements."""
    return DEVICE_TYPES[numpy.dtype(p.dtype(dtypes))]


def perform(plan: Any, *sizes: int, num_outputs: int = 1) -> None:
    """Judge a plan of arrays of so many bytes, the outputs first."""
    if plan is not None:
        planning.backend().perform(plan, list(sizes[:num_outputs]), list(sizes[num_outputs:]), u8)


def strides_of(p: Problem, extents: tuple[int, ...]) -> tuple[int, ...]:
    """Return strides of any order of axes, rows perhaps padded."""
    order = p.draw.sample(range(len(extents)), len(extents)) if p.chance(50) else range(len(extents))
    strides, step = [0] * len(extents), 1
    for place in reversed(list(order)):
        strides[place] = step
        step *= extents[place] + (p.choice((1, 2, 16)) if p.chance(10) else 0)
    return tuple(strides)


def reach_of(extents: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Return how many elements of memory an operand goes over."""
    return 1 + sum((n - 1) * abs(step) for n, step in zip(extents, strides, strict=True))


def joined(k: Any, x: Any, y: Any) -> Any:
    """Return a value made of two, as an instruction computes it."""
    return k.max(x, y) if x.type.kind in "iu" else x | y if x.type is pred else x + y
