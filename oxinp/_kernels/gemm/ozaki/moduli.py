"""The numbers behind products of residues: moduli, and the way back from residues to integers.

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
"""The largest ones whose residues fit bytes; as many as bring integers up to 2**62."""
COUNTS = (14, 15, 16)
"""How many of them may be used: with fewer f64 sums would be better."""
ROOM = 1 - 2.0**-20
"""Share of P / 2 that products may take up, so that rounded estimates find the multiple of P."""


class Reconstruction(NamedTuple):
    """The way back from the residues of the first moduli.

    Attributes
    ----------
    product : int
        P.
    weights : tuple of int
        w, per modulus, in 0 to P - 1.
    limit : float
        What the norms of two lines may be, so that their product is below P / 2.
    """

    product: int
    weights: tuple[int, ...]
    limit: float


@cache
def reconstruction(count: int) -> Reconstruction:
    """The way back from the residues of the first `count` moduli."""
    moduli = MODULI[:count]
    product = math.prod(moduli)
    weights = tuple(product // p * pow(product // p, -1, p) % product for p in moduli)
    return Reconstruction(product, weights, math.sqrt(product / 2 * ROOM))


__all__ = ["COUNTS", "MODULI", "ROOM", "Reconstruction", "reconstruction"]
