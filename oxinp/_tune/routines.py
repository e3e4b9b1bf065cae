"""THE TABLE OF ROUTINES whose placement is measured: what NumPy and we compute, and of which matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from oxinp import linalg

__all__ = ["ROUTINES", "Routine", "operands"]


NUM_DRAWN = 64


class Routine(NamedTuple):
    """What both sides compute.

    Attributes
    ----------
    theirs, ours : callable
        Of NumPy's arrays, of ours.
    kind : str
        Of the matrices: ``"general"``, ``"hermitian"``, or ``"definite"``.
    has_right : bool
        They take a right-hand side, too.
    has_stacks : bool
        There are kernels for stacks.
    """

    theirs: Callable[..., Any]
    ours: Callable[..., Any]
    kind: str = "general"
    has_right: bool = False
    has_stacks: bool = True


def _named(name: str, kind: str = "general", *, has_right: bool = False, has_stacks: bool = True) -> Routine:
    return Routine(getattr(np.linalg, name), getattr(linalg, name), kind, has_right, has_stacks)


ROUTINES: dict[str, Routine] = {
    "solve": _named("solve", has_right=True),
    "inv": _named("inv"),
    "cholesky": _named("cholesky", "definite"),
    "slogdet": _named("slogdet"),
    "qr": _named("qr"),
    "eigh": _named("eigh", "hermitian"),
    "eigvalsh": _named("eigvalsh", "hermitian"),
    "eig": _named("eig", has_stacks=False),
    "eigvals": _named("eigvals", has_stacks=False),
    "svd": _named("svd"),
    "svdvals": _named("svdvals"),
}


def operands(routine: Routine, dtype: np.dtype[Any], order: int, count: int) -> list[np.ndarray[Any, Any]]:
    """Return a stack of matrices that a routine takes, or one matrix without leading axis; large stacks repeat some."""
    rng = np.random.default_rng(order)
    batch = (min(count, NUM_DRAWN),) if count > 1 else ()

    def drawn(*shape: int) -> np.ndarray[Any, Any]:
        values = rng.standard_normal((*batch, *shape))
        return (values + 1j * rng.standard_normal(values.shape) if dtype.kind == "c" else values).astype(dtype)

    a = drawn(order, order)
    if routine.kind != "general":
        a = a + a.conj().swapaxes(-1, -2)
    if routine.kind == "definite":
        diagonal = np.arange(order)
        a[..., diagonal, diagonal] = 4 * order
    made = [a, drawn(order, 1)] if routine.has_right else [a]
    return [np.resize(x, (count, *x.shape[1:])) for x in made] if batch else made
