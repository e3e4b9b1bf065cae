"""The element types of a product with a sparse matrix, and loads of them in the type that is computed in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._ptx.frozen import Frozen

if TYPE_CHECKING:
    from oxinp._ptx import Builder
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.types import Type
    from oxinp._ptx.value import Value

BLOCK = 256
STREAMED = "cs"
"""How a matrix is loaded of which nothing is read twice: the caches are for the vector, and evict it first."""
GATHERED = "nc"
"""How elements of the vector are loaded."""


class ProductTypes(Frozen):
    """Types of a product.

    Attributes
    ----------
    index : Type
        Of `indptr` and `indices`: i32 or i64.
    value, operand : Type
        Of the matrix' elements, and of the elements that they are multiplied with.
    result : Type
        Both are cast to it before they are multiplied.
    """

    index: Type
    value: Type
    operand: Type
    result: Type


def product(
    k: Builder, types: ProductTypes, data: Pointer, x: Pointer, place: Value, column: Value, cache: str = ""
) -> Value:
    """Return one element of the matrix times the element of a vector that it meets; `cache` is of the matrix."""
    element = data.load(place, 1, cache)[0]
    return k.cast(element, types.result) * k.cast(x.load(column, 1, GATHERED)[0], types.result)


__all__ = ["BLOCK", "ProductTypes", "product"]
