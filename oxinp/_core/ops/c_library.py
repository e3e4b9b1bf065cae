"""Which form of ``log1p`` and of ``expm1`` the C library has that NumPy draws with, by what it draws."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

FUSED, PLAIN, OWN = "fused", "plain", "own"  # see `oxinp._kernels.random.libm_log1p`
_BUFFERED = 4  # words of Philox's buffer,
_PER_STATE = 3  # of which one at least has been taken in every state that NumPy knows
_TAIL = 0xFFFFFE01  # half a word that exponentials of f32 take for the tail's


class _Probe(NamedTuple):
    """What NumPy makes of some words in the forms of a function.

    Attributes
    ----------
    draw : callable
        ``draw(generator, count)``: numbers of a word each, which is made of one of `numbers` by ``word(number)``.
    word : callable
    numbers : tuple of int
        Forms give different results for the first half of those of f64, and not the nearest ones for the others; that
        of f32 others than the nearest.
    given : dict
        By form, the results.
    """

    draw: Callable[[Any, int], Any]
    word: Callable[[Any], Any]
    numbers: tuple[int, ...]
    given: dict[str, tuple[float, ...]]


_SAME_LOG1P = (
    0.5889246627648952,
    0.9733353477688838,
    0.03633237833571032,
    0.7790184543538967,
    0.4904215452058778,
    0.5149981468189908,
    1.085344905928694,
    0.47206629288237223,
)
_SAME_EXPM1 = (
    0.9005902584757393,
    0.7666686099750306,
    1.5317643635028495,
    3.0815934102943983,
    0.09796102092609077,
    12.325313901877625,
    0.13473399050889062,
    10.683276603124462,
)
_PROBES = {
    # of uniform numbers of 53 bits, exponentials by inversion
    "log1p_f8": _Probe(
        lambda generator, count: generator.standard_exponential(count, method="inv"),
        lambda uniform: uniform << np.uint64(11),
        (
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
        {
            PLAIN: (
                0.14200833650323028,
                0.9841339650135978,
                0.23295603743823942,
                1.1846254325671972,
                1.7022176685471881,
                0.2523155629168305,
                0.2386710439010263,
                0.35553173562440443,
                *_SAME_LOG1P,
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
                *_SAME_LOG1P,
            ),
        },
    ),
    # of uniform numbers of 24 bits, exponentials of a ziggurat's tail: inversion computes those of f32 in f64
    "log1p_f4": _Probe(
        lambda generator, count: generator.standard_exponential(count, np.float32),
        lambda uniform: uniform << np.uint64(40) | np.uint64(_TAIL),
        (
            4362451,
            7078571,
            9938468,
            10852114,
            11651042,
            13655178,
            14927431,
            16080655,
        ),
        {
            PLAIN: (
                7.998252868652344,
                8.245153427124023,
                8.594533920288086,
                8.73794174194336,
                8.882780075073242,
                9.378652572631836,
                9.902069091796875,
                10.878738403320312,
            )
        },
    ),
    # of words that a ziggurat accepts at once, Pareto's numbers
    "expm1_f8": _Probe(
        lambda generator, count: generator.pareto(1.0, count),
        lambda word: word,
        (
            1670738358163006982,
            4083665497105908609,
            13322344059741704342,
            16778227917040932988,
            10215727535401529641,
            1668859121546016572,
            13499080055861459073,
            9019219898755326105,
            7535000681350505412,
            5007398277164600572,
            8055085356905442575,
            9341154523988768291,
            1583206403102415468,
            13676815797705395948,
            8556049265609979980,
            14730155796967501445,
        ),
        {
            PLAIN: (
                0.27575928659667803,
                0.3868455137349053,
                0.3499758581630692,
                0.40224205915858013,
                0.43630577912376506,
                0.42606039769436205,
                0.32700145802903535,
                0.23370046406936773,
                *_SAME_EXPM1,
            ),
            FUSED: (
                0.2757592865966781,
                0.38684551373490533,
                0.34997585816306925,
                0.4022420591585801,
                0.4363057791237651,
                0.4260603976943621,
                0.3270014580290354,
                0.23370046406936776,
                *_SAME_EXPM1,
            ),
        },
    ),
}


@functools.cache
def form_of(name: str) -> str:
    """Return the form of ``"log1p_f8"``, ``"log1p_f4"`` or ``"expm1_f8"``.

    That is Sun's with fused operations or without, or another one, in place of which ours is taken.
    """
    probe = _PROBES[name]
    found = tuple(drawn(name, probe.numbers).tolist())
    return next((form for form, given in probe.given.items() if given == found), OWN)


def drawn(name: str, numbers: Any) -> np.ndarray[Any, Any]:
    """Return what NumPy makes of numbers, see `_Probe`; it takes the words that are in Philox's buffer as they are."""
    probe = _PROBES[name]
    source = np.random.Philox(0)
    state: Any = dict(source.state)
    words, parts = probe.word(np.asarray(numbers, np.uint64)), []
    for start in range(0, len(words), _PER_STATE):
        given = words[start : start + _PER_STATE]
        buffer = np.zeros(_BUFFERED, np.uint64)
        buffer[_BUFFERED - len(given) :] = given
        source.state = state | {"buffer": buffer, "buffer_pos": _BUFFERED - len(given), "has_uint32": 0}
        parts.append(probe.draw(np.random.Generator(source), len(given)))
    return np.concatenate(parts)


__all__ = ["FUSED", "OWN", "PLAIN", "drawn", "form_of"]
