"""Permutations drawn on the device: NumPy's, from a position in its stream, and where that ends."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from oxinp._core.lazy.op import BoundOp, Op
from oxinp._core.lazy.placement import device
from oxinp._core.memory.dtypes import INT64
from oxinp._core.memory.layout import Layout
from oxinp._core.ops import draws, twister
from oxinp._core.ops.draws import UINT32, Counter, Ending, Position
from oxinp._core.ops.twister import Twist, TwistEnding

if TYPE_CHECKING:
    from oxinp._kernels.plan import Plan

_FAMILY = "oxinp._kernels.random.shuffle"
MAX_SIZE = 1 << 30
_KEY_WORDS = 624


def _infer(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:  # noqa: ARG001 - rows' signature
    size, _, leaves_key = parameters
    found = Layout.of(INT64, (size,)), Layout.of(INT64, (2,))
    return (*found, Layout.of(UINT32, (_KEY_WORDS,))) if leaves_key else found


def _plan(bound: BoundOp) -> Plan:
    size, is_shifted, leaves_key = bound.parameters
    count = bound.graphs[0].layout.size
    plan: Plan = importlib.import_module(_FAMILY).plan(
        size, count, device().capability, is_shifted=is_shifted, leaves_key=leaves_key
    )
    return plan


PERMUTATION = Op("random permutation", _plan, _infer, draws=True)


def permutation(position: Position | Counter | Twist, size: int) -> tuple[Any, Ending | TwistEnding]:
    """Return the numbers of the elements that come to each place of a shuffled vector, and where that ends.

    Parameters
    ----------
    position : Position, Counter or Twist
    size : int
        Above 624, and at most `MAX_SIZE`.
    """
    count = importlib.import_module(_FAMILY).num_words(size)
    if isinstance(position, Twist):
        words, _ = twister.draw(position, "halves", UINT32, (count,))
        order, taken, left = draws.ask(PERMUTATION, [words], (size, False, True))
        return order, TwistEnding(position, False, taken, left)
    words, _ = draws.fill(position, "halves", UINT32, (count,))
    order, taken = draws.ask(PERMUTATION, [words], (size, position.has_half, False))
    return order, Ending(position, 2, taken)


__all__ = ["MAX_SIZE", "permutation"]
