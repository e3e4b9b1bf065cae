"""The array API standard's namespace, what ``x.__array_namespace__()`` gives: its names, arguments and 0-d results.

It differs from `oxinp` itself where NumPy differs from the standard: every result without dimensions is an array of
ours, never a scalar of NumPy's, and stays one in arithmetic; `sort` and `argsort` take ``descending``; `clip` keeps the
dtype of its array; `finfo` and `iinfo` take arrays and give numbers of Python's. Names that the standard has not are
those of `oxinp`. The extensions are `linalg` and `fft`; `special` is where SciPy looks for functions of an array
library's own.
"""

import importlib
from typing import Any

from oxinp.array_api._functions import find
from oxinp.array_api._zero_dimensional import ZeroDimensionalArray

__array_api_version__ = "2025.12"

# THE STANDARD'S NAMES.
_NAMES = """
__array_api_version__ __array_namespace_info__ abs acos acosh add all any arange argmax argmin argsort asarray asin
asinh astype atan atan2 atanh bitwise_and bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor
bool broadcast_arrays broadcast_shapes broadcast_to can_cast ceil clip complex128 complex64 concat conj copysign cos
cosh count_nonzero cumulative_prod cumulative_sum diff divide e empty empty_like equal exp expand_dims expm1 eye fft
finfo flip float32 float64 floor floor_divide from_dlpack full full_like greater greater_equal hypot iinfo imag inf
int16 int32 int64 int8 isdtype isfinite isin isinf isnan less less_equal linalg linspace log log10 log1p log2 logaddexp
logical_and logical_not logical_or logical_xor matmul matrix_transpose max maximum mean meshgrid min minimum moveaxis
multiply nan negative newaxis nextafter nonzero not_equal ones ones_like permute_dims pi positive pow prod real
reciprocal remainder repeat reshape result_type roll round searchsorted sign signbit sin sinh sort sqrt square squeeze
stack std subtract sum take take_along_axis tan tanh tensordot tile tril triu trunc uint16 uint32 uint64 uint8
unique_all unique_counts unique_inverse unique_values unstack var vecdot where zeros zeros_like
"""
_BELOW = {"fft": "oxinp.array_api.fft", "linalg": "oxinp.array_api.linalg", "special": "oxinp.scipy.special"}

__all__ = [*_NAMES.split(), "ZeroDimensionalArray", "special"]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    globals()[name] = importlib.import_module(_BELOW[name]) if name in _BELOW else find("oxinp", __name__, name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
