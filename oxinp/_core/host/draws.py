"""Draws of random numbers that are NumPy's where they are few: which functions are such, and how they say how many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Draw(NamedTuple):
    """A function or method that NumPy draws small arrays for.

    Attributes
    ----------
    numpys : callable
        NumPy's, with the same arguments.
    place : int or None
        That of the argument `size` among those by position, not counting ``self``; None where all of them are extents.
    is_method : bool
        It is one of generators of ours, whose ``_mutex`` is held meanwhile, and which have an ``_ending`` that is None.
    """

    numpys: Callable[..., Any]
    place: int | None
    is_method: bool


DRAWS: dict[Any, Draw] = {}
"""Functions of ours, which the package of random numbers enters."""

__all__ = ["DRAWS", "Draw"]
