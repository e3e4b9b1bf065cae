"""Which form of ``log1p`` the C library has that NumPy's ziggurats go through, by what NumPy draws with it."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

FUSED, PLAIN, OWN = "fused", "plain", "own"  # see `oxinp._kernels.random.libm_log1p`
_PER_STATE = 4  # words of Philox's buffer
_TAIL = 0xFFFFFE01  # half a word that exponentials of f32 take for the tail's
# Of uniform numbers: the first 53 bits of words, and 24 of halves. What forms make of them, as `drawn` says, differs
# for half of those of f64, and is not the nearest number for the others; that of f32 is another one than the nearest.
_WORDS = {
    "f8": (
        1192426868070423,
        5640643435184633,
        1871800494138894,
        6252250773876866,
        7365377409975143,
        2008609873030277,
        1912463040139466,
        2694947681190374,
        4008890970649048,
        5604092291737765,
        321379380378486,
        4874190224610002,
        3491476870078464,
        3625382370716701,
        5964700097640622,
        3389299517157517,
    ),
    "f4": (4362451, 7078571, 9938468, 10852114, 11651042, 13655178, 14927431, 16080655),
}
_ALIKE = (
    0.5889246627648952,
    0.9733353477688838,
    0.03633237833571032,
    0.7790184543538967,
    0.4904215452058778,
    0.5149981468189908,
    1.085344905928694,
    0.47206629288237223,
)
_GIVEN: dict[str, dict[str, tuple[float, ...]]] = {
    "f8": {
        PLAIN: (
            0.14200833650323028,
            0.9841339650135978,
            0.23295603743823942,
            1.1846254325671972,
            1.7022176685471881,
            0.2523155629168305,
            0.2386710439010263,
            0.35553173562440443,
            *_ALIKE,
        ),
        FUSED: (
            0.1420083365032303,
            0.9841339650135977,
            0.23295603743823945,
            1.184625432567197,
            1.702217668547188,
            0.25231556291683055,
            0.23867104390102628,
            0.3555317356244045,
            *_ALIKE,
        ),
    },
    "f4": {
        PLAIN: (
            7.998252868652344,
            8.245153427124023,
            8.594533920288086,
            8.73794174194336,
            8.882780075073242,
            9.378652572631836,
            9.902069091796875,
            10.878738403320312,
        ),
    },
}


@functools.cache
def form_of_log1p(kind: str) -> str:
    """Return the form for ``"f8"`` or ``"f4"``: Sun's with fused operations or without, or another one: ours."""
    found = tuple(drawn(_WORDS[kind], kind).tolist())
    return next((form for form, given in _GIVEN[kind].items() if given == found), OWN)


def drawn(uniforms: Any, kind: str) -> np.ndarray[Any, Any]:
    """Return what NumPy makes of uniform numbers; it takes the words that are in Philox's buffer as they are.

    These are exponentials: of f64 by inversion, which are the negative of ``log1p``, of f32 from the tail of their
    ziggurat, as inversion computes those with f64.
    """
    words = np.asarray(uniforms, np.uint64)
    is_wide = kind == "f8"
    words = words << np.uint64(11) if is_wide else words << np.uint64(40) | np.uint64(_TAIL)
    source = np.random.Philox(0)
    state: Any = dict(source.state)
    parts = []
    for buffer in words.reshape(-1, _PER_STATE):
        source.state = state | {"buffer": buffer, "buffer_pos": 0, "has_uint32": 0}
        draw: Any = np.random.Generator(source).standard_exponential
        parts.append(draw(_PER_STATE, kind, method="inv" if is_wide else "zig"))
    return np.concatenate(parts)


__all__ = ["FUSED", "OWN", "PLAIN", "drawn", "form_of_log1p"]
