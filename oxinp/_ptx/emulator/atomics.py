"""Atomic read-modify-writes of the emulator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_SCANS: dict[str, np.ufunc] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def read_modify_write(name: str, words: Array, index: Array, operands: Sequence[Array]) -> Array:
    """Apply an atomic in lane order; `words` is changed in place."""
    old = np.empty(len(index), words.dtype)
    if name == "cas":
        for i, (where, compare, value) in enumerate(zip(index, *operands, strict=True)):
            old[i] = words[where]
            if old[i] == compare:
                words[where] = value
        return old
    order = np.argsort(index, kind="stable")
    starts = np.flatnonzero(np.diff(index[order], prepend=-1))
    lengths = np.diff(starts, append=len(order))
    most = int(lengths.max(initial=0))
    if most > len(starts):  # few words
        for group in np.split(order, starts[1:]):
            where = index[group[0]]
            values = np.concatenate((words[where : where + 1], operands[0][group]))
            # accumulate is sequential, so floating-point sums come out as lane after lane would make them
            running = values if name == "exch" else _SCANS[name].accumulate(values, dtype=words.dtype)
            old[group] = running[:-1]
            words[where] = running[-1]
        return old
    for turn in range(most):  # the first lane of each word, then the second of each
        lanes = order[starts[lengths > turn] + turn]
        where, values = index[lanes], operands[0][lanes]
        old[lanes] = words[where]
        words[where] = values if name == "exch" else _SCANS[name](old[lanes], values, dtype=words.dtype)
    return old
