"""Broadcasting: the shape that operands have together, or NumPy's words for why there is none."""

from __future__ import annotations

from itertools import zip_longest


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
    """Do what `numpy.broadcast_shapes` does, which takes longer and no more than 32 dimensions."""
    found = []
    for lengths in zip_longest(*[shape[::-1] for shape in shapes], fillvalue=1):
        length = 1
        for each in lengths:
            if each != 1:
                if each != length != 1:
                    raise ValueError("shape mismatch: objects cannot be broadcast to a single shape")
                length = each
        found.append(length)
    return tuple(found[::-1])


def broadcasts_to(source: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether an array of one shape fills one of another, whose elements it may repeat."""
    if source == target:
        return True
    try:
        return _broadcast(source, target) == target
    except ValueError:
        return False


def _listed(shapes: list[tuple[int, ...]]) -> str:
    return " ".join(str(s).replace(" ", "") for s in shapes) + " "
