"""Exponentials of matrices as operations: powers with their norms, and the polynomial of powers with its squares."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp import _runtime
from oxinp._config import config
from oxinp._core.lazy.op import BoundOp, Op
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.memory.layout import Layout
from oxinp._core.ops.perform import perform_on_device
from oxinp._core.ops.stacks import alone, sparing

if TYPE_CHECKING:
    from oxinp._core.lazy.handle import Handle
    from oxinp._kernels.choice import Device
    from oxinp._kernels.plan import Plan


def _planner() -> Any:
    return importlib.import_module("oxinp._kernels.lapack.exponential")


def _infer_powers(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:  # noqa: ARG001
    (a,) = layouts
    own = Layout.of(a.dtype, a.shape)
    return own, own, own, Layout.of(np.dtype("d"), (len(_planner().NORMS),))


def _infer_polynomial(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:  # noqa: ARG001
    return (Layout.of(layouts[0].dtype, layouts[0].shape),)


def _plan(bound: BoundOp, device: Device) -> Plan:
    """Return the plan of either operation, whose last parameters are the settings of products."""
    *given, matmul, workspace_nbytes = bound.parameters
    function = _planner().plan_polynomial if given else _planner().plan_powers
    layout = bound.graphs[0].layout
    plan: Plan = function(layout.shape, DEVICE_TYPES[layout.dtype], device, *given, (matmul, workspace_nbytes))
    return plan


POWERS = Op("expm", infer=_infer_powers, **sparing(alone(_plan)))
POLYNOMIAL = Op("expm", infer=_infer_polynomial, **sparing(alone(_plan)))


def has_device() -> bool:
    """Whether there is a device."""
    return _runtime.current() is not None


def _settings() -> tuple[str, int]:
    return config.matmul, config.matmul_workspace


def powers(a: Handle) -> tuple[Any, Any, Any, Any]:
    """Return A^2, A^3 and A^6, and the largest 1-norms over a stack of A, A^2, A^3 and A^6, in double precision.

    Parameters
    ----------
    a : Handle
        (..., N, N), float or complex.
    """
    found: tuple[Any, Any, Any, Any] = perform_on_device(POWERS, (a,), _settings())
    return found


def polynomial(a: Handle, found: tuple[Any, Any, Any], scale: int, num_squares: int) -> Any:
    """Return the exponential of A 2^-scale, squared `num_squares` times.

    Parameters
    ----------
    a : Handle
    found : tuple of Handle
        Powers of it, see `powers`.
    scale, num_squares : int
    """
    return perform_on_device(POLYNOMIAL, (a, *found), (scale, num_squares, *_settings()))


__all__ = ["has_device", "polynomial", "powers"]
