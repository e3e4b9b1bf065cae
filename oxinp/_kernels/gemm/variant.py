"""What is special about a product: triangles that are stored or wanted, what becomes of the sums, where C lies."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.gemm.epilogue import bind
from oxinp._kernels.gemm.operand import WHOLE, Form, copy_nbytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.gemm.epilogue import Epilogue
    from oxinp._kernels.gemm.multistage.spec import MultistageSpec


class Variant(NamedTuple):
    """What is special about a product: what is stored of A and B, what is written of C, and what becomes of the sums.

    Attributes
    ----------
    a_form, b_form, c_form : Form
        See `multistage.kernel.MultistageSpec`.
    is_mirrored_out : bool
    finish : Finish, optional
    c_strides : tuple of int, optional
        Of C, in elements, the last one 1; in C order unless given.
    has_plain_sums : bool
        The sums that are finished have to be those of the product without: there is no plan where it is cut along K, or
        the finish is longer than `epilogue.MAX_LENGTH`.
    """

    a_form: Form = WHOLE
    b_form: Form = WHOLE
    c_form: Form = WHOLE
    is_mirrored_out: bool = False
    epilogue: Epilogue | None = None
    c_strides: tuple[int, ...] | None = None
    has_plain_sums: bool = False


def varied(
    spec: MultistageSpec, variant: Variant, moves: Sequence[Sequence[int]]
) -> tuple[MultistageSpec, tuple[int, ...]]:
    """Return the Spec of a variant, and the constants of its epilogue, whose arrays have these strides."""
    bound, constants = (None, ()) if variant.epilogue is None else bind(variant.epilogue, moves)
    spec = replace(
        spec,
        a_copy=copy_nbytes(variant.a_form, spec.type, spec.a_copy),
        b_copy=copy_nbytes(variant.b_form, spec.type, spec.b_copy),
        a_form=variant.a_form,
        b_form=variant.b_form,
        c_form=variant.c_form,
        is_mirrored_out=variant.is_mirrored_out,
        epilogue=bound,
    )
    return spec, constants


__all__ = ["Variant", "varied"]
