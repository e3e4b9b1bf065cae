"""Matrix multiplications to be checked against float64: random operands, the reference, and how far off is allowed."""

from dataclasses import dataclass

import numpy as np

from oxinp._ptx.types import bf16, e4m3, e5m2, f32, pred


@dataclass(frozen=True)
class GemmCase:
    """Operands as they lie in memory, and what their product is.

    Attributes
    ----------
    a, b : numpy.ndarray
        As the kernel reads them: bf16 as its bits, rows padded with NaN to multiples of 16 bytes (integers with 77).
    c : numpy.ndarray
        Where the result, or its transpose, goes, rows padded likewise, NaN or 77 all over.
    shape : (int, int, int)
        M, N, K.
    exact : numpy.ndarray, float64
        The product of the operands as the kernel sees them.
    bound : numpy.ndarray, float64
        Largest allowed distance from it.
    is_column_major : bool
        Whether it is the transpose that goes to `c`.
    """

    a: np.ndarray
    b: np.ndarray
    c: np.ndarray
    shape: tuple[int, int, int]
    exact: np.ndarray
    bound: np.ndarray
    is_column_major: bool = False

    @property
    def pitches(self):
        """Elements from one row to the next of C, A and B."""
        return tuple(array.shape[1] for array in (self.c, self.a, self.b))

    def worst(self, result, out):
        """Largest error of a filled copy of `c` in units of what is allowed; infinite for what is not a number.

        Raises
        ------
        AssertionError
            Something was written beside the result.
        """
        n = self.shape[0 if self.is_column_major else 1]
        beside = to_float64(result[:, n:], out)
        assert (np.isnan(beside) if out.is_float else beside == FILL).all(), "written beyond the last column"
        got = to_float64(result[:, :n], out)
        error = np.abs((got.T if self.is_column_major else got) - self.exact) / self.bound
        return float(np.where(np.isnan(error), np.inf, error).max())


# Half the distance of neighbours, relative: what one rounding of a result may change.
HALF_ULP = {"f16": 2.0**-11, "bf16": 2.0**-8, "f32": 2.0**-24}
FILL = 77
DEPTH_PER_STEP = {"f16": 16, "bf16": 16, "f32": 8, "e4m3": 32, "e5m2": 32}
# What partial sums lose per instruction, relative to their largest term.
CUT = {"e4m3": 2.0**-12, "e5m2": 2.0**-12}


def _bytes_of(num_exponent, num_fraction, bias):
    """Values of an 8-bit float's bits from 0 up, finite ones."""
    bits = np.arange(128 - (1 if num_exponent == 4 else 4))
    exponent, fraction = bits >> num_fraction, bits & ((1 << num_fraction) - 1)
    scaled = np.where(exponent > 0, fraction + (1 << num_fraction), fraction)
    return scaled * 2.0 ** (np.maximum(exponent, 1) - bias - num_fraction)


BYTES = {e4m3: _bytes_of(4, 3, 7), e5m2: _bytes_of(5, 2, 15)}


def to_type(values, type):
    """Round float32 values to a machine type; f32 to tf32, so that the tensor units take it as it is."""
    if type.is_integer:
        return (values * 60).astype(np.int64).astype(type.dtype)  # the whole range, and beyond it
    if type in BYTES:
        table = BYTES[type]
        nearest = np.searchsorted((table[1:] + table[:-1]) / 2, np.abs(values)).astype(np.uint8)
        return nearest | (np.signbit(values).astype(np.uint8) << 7)
    if type is bf16:
        words = values.view(np.uint32)
        return ((words + 0x7FFF + ((words >> 16) & 1)) >> 16).astype(np.uint16)
    if type is f32:
        words = values.view(np.uint32)
        return ((words + 0xFFF + ((words >> 13) & 1)) & np.uint32(0xFFFFE000)).view(np.float32)
    return values.astype(type.dtype)


def to_float64(array, type):
    """Values of an array of a machine type."""
    if type in BYTES:
        finite = np.concatenate([BYTES[type], np.full(128 - len(BYTES[type]), np.nan)])
        return np.concatenate([finite, -finite])[array]
    if type is bf16:
        return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return array.astype(np.float64)


def blank(rows, columns, type):
    """NaN, or 77, everywhere, rows as long as 16-byte multiples are."""
    pitch = -(-columns * type.nbytes // 16) * 16 // type.nbytes
    filled = np.nan if type.is_float else FILL
    return np.full(
        (rows, pitch),
        0xFFFF if type is bf16 else 0xFF if type in BYTES else filled,
        np.uint8 if type is pred else type.dtype,
    )


def padded(array, type):
    """Copy with padded rows."""
    copy = blank(*array.shape, type)
    copy[:, : array.shape[1]] = array
    return copy


def draw(spec, m, n, depth, rng, rows=None):
    """Random case; what is exact is of `rows` only, if given.

    Hopper's tensor cores truncate addends at 25 bits of the largest one, and each partial sum at 24: per
    instruction at most 2**-21 of the sum of magnitudes so far, whatever the number of terms up to 17.
    """
    a = to_type(rng.standard_normal((m, depth), np.float32), spec.type)
    b = to_type(rng.standard_normal((depth, n), np.float32), spec.type)
    x, y = to_float64(a if rows is None else a[rows], spec.type), to_float64(b, spec.type)
    exact = x @ y
    if spec.type.is_integer:
        exact = (exact != 0 if spec.out is pred else exact.astype(np.int64).astype(spec.out.dtype)).astype(np.float64)
        return _case(spec, a, b, (m, n, depth), exact, np.full_like(exact, 0.5))
    num_steps = -(-depth // DEPTH_PER_STEP[spec.type.name])
    # With totals, of those since the last addition.
    num_cut = min(num_steps, 4) if getattr(spec, "is_promoted", False) else num_steps
    config = num_cut * CUT.get(spec.type.name, 2.0**-21) + num_steps * 2.0**-23
    bound = config * (np.abs(x) @ np.abs(y)) + HALF_ULP[spec.out.name] * 1.01 * np.abs(exact)
    return _case(spec, a, b, (m, n, depth), exact, bound)


def _case(spec, a, b, shape, exact, bound):
    m, n, _ = shape
    is_column_major = hasattr(spec, "store") and spec.store.is_column_major
    a = padded(a if spec.a_major == "k" else a.T, spec.type)
    b = padded(b if spec.b_major == "mn" else b.T, spec.type)
    c = blank(*((n, m) if is_column_major else (m, n)), spec.out)
    return GemmCase(a, b, c, shape, exact, bound, is_column_major)
