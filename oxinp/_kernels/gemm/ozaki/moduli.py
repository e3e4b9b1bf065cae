"""Moduli of the Ozaki scheme II, and the weights of the Chinese remainder theorem.

An integer of magnitude below P / 2, P the product of pairwise coprime moduli p, is known from its residues r: it is the
sum of r w modulo P, w the multiple of P / p that is 1 modulo p (the Chinese remainder theorem).

Source: K. Ozaki, Y. Uchino, T. Imamura, Ozaki scheme II: a GEMM-oriented emulation of floating-point matrix
multiplication using an integer modular technique, 2025.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

MODULI = (256, 255, 253, 251, 247, 241, 239, 233, 229, 227, 223, 217, 211, 199, 197, 193)
"""The largest pairwise coprime moduli whose residues fit bytes; as many as integers up to 2**62 need."""
COUNTS = (14, 15, 16)
"""How many of them may be used: with fewer, sums in f64 would be more accurate."""
ROOM = 1 - 2.0**-20
"""Share of P / 2 that results may take up, so that rounded quotients find the right multiple of P."""


class Reconstruction(NamedTuple):
    """Constants of the Chinese remainder theorem for the first moduli.

    Attributes
    ----------
    product : int
        P.
    weights : tuple of int
        w, per modulus, in 0 to P - 1.
    limit : float
        Largest norm of a row and of a column whose product is below P / 2.
    """

    product: int
    weights: tuple[int, ...]
    limit: float


@cache
def reconstruction(count: int) -> Reconstruction:
    """Return the constants for the first `count` moduli."""
    moduli = MODULI[:count]
    product = math.prod(moduli)
    weights = tuple(product // p * pow(product // p, -1, p) % product for p in moduli)
    return Reconstruction(product, weights, math.sqrt(product / 2 * ROOM))


__all__ = ["COUNTS", "MODULI", "ROOM", "Reconstruction", "reconstruction"]
