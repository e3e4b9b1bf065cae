"""Plans of cosine and sine transforms of types II and III along one axis, where a block holds half the length."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._kernels.fft.batch import Batch
from oxinp._kernels.fft.sides import Loop, Positions, Side
from oxinp._kernels.fft.spec import THIRD, THIRD_SINE
from oxinp._kernels.fft.splitting import fits_block, has_passes
from oxinp._kernels.plan import Plan

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device
    from oxinp._kernels.fft.axes import Array
    from oxinp._ptx.types import Type


def has_cosine(length: int, nbytes: int, device: Device, *, is_apart: bool) -> bool:
    """Whether a block transforms sequences of a length.

    Parameters
    ----------
    length : int
    nbytes : int
        Of a complex number of the precision.
    device : Device
    is_apart : bool
        Whether neighbouring sequences lie closer than a sequence's elements.
    """
    half, is_odd = divmod(length, 2)
    return not is_odd and has_passes(half, nbytes, device) and fits_block(half, nbytes, is_apart, device)


def plan_cosine(
    source: Array, target: Array, type_: Type, part: str, axis: int, scales: tuple[float, float], device: Device
) -> Plan:
    """Return the plan of a cosine or sine transform; `has_cosine` of its length.

    Parameters
    ----------
    source, target : Array
        Real; along the axis, the source is cut off or continued with zeros.
    type_ : Type
        c64 or c128, in which everything is computed.
    part : str
        One of `TRIGONOMETRIC`.
    axis : int
    scales : tuple of float
        By which all results are multiplied, and by which the element of frequency 0 is as well.
    device : Device
    """
    length, num_valid = target.shape[axis], source.shape[axis]
    scale, first_scale = scales
    batch = Batch(
        length // 2,
        type_,
        source.type,
        target.type,
        Side(source.buffer, source.steps[axis], source.alignment),
        Side(target.buffer, target.steps[axis], target.alignment),
        tuple(Loop(n, source.steps[i], target.steps[i]) for i, n in enumerate(target.shape) if i != axis),
        sign=-1 if part in (THIRD, THIRD_SINE) else 1,
        scales=(scale, scale),
        valid=None if num_valid >= length else Positions(num_valid, 1),
        real=part,
        first_scale=first_scale,
    )
    return Plan((batch.launch(device),))


__all__ = ["has_cosine", "plan_cosine"]
