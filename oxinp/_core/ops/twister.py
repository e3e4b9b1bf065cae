"""Draws from MT19937 on the device: from NumPy's state, numbers and where that ends, which is read when needed."""

from __future__ import annotations

import importlib
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from oxinp._core.lazy.handle import Handle, fetch
from oxinp._core.lazy.op import BoundOp, Op
from oxinp._core.lazy.placement import device, keyed
from oxinp._core.memory.dtypes import INT64
from oxinp._core.memory.layout import Layout
from oxinp._core.ops.creation import asarray
from oxinp._core.ops.draws import UINT32, ask, log1p_of, table_of
from oxinp._runtime import hooks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.plan import Plan

FLOAT64 = np.dtype(np.float64)
_FAMILY = "oxinp._kernels.random"
_MAX_TABLES = 16


class Twist(NamedTuple):
    """Where an MT19937 stream is, as NumPy's state dictionaries say it.

    Attributes
    ----------
    key : ndarray
        624 words.
    position : int
        1 to 624.
    gauss : float or None
        The normal that is left over from a pair, for `numpy.random.RandomState` alone.
    is_legacy : bool
        The state is that of one.
    """

    key: np.ndarray[Any, Any]
    position: int
    gauss: float | None = None
    is_legacy: bool = False

    @staticmethod
    def of(numpys: dict[str, Any]) -> Twist | None:
        """Return the position that a state dictionary says; None where no word has been made of the key."""
        if numpys["bit_generator"] != "MT19937" or not 0 < numpys["state"]["pos"] <= 624:
            return None
        state, is_legacy = numpys["state"], "has_gauss" in numpys
        gauss = numpys["gauss"] if is_legacy and numpys["has_gauss"] else None
        return Twist(np.array(state["key"], UINT32), state["pos"], gauss, is_legacy)

    def numpys(self) -> dict[str, Any]:
        """Return the state dictionary."""
        state: dict[str, Any] = {"bit_generator": "MT19937", "state": {"key": self.key, "pos": self.position}}
        if self.is_legacy:
            state |= {"has_gauss": int(self.gauss is not None), "gauss": self.gauss or 0.0}
        return state


class TwistEnding(NamedTuple):
    """Where a draw ends.

    Attributes
    ----------
    began : Twist
    uses_gauss : bool
        The draw took the normal that was left over, and may have left one.
    words, left : Handle
        What it left on the device, see `oxinp._kernels.random.twister_plan.plan`.
    """

    began: Twist
    uses_gauss: bool
    words: Handle
    left: Handle

    def position(self) -> Twist:
        """Read where it is; this waits for the device.

        Raises
        ------
        RuntimeError
            The draw took more than its kernels provide for, of which the chance is as good as none.
        """
        words = fetch(self.words)
        taken, start = words[:2].tolist()
        if taken < 0:
            msg = f"a draw of random numbers from MT19937 at {self.began.position} did not end: please report it"
            raise RuntimeError(msg)
        key_at = importlib.import_module(f"{_FAMILY}.twister").key_at
        key, position = key_at(fetch(self.left), start, self.began.position, taken)
        began = self.began
        gauss = began.gauss
        if self.uses_gauss:
            gauss = float(words[2:3].view(FLOAT64)[0]) if words[3] else None
        return Twist(key, position, gauss, began.is_legacy)


def _infer(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:  # noqa: ARG001 - rows' signature
    dtype, shape = parameters[1:3]
    return Layout.of(dtype, shape), Layout.of(INT64, (4,)), Layout.of(UINT32, (624,))


def _plan(bound: BoundOp) -> Plan:
    name, _, _, cut, is_given = bound.parameters
    module = importlib.import_module(f"{_FAMILY}.twister_plan")
    plan: Plan = module.plan(
        name, bound.layouts[0].size, device().capability, cut=module.Streams(*cut), is_given=is_given
    )
    return plan


def _plan_variates(bound: BoundOp) -> Plan:
    name, dtype, _, cut, expected = bound.parameters
    streams = importlib.import_module(f"{_FAMILY}.twister_plan").Streams(*cut)
    module = importlib.import_module(f"{_FAMILY}.stored_plan")
    draw = module.Draw("MT19937", name, bound.layouts[0].size, expected=expected, log1p=log1p_of(dtype))
    plan: Plan = module.twisted_plan(draw, device().capability, streams)
    return plan


TWISTER = Op("random numbers of MT19937", _plan, _infer, draws=True)
VARIATES = Op("random variates of MT19937", _plan_variates, _infer, draws=True)
# Polynomials of a cut, on the device.
_polynomials: dict[Any, Handle] = {}
hooks.before_leaving.append(_polynomials.clear)  # `leave_device` does not find what `gc.freeze` hides


def draw(
    position: Twist,
    name: str,
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    parameters: Sequence[int] = (),
    chance: float = 1.0,
) -> tuple[Any, TwistEnding]:
    """Return an array of numbers, and where that ends.

    Parameters
    ----------
    position : Twist
    name : str
        A format of `oxinp._kernels.random.twister_formats`.
    dtype : numpy.dtype
        As wide as the format's.
    shape : tuple of int
    parameters : sequence of int
        Of the format.
    chance : float
        That an attempt is accepted, where that depends on parameters.
    """
    module = importlib.import_module(f"{_FAMILY}.twister_plan")
    made = importlib.import_module(f"{_FAMILY}.twister_formats").FORMATS[name]
    makes_pairs = made.gives > 1
    is_given = makes_pairs and position.gauss is not None
    size = math.prod(shape)
    cut = module.streams_of(name, size - is_given, chance)
    operands = _start(position, module, cut)
    if is_given:
        operands.append((FLOAT64, position.gauss))
    operands += [(type_.dtype, value) for type_, value in zip(made.parameters, parameters, strict=True)]
    array, words, left = ask(TWISTER, operands, (name, dtype, shape, tuple(cut), is_given))
    return array, TwistEnding(position, makes_pairs, words, left)


def variates(
    position: Twist,
    name: str,
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    parameters: Sequence[int] = (),
    expected: float = 0,
) -> tuple[Any, TwistEnding]:
    """Return an array of variates that take as many words as they need, and where that ends; see `draws.variates`."""
    variate = importlib.import_module(f"{_FAMILY}.variates").VARIATES[name]
    size = math.prod(shape)
    module = importlib.import_module(f"{_FAMILY}.twister_plan")
    planner = importlib.import_module(f"{_FAMILY}.stored_plan")
    cut = planner.twisted_cut(planner.Draw("MT19937", name, size, expected=expected), device().capability)
    operands = _start(position, module, cut)
    if variate.has_table:
        operands.append(table_of(name))
    operands += [(type_.dtype, value) for type_, value in zip(variate.parameters, parameters, strict=True)]
    array, words, left = ask(VARIATES, operands, (name, dtype, shape, tuple(cut), expected))
    return array, TwistEnding(position, False, words, left)


def _start(position: Twist, module: Any, cut: Any) -> list[Any]:
    """The inputs that say where a draw begins."""
    window_at = importlib.import_module(f"{_FAMILY}.twister").window_at
    operands: list[Any] = [asarray(window_at(position.key, position.position))]
    if cut.number > 1:
        operands.append(_polynomials_of(module, cut))
    return operands


def _polynomials_of(module: Any, cut: Any) -> Handle:
    key = keyed(cut)
    table = _polynomials.get(key)
    if table is None:
        if len(_polynomials) >= _MAX_TABLES:
            _polynomials.clear()
        table = _polynomials[key] = asarray(module.polynomials(cut))
    return table


__all__ = ["Twist", "TwistEnding", "draw", "variates"]
