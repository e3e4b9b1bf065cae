"""Broadcasting: the shape that operands have together, or NumPy's words for why there is none."""

from __future__ import annotations

from itertools import zip_longest

import numpy as np


def broadcast_shapes(shapes: list[tuple[int, ...]], target: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return the shape that operands of `shapes` broadcast to, or `target` where one is prescribed.

    Raises
    ------
    ValueError
        In NumPy's words.
    """
    if target is None:
        first: tuple[int, ...] = ()
        for found in shapes:
            if found and found != first:
                if first:
                    break
                first = found
        else:
            return first
    try:
        shape = _broadcast(*shapes)
    except ValueError:
        listed = _listed(shapes if target is None else [*shapes, target])
        msg = f"operands could not be broadcast together with shapes {listed}"
        raise ValueError(msg) from None
    if target is None or shape == target:
        return shape
    try:
        if _broadcast(shape, target) == target:
            return target
    except ValueError:
        msg = f"operands could not be broadcast together with shapes {_listed([*shapes, target])}"
        raise ValueError(msg) from None
    shown, whole = _listed([target])[:-1], _listed([shape])[:-1]
    msg = f"non-broadcastable output operand with shape {shown} doesn't match the broadcast shape {whole}"
    raise ValueError(msg)


def _broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Do what `numpy.broadcast_shapes` does, which takes no more than 32 dimensions."""
    if max(map(len, shapes)) <= 32:
        return np.broadcast_shapes(*shapes)
    found = []
    for lengths in zip_longest(*[shape[::-1] for shape in shapes], fillvalue=1):
        others = {*lengths} - {1}
        if len(others) > 1:
            raise ValueError("shape mismatch: objects cannot be broadcast to a single shape")
        found.append(others.pop() if others else 1)
    return tuple(found[::-1])


def _listed(shapes: list[tuple[int, ...]]) -> str:
    return " ".join(str(s).replace(" ", "") for s in shapes) + " "
