"""Matrix multiplications to be checked against float64: random operands, the reference, and how far off is allowed."""

from dataclasses import dataclass

import numpy as np

from oxinp._ptx.types import bf16, f32


@dataclass(frozen=True)
class GemmCase:
    """Operands as they lie in memory, and what their product is.

    Attributes
    ----------
    a, b : numpy.ndarray
        As the kernel reads them; bf16 as its bits.
    exact : numpy.ndarray, float64
        The product of the operands as the kernel sees them.
    bound : numpy.ndarray, float64
        Largest allowed distance from it.
    """

    a: np.ndarray
    b: np.ndarray
    exact: np.ndarray
    bound: np.ndarray


# Half the distance of neighbours, relative: what one rounding of a result may change.
HALF_ULP = {"f16": 2.0**-11, "bf16": 2.0**-8, "f32": 2.0**-24}
DEPTH_PER_STEP = {"f16": 16, "bf16": 16, "f32": 8}


def to_type(values, type):
    """Round float32 values to a machine type; f32 to tf32, so that the tensor units take it as it is."""
    if type is bf16:
        words = values.view(np.uint32)
        return ((words + 0x7FFF + ((words >> 16) & 1)) >> 16).astype(np.uint16)
    if type is f32:
        words = values.view(np.uint32)
        return ((words + 0xFFF + ((words >> 13) & 1)) & np.uint32(0xFFFFE000)).view(np.float32)
    return values.astype(type.dtype)


def to_float64(array, type):
    """Values of an array of a machine type."""
    if type is bf16:
        return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return array.astype(np.float64)


def draw(spec, m, n, depth, rng, rows=None):
    """Random case; the product of `rows` only, if given.

    Hopper's tensor units cut what they add off at 25 bits of the largest term, and each partial sum at 24: per
    instruction at most 2**-21 of the sum of magnitudes so far, whatever the number of terms up to 17.
    """
    a = to_type(rng.standard_normal((m, depth), np.float32), spec.type)
    b = to_type(rng.standard_normal((depth, n), np.float32), spec.type)
    x, y = to_float64(a if rows is None else a[rows], spec.type), to_float64(b, spec.type)
    exact = x @ y
    num_steps = -(-depth // DEPTH_PER_STEP[spec.type.name])
    bound = num_steps * 2.0**-21 * (np.abs(x) @ np.abs(y)) + HALF_ULP[spec.out.name] * 1.01 * np.abs(exact)
    a = a if spec.a_major == "k" else np.ascontiguousarray(a.T)
    b = b if spec.b_major == "mn" else np.ascontiguousarray(b.T)
    return GemmCase(a, b, exact, bound)
