"""Texts of operators: what `a + b`, `b + a`, `a += b` and `-a` do with small arrays on the host, and two on the device.

They are expanded by `inlining`; `operators` makes the operators of a row from them.
"""

from __future__ import annotations

import operator as python_operator
from collections.abc import Callable
from itertools import product
from math import ceil
from typing import Any, NamedTuple

import numpy as np

from oxinp._core.errors.state import quiet
from oxinp._core.lazy import schedule
from oxinp._core.lazy.handle import chain
from oxinp._core.lazy.inlining import HEAVY, compiled
from oxinp._core.lazy.results import pending
from oxinp._core.ufunc.table import UFUNCS, UfuncRow


def reach_of(row: UfuncRow) -> int:
    """Return at most what an element costs: none has more bytes; Python compares ints with the threshold faster."""
    return ceil(row.weight * 16)


# What becomes of a graph that is known by now, with its leaves and their mask.
_PENDING = """\
{indent}array = pending(graph, leaves, mask)
{indent}if len(PENDING) > schedule.room:
{indent}    schedule.make_room(array._held, 2)
{indent}return array
"""
# What small arrays on the host take. Each call copies the variables of `make`, so there are few of them.
_UNARY_TEXT = (
    """
def make(function, general, reach, itemsizes, pairs, renewed):
    rest = reach, itemsizes, pairs, renewed
    def operator(a):
        storage = a._held
        if storage is not None and storage.host is None:
            if a._known is None:  # as of what has not been selected yet
                return general(a)
            value = storage.value
            if value is None or current() is not quiet.state:
                return general(a)
            if value[0].layout is not a._known:
                value = chain(a)
            graph, leaves, mask = value
            record = rest[2].get((graph,)) or rest[3]((graph,))
            if record is None or record.graph is None or mask & SHARED:
                return general(a)
            graph = record.graph
            layout = graph.layout
            if layout.nbytes < balance.limit:
                return general(a)
"""
    + _PENDING.format(indent=" " * 12)
    + """\
        x = seen(a) else return general(a)
        known = few(a, x) by rest[0] of rest[1] else return general(a)
        if REPORTS:
            return general(a)
        result = called(function, x) else return general(a)
        return array_of(result, known)
    return operator
"""
)
OWN_NUMBERS: dict[type, tuple[np.dtype[Any], type]] = {
    kind: (np.dtype(kind), complex if issubclass(kind, np.complexfloating) else float)
    for kind in (np.float64, np.float32, np.complex128, np.complex64)
}
"""NumPy's numbers -> the dtype of the arrays beside which Python's mean the same, and the type of these."""
_OWN_NUMBER = """\
        if kind in OWN:  # a number of NumPy's of the array's dtype means what Python's own does
            storage = a._held
            own = OWN[kind]
            if storage is not None and storage.host is None and a._known and a._known.dtype is own[0]:
                b, kind = b.item(), own[1]
"""
_WITH_NUMBER = (
    _OWN_NUMBER
    + """\
        if kind is float or (kind is int and -PLAIN_INT <= b <= PLAIN_INT):
            storage = a._held
            if storage is not None and storage.host is None:
                # `with_number` and `wrap_pending`, spelled out: a call here is a tenth of the whole.
                if a._known is None:
                    return {general}(a, b)
                value = storage.value
                if value is None or current() is not quiet.state:
                    return {general}(a, b)
                if value[0].layout is not a._known:
                    value = chain(a)
                graph, leaves, mask = value
                record = rest[3].get({key}) or rest[4]({key})
                if record is None or record.graph is None or mask & SHARED:
                    return {general}(a, b)
                try:
                    number = record.convert[{place}](b)
                except OverflowError:
                    return {general}(a, b)
                graph = record.graph
                leaves = {leaves}
                layout = graph.layout
                if layout.nbytes < balance.limit:
                    return {general}(a, b)
{pending}
            x = seen(a) else return {general}(a, b)
            y = constant(b, x)
        elif kind in NUMBERS:
            x = seen(a) else return {general}(a, b)
            y = b
        else:
            return {general}(a, b)
        known = few(a, x) by rest[1] of rest[2], kind else return {general}(a, b)
        if REPORTS:
            return {general}(a, b)
        result = called(function, {operands}) else return {general}(a, b)
        return array_of(result, known)
"""
)
_BINARY_TEXT = (
    """
def make(function, general, general_reflected, is_small, reach, itemsizes, pairs, renewed, joined):
    has_grown = False
    rest = is_small, reach, itemsizes, pairs, renewed, joined  # one, for each call copies all
    def operator(a, b):
        nonlocal has_grown
        kind = type(b)
        if kind is ndarray:
            x = a._seen
            storage = a._held
            if x is None or (storage is not None and a._host is not storage.host):
                if storage.host is None:
                    # `paired` and `wrap_pending`, spelled out: a call here is a tenth of the whole.
                    if a._known is None:
                        return general(a, b)
                    value = storage.value
                    other = b._held
                    if other is None:
                        return general(a, b)
                    other = other.value
                    if value is None or other is None or current() is not quiet.state:
                        return general(a, b)
                    first, leaves, mask = value
                    if first.layout is not a._known:
                        first, leaves, mask = chain(a)
                        other = b._held.value or other  # which that may have computed
                    second, others, bits = other
                    if second.layout is not b._known:
                        second, others, bits = chain(b)
                    key = first, second
                    found = None
                    if mask & bits:
                        for entry in others:
                            if entry in leaves:
                                if len(others) > 1:
                                    found = rest[5]((first, leaves, mask), (second, others, bits))
                                    if found is None:
                                        return general(a, b)
                                else:
                                    key = first, second, leaves.index(entry)
                                break
                        else:
                            leaves += others
                    else:
                        leaves += others
                    if found is None:
                        mask |= bits
                        _, _, _, pairs, renewed, _ = rest
                        record = pairs.get(key) or renewed(key)
                        if record is None or record.graph is None or mask & SHARED:
                            return general(a, b)
                        graph = record.graph
                        layout = record.layout
                    else:
                        graph, leaves, mask = found
                        layout = graph.layout
                    if layout.nbytes < balance.limit:
                        return general(a, b)
"""
    + _PENDING.format(indent=" " * 20)
    + """\
                if storage.has_objects:
                    return general(a, b)
                x = host_view(a)
            y = seen(b) else return general(a, b)
            if has_grown or a._known is not FEW or b._known is not FEW:
                is_small, reach, _, _, _, _ = rest
                limit = config.offload_threshold
                n = x.size
                m = y.size
                if not 0 < n * m * reach < limit:
                    if x.shape != y.shape:
                        if not is_small(x, y):
                            return general(a, b)
                    elif n * reach >= limit:
                        # Elements may have 16 bytes; most have 8 at most.
                        itemsize = 8 if x.itemsize <= 8 >= y.itemsize else 16
                        if n * reach * itemsize >= 16 * limit:
                            # What has been learned of large ones, of which one in `SAMPLED` is weighed for all.
                            if n * itemsize >= balance.limit or reach >= WEIGHED:
                                if not is_small(x, y):
                                    return general(a, b)
                            elif is_sampled() and not is_small(x, y, SAMPLED):
                                return general(a, b)
                if n < SMALL:
                    mark(a, x)
                if m < SMALL:
                    mark(b, y)
                if REPORTS:
                    return general(a, b)
                result = called(function, x, y) else return general(a, b)
                return array_of(result, FEW if a._known is FEW is b._known and result.size < SMALL else None)
            if REPORTS:
                return general(a, b)
            result = called(function, x, y) else return general(a, b)
            if type(result) is not NumpyArray:
                return result
            if result.size >= SMALL:  # operands that are few are not compared, until they prove to be of other shapes
                has_grown = True
                return general(a, b)
            return few_elements(result)
"""
    + _WITH_NUMBER.format(
        general="general",
        operands="x, y",
        key="(graph, kind)",
        place=1,
        leaves="(*leaves, number)",
        pending=_PENDING.format(indent=" " * 16),
    )
    + """\
    def reflected(a, b):
        kind = type(b)
"""
    + _WITH_NUMBER.format(
        general="general_reflected",
        operands="y, x",
        key="(kind, graph)",
        place=0,
        leaves="(number, *leaves)",
        pending=_PENDING.format(indent=" " * 16),
    )
    + """\
    return operator, reflected
"""
)
_IN_PLACE_TEXT = """
def make(function, general, reach, itemsizes):
    def operator(a, b):
        x = a._seen
        host = a._host
        storage = a._held
        if x is None or (storage is not None and storage.host is not host):
            if storage.host is None or storage.has_objects:
                return general(a, b)
            host, x = host_and_view(a)
        kind = type(b)
        if kind is ndarray:
            y = seen(b) else return general(a, b)
        elif kind is float or (kind is int and -PLAIN_INT <= b <= PLAIN_INT):
            y = constant(b, x)
        elif kind in NUMBERS:
            y = b
        else:
            return general(a, b)
        known = few(a, x) by reach of itemsizes, kind else return general(a, b)
        if REPORTS:
            return general(a, b)
        if storage is None:
            if a._held is None:
                write called(function, x, y) of a, x, and return a
            return general(a, b)
        view = a._view
        if type(view) is not tuple or view[1]:
            write called(function, x, y) to storage and return a
        return general(a, b)
    return operator
"""


def takes_constants(row: UfuncRow) -> bool:
    """Whether a number next to an array means the same as an array of it, also in what is refused.

    Some powers are simpler for a number.
    """
    return bool(row.operators) and row.python is not python_operator.pow and "dd->" in " ".join(row.numpy.types)


def _of_numbers(text: str) -> str:
    """Return a text that leaves numbers what they are."""
    return text.replace("constant(b, x)", "b")


def _with_modulus(text: str) -> str:
    """Return a text whose operators take a third operand, as `pow` does, which arrays have no use for.

    Of what is simpler than a power elements cost less.
    """
    power, name, reflected = text.replace(_OWN_NUMBER, "").partition("    def reflected")
    text = power.replace("by rest[1] of", "by (REACHES.get(b) or rest[1]) of") + name + reflected
    return text.replace("(a, b):", "(a, b, modulus=None):").replace(
        "        kind =", "        if modulus is not None:\n            return NotImplemented\n        kind ="
    )


def _of_heavy(text: str) -> str:
    """Return a text whose functions cost more than additions, so that small arrays may be the device's."""
    return text.replace("has_grown = False", "has_grown = True").replace(" few(", " weighed(")


class Texts(NamedTuple):
    """What makes the operators of a kind of rows."""

    of_one: Callable[..., Any]
    of_two: Callable[..., Any]
    in_place: Callable[..., Any]
    of_numbers: Callable[..., Any]  # which leave numbers what they are
    of_numbers_in_place: Callable[..., Any]
    power: Callable[..., Any]


# Of scalar exponents of float and complex powers: what NumPy's loops compute for them.
SIMPLER = {2: "square", 0.5: "sqrt", -1: "reciprocal", 1: "positive"}
_REACHES = {number: reach_of(row) for number, name in SIMPLER.items() for row in UFUNCS if row.name == name}
_NAMES = {
    "REACHES": _REACHES,
    "OWN": OWN_NUMBERS,
    "PENDING": schedule.PENDING,
    "chain": chain,
    "quiet": quiet,
    "schedule": schedule,
    "pending": pending,
}


def _texts(*, may_warn: bool, is_heavy: bool) -> Texts:
    made = []
    for name, text in (
        ("operators of one array", _UNARY_TEXT),
        ("operators of two arrays", _BINARY_TEXT),
        ("operators in place", _IN_PLACE_TEXT),
        ("operators of numbers", _of_numbers(_BINARY_TEXT)),
        ("operators of numbers in place", _of_numbers(_IN_PLACE_TEXT)),
        ("powers", _with_modulus(_of_numbers(_BINARY_TEXT))),
    ):
        spelled, named = (_of_heavy(text), f"heavy {name}") if is_heavy else (text, name)
        made.append(compiled(named, spelled, may_warn=may_warn, names=_NAMES))
    return Texts(*made)


_TEXTS = {key: _texts(may_warn=key[0], is_heavy=key[1]) for key in product((False, True), repeat=2)}


def texts_of(row: UfuncRow) -> Texts:
    return _TEXTS[row.may_warn, reach_of(row) > HEAVY]


__all__ = ["OWN_NUMBERS", "SIMPLER", "Texts", "reach_of", "takes_constants", "texts_of"]
