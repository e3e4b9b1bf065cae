"""Convolutions of vectors by their definition."""

from __future__ import annotations

import importlib
from typing import Any

from oxinp._core.lazy.handle import Handle
from oxinp._core.lazy.op import BoundOp, Op
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.memory.layout import Layout
from oxinp._core.ops.perform import perform_on_device
from oxinp._kernels.plan import Plan


def _infer(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:
    return (Layout.of(layouts[0].dtype, (parameters[1],)),)


def _plan(bound: BoundOp) -> Plan:
    (elements, taps), (start, count) = (graph.layout for graph in bound.graphs), bound.parameters
    make = importlib.import_module("oxinp._kernels.convolve.direct").convolve
    planned: Plan = make(elements.size, taps.size, start, count, DEVICE_TYPES[elements.dtype])
    return planned


CONVOLVE = Op("convolve", _plan, _infer)


def convolve_directly(elements: Handle, taps: Handle, start: int, count: int) -> Any:
    """Return some elements of the full convolution of two vectors of a dtype, the longer one first.

    Parameters
    ----------
    elements, taps : Handle
    start, count : int
        The first element, and how many.
    """
    return perform_on_device(CONVOLVE, (elements, taps), (start, count))


__all__ = ["CONVOLVE", "convolve_directly"]
