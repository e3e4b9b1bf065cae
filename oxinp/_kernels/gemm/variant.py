"""Variants of a product: conjugates of A and B, the structure of C, an epilogue, and the layout of C."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.gemm.epilogue import bind
from oxinp._kernels.gemm.operand import WHOLE, Form

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.gemm.epilogue import Epilogue
    from oxinp._kernels.gemm.multistage.spec import MultistageSpec


class Variant(NamedTuple):
    """Conjugates, the structure of C, the epilogue, and the layout of C.

    Attributes
    ----------
    is_a_conjugated, is_b_conjugated : bool
        The factor is the conjugate of a complex matrix.
    c_form : Form
        Which triangle of C is computed, if not all of it.
    is_mirrored_out : bool
        The other triangle of C is written as well.
    epilogue : Epilogue, optional
    c_strides : tuple of int, optional
        Of C, in elements, the last one 1; C order unless given.
    has_plain_sums : bool
        The epilogue has to see the very sums that the product has without it: there is no plan where that product would
        be split along K, or where the epilogue is longer than `epilogue.MAX_LENGTH`.
    """

    is_a_conjugated: bool = False
    is_b_conjugated: bool = False
    c_form: Form = WHOLE
    is_mirrored_out: bool = False
    epilogue: Epilogue | None = None
    c_strides: tuple[int, ...] | None = None
    has_plain_sums: bool = False


def varied(
    spec: MultistageSpec, variant: Variant, moves: Sequence[Sequence[int]]
) -> tuple[MultistageSpec, tuple[int, ...]]:
    """Return the Spec of a variant, and the constants of its epilogue; `moves` are the strides of its arrays."""
    bound, constants = (None, ()) if variant.epilogue is None else bind(variant.epilogue, moves)
    spec = spec.replace(
        is_a_conjugated=variant.is_a_conjugated,
        is_b_conjugated=variant.is_b_conjugated,
        c_form=variant.c_form,
        is_mirrored_out=variant.is_mirrored_out,
        epilogue=bound,
    )
    return spec, constants


__all__ = ["Variant", "varied"]
