"""The standard's extension `linalg`: the functions of `oxinp.linalg`, with arrays for scalars."""

from typing import Any

from oxinp.array_api._functions import find

_NAMES = """
cholesky cross det diagonal eigh eigvalsh inv matmul matrix_norm matrix_power matrix_rank matrix_transpose outer pinv
qr slogdet solve svd svdvals tensordot trace vecdot vector_norm
"""
__all__ = _NAMES.split()  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    value = globals()[name] = find("oxinp.linalg", __name__, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
