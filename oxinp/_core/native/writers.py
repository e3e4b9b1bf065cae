"""What writes the machine code of each slot, function and method; imported when the first of them is called often."""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import partial

import numpy as np

from oxinp._config import before_change
from oxinp._core.host.draws import Draw
from oxinp._core.lazy import inlining
from oxinp._core.native import (
    calls,
    computing,
    dense,
    draws,
    elements,
    executing,
    inner_products,
    lifetime,
    lines,
    memory,
    names,
    nodes,
    numbers,
    objects,
    operators,
    pairing,
    parts,
    products,
    reading,
    renewing,
    row_launching,
    running,
    ufuncs,
    uploading,
    weighing,
    writing,
)
from oxinp._core.native.function import cells
from oxinp._core.ufunc.object import ufunc
from oxinp._core.ufunc.operator_texts import reach_of, takes_constants
from oxinp._core.ufunc.table import UFUNCS
from oxinp._runtime.memory import Buffer

_ROWS = {row.name: row for row in UFUNCS}
_RECORDING = {
    name: getattr(module, name)
    for module in (
        *(nodes, computing, dense, executing, inner_products, lines, memory, pairing),
        *(reading, renewing, row_launching, running, uploading, weighing, writing),
    )
    for name in module.__all__
}


@functools.cache
def _of_slots(kind: type) -> dict[tuple[type, str], Callable[[int], bytes]]:
    """Return what makes the code of each slot, by class and name, of the slot's function of before."""

    def numpys(name: str) -> int:
        address: int = objects.slot(np.ndarray, name).value
        return address

    of_arrays: dict[str, Callable[[int], bytes]] = {
        "length": partial(elements.length, kind),
        "subscript": partial(elements.subscript, kind),
        "ass_subscript": partial(elements.ass_subscript, kind),
        "compare": partial(operators.compare, kind, numpys=numpys("compare"), reach=reach_of(_ROWS["less"])),
        "matrix_multiply": partial(products.matrix_multiply, kind, numpys=numpys("matrix_multiply")),
        "power": partial(operators.power, kind, numpys=numpys("power"), reach=reach_of(_ROWS["power"])),
    }
    for name, (method, ufunc_name) in names.BINARY.items():
        row, in_place = _ROWS[ufunc_name], f"inplace_{name}"
        of_arrays[name] = partial(
            operators.binary,
            kind,
            numpys=numpys(name),
            slot=name,
            method=method,
            ufunc=row.numpy,
            reach=reach_of(row),
            is_kept=takes_constants(row),
        )
        of_arrays[in_place] = partial(
            operators.in_place,
            kind,
            numpys=numpys(in_place),
            ufunc=row.numpy,
            reach=reach_of(row),
            is_kept=takes_constants(row),
        )
    for name in names.UNARY:
        row = _ROWS[name]
        of_arrays[name] = partial(operators.unary, kind, numpys=numpys(name), ufunc=row.numpy, reach=reach_of(row))
    if lifetime.can_be_kept(kind):
        of_arrays["alloc"] = partial(lifetime.allocate, kind)
        of_arrays["dealloc"] = partial(lifetime.deallocate, kind)
    return {
        **{(kind, name): maker for name, maker in of_arrays.items()},
        **{
            (number, name): partial(numbers.beside_array, kind, name=name)
            for number in names.NUMBERS
            for name in names.OF_NUMBERS
        },
        (Buffer, "finalize"): partial(memory.finalize, Buffer),
        (ufunc, "call"): partial(ufuncs.call, ufunc, arrays=kind),
    }


def slot(arrays: type, kind: type, name: str, before: int) -> bytes | None:
    """Return the code of a class's slot, with the function of before; None if it had better have none.

    `arrays` is the class of arrays.
    """
    make = _of_slots(arrays).get((kind, name))
    return None if make is None else make(before)


def method_of_ufuncs(arrays: type, name: str, before: int) -> bytes:
    """Return the code of a call of a method of ufuncs."""
    return ufuncs.methods(arrays)[name](ufunc, before)


def method(arrays: type, name: str, before: int) -> bytes:
    """Return the code of a call of a method of arrays."""
    return calls.METHODS[name](arrays, before)


def attribute(arrays: type, name: str, before: int) -> bytes:
    """Return the code of what asks for an attribute."""
    return calls.attribute(arrays, before, name)


def part_of_layout(arrays: type, _: str, before: int) -> bytes:
    """Return the code of a call of `memory.parts.part_of`."""
    return parts.part_of(arrays, before)


def internal(arrays: type, name: str, before: int) -> bytes:
    """Return the code of a call of a function that records what is asked of arrays on the device."""
    made: bytes = _RECORDING[name](arrays, before)
    return made


def draw(arrays: type, of: Draw, before: int) -> bytes:
    """Return the code of a call of a function that draws random numbers."""
    return draws.drawn(arrays, before, of)


def function(arrays: type, name: str, before: int) -> bytes:
    """Return the code of a call of a function, by its name in NumPy."""
    return calls.FUNCTIONS[name](arrays, before)


def _update(_: object = None) -> None:
    few = inlining.meaning("FEW")
    cells[0], cells[1], cells[3] = id(few), inlining.meaning("SMALL"), inlining.meaning("SMALL") * inlining.HEAVY // 8


for setting in ("offload_threshold", "backend"):
    before_change.setdefault(setting, []).append(_update)
_update()

array_ufunc = ufuncs.array_ufunc

__all__ = [
    "array_ufunc",
    "attribute",
    "draw",
    "function",
    "internal",
    "method",
    "method_of_ufuncs",
    "part_of_layout",
    "slot",
]
