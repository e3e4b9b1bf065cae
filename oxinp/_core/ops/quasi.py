"""Low-discrepancy points on the device."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp._core.lazy.op import BoundOp, Op
from oxinp._core.lazy.placement import device
from oxinp._core.memory.dtypes import INT64
from oxinp._core.memory.layout import Layout
from oxinp._core.ops.creation import asarray
from oxinp._core.ops.draws import UINT32, ask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.plan import Plan

FLOAT64 = np.dtype(np.float64)
_MODULE = "oxinp._kernels.random.quasi"


def _infer(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:  # noqa: ARG001 - rows' signature
    return (Layout.of(FLOAT64, parameters[:2]),)


def _infer_coordinates(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:  # noqa: ARG001
    return (Layout.of(FLOAT64, parameters[1::-1]),)


def _plan_sobol(bound: BoundOp) -> Plan:
    num_points, dimension, is_wide = bound.parameters
    plan: Plan = importlib.import_module(_MODULE).sobol_plan(
        num_points, dimension, device().capability, is_wide=is_wide
    )
    return plan


def _plan_halton(bound: BoundOp) -> Plan:
    num_points, dimension, num_digits, is_scrambled = bound.parameters
    plan: Plan = importlib.import_module(_MODULE).halton_plan(
        num_points, dimension, device().capability, num_digits=num_digits, is_scrambled=is_scrambled
    )
    return plan


SOBOL = Op("Sobol' points", _plan_sobol, _infer)
HALTON = Op("Halton points", _plan_halton, _infer_coordinates)


def sobol(directions: np.ndarray[Any, Any], shift: np.ndarray[Any, Any], start: int, count: int, scale: float) -> Any:
    """Return points of a Sobol' sequence.

    Parameters
    ----------
    directions : ndarray, (d, bits), uint32 or uint64
    shift : ndarray, (d,), of the same dtype
    start, count : int
        Numbers of points, below ``2**32``.
    scale : float
    """
    operands = [asarray(np.ascontiguousarray(directions.T)), asarray(shift), (INT64, start), (FLOAT64, scale)]
    (points,) = ask(SOBOL, operands, (count, len(shift), directions.dtype.itemsize == 8))
    return points


def halton(
    bases: Sequence[int], weights: Sequence[Sequence[float]], permutations: Sequence[Any] | None, start: int, count: int
) -> Any:
    """Return points of a Halton sequence, in Fortran order, as SciPy does.

    Parameters
    ----------
    bases : sequence of int
    weights : sequence of sequence of float
        Of the digits of each coordinate.
    permutations : sequence of ndarray, (digits, base), or None
        Of the digits of each coordinate.
    start, count : int
        Numbers of points, below ``2**32``.
    """
    num_digits = max(map(len, weights))
    table = np.zeros((len(bases), num_digits))
    for row, own in zip(table, weights, strict=True):
        row[: len(own)] = own
    operands: list[Any] = [asarray(np.array(bases, UINT32)), asarray(table)]
    if permutations is not None:
        flat = [np.asarray(each, UINT32).reshape(-1) for each in permutations]
        begins = np.cumsum([0, *[len(each) for each in flat[:-1]]]).astype(UINT32)
        operands += [asarray(begins), asarray(np.concatenate(flat))]
    parameters = count, len(bases), num_digits, permutations is not None
    (coordinates,) = ask(HALTON, [*operands, (INT64, start)], parameters)
    return coordinates.T


__all__ = ["halton", "sobol"]
