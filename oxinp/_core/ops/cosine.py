"""Cosine and sine transforms of types II and III as an operation, for the lengths that have a kernel."""

from __future__ import annotations

import importlib
import math
from typing import Any, NamedTuple

import numpy as np

from oxinp._core.lazy.handle import Handle
from oxinp._core.lazy.op import BoundOp, Op
from oxinp._core.lazy.placement import device
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.memory.layout import Layout
from oxinp._core.ops.perform import perform
from oxinp._kernels.plan import Argument, Plan

INVERSES = {1: 1, 2: 3, 3: 2, 4: 4}


class Cosine(NamedTuple):
    """A cosine or sine transform of sequences.

    Attributes
    ----------
    type : int
        1 to 4: of the sums that are computed, which of an inverse are another type's.
    is_sine : bool
    n : int
        Length.
    scale : float
        By which the sums are multiplied.
    is_orthogonal : bool
        Whether the elements at the ends are weighted so that the transform is orthogonal.
    """

    type: int
    is_sine: bool
    n: int
    scale: float
    is_orthogonal: bool

    @classmethod
    def of(cls, name: str, kind: int, n: int, norm: str | None, orthogonalize: bool | None) -> Cosine:
        """What a function of SciPy's computes; see `scipy.fft.dct`."""
        is_inverse, is_sine = name[0] == "i", name.endswith("dst")
        period = 2 * (n + ((1 if is_sine else -1) if kind == 1 else 0))
        scale = 1 / math.sqrt(period) if norm == "ortho" else 1.0
        if (norm == "forward") != is_inverse and norm != "ortho":
            scale = 1 / period
        is_orthogonal = norm == "ortho" if orthogonalize is None else bool(orthogonalize)
        return cls(INVERSES[kind] if is_inverse else kind, is_sine, n, scale, is_orthogonal)

    def on_host(self, x: Any, axis: int) -> Any:
        """Call SciPy's function; `n` results are those of its "backward" norm, scaled."""
        module = importlib.import_module("scipy.fft")
        found = (module.dst if self.is_sine else module.dct)(
            x, self.type, self.n, axis, orthogonalize=self.is_orthogonal
        )
        return found if self.scale == 1 else found * found.dtype.type(self.scale)


def has_kernel(x: Handle, wanted: Cosine, axis: int) -> bool:
    """Whether there is a kernel for sequences along an axis of a real array."""
    layout = x._layout
    if wanted.type not in (2, 3) or wanted.n % 2 or layout.dtype.char not in "fd" or not layout.is_aligned:
        return False
    module = importlib.import_module("oxinp._kernels.fft.cosine_plan")
    steps = layout.element_strides
    is_apart = axis != layout.ndim - 1 or any(
        layout.shape[i] > 1 and 0 < abs(step) < abs(steps[axis]) for i, step in enumerate(steps)
    )
    capability = device().capability
    found: bool = module.has_cosine(wanted.n, 2 * layout.dtype.itemsize, capability, is_apart=is_apart)
    return found


def _infer(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:
    (layout,), (*fields, axis) = layouts, parameters
    shape = list(layout.shape)
    shape[axis] = Cosine(*fields).n
    return (Layout.of(layout.dtype, tuple(shape)),)


def _plan(bound: BoundOp) -> Plan:
    axes = importlib.import_module("oxinp._kernels.fft.axes")
    module = importlib.import_module("oxinp._kernels.fft.cosine_plan")
    *fields, axis = bound.parameters
    wanted = Cosine(*fields)
    source, target = (
        axes.Array(Argument(name), DEVICE_TYPES[x.dtype], x.shape, x.element_strides, x.alignment)
        for name, x in (("in0", bound.graphs[0].layout), ("out0", bound.layouts[0]))
    )
    computed = DEVICE_TYPES[np.result_type(bound.layouts[0].dtype, np.complex64)]
    weight = math.sqrt(0.5 if wanted.type == 2 else 2) if wanted.is_orthogonal else 1.0
    part = f"{'dst' if wanted.is_sine else 'dct'}{wanted.type}"
    scales = wanted.scale, weight
    plan: Plan = module.plan_cosine(source, target, computed, part, axis, scales, device().capability)
    return plan


def _on_host(x: Any, *parameters: Any) -> Any:
    return Cosine(*parameters[:-1]).on_host(x, parameters[-1])


COSINE = Op("dct", _plan, _infer, host=_on_host, host_weight=24.0, takes_views=True, linear_in=(0,))


def transform(x: Handle, wanted: Cosine, axis: int) -> Any:
    """Return the transform of a real array along an axis; `has_kernel` of it.

    Notes
    -----
    Root-mean-square error of a few roundings, as of the Fourier transforms.
    """
    return perform(COSINE, (x,), (*wanted, axis))


__all__ = ["Cosine", "has_kernel", "transform"]
