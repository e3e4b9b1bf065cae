"""Giving `ndarray` its slots in machine code, and taking them away again.

The code lies in pages that may be executed and no longer written to; where a system allows no such pages, or objects
are laid out in another way than in `objects`, arrays keep the slots that Python gives them, and everything works.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import mmap
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import accumulate, repeat
from threading import RLock
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from oxinp._config import before_change, config
from oxinp._core.lazy import inlining
from oxinp._core.lazy.balance import is_sampled
from oxinp._core.native import calls, elements, lifetime, numbers, objects, operators, products, ufuncs
from oxinp._core.native.function import cells
from oxinp._core.ufunc.object import ufunc
from oxinp._core.ufunc.operator_texts import reach_of, takes_constants
from oxinp._core.ufunc.table import UFUNCS
from oxinp._runtime.forking import free_in_children

_ROWS = {row.name: row for row in UFUNCS}
_BINARY = {
    "add": ("add", "add"),
    "subtract": ("sub", "subtract"),
    "multiply": ("mul", "multiply"),
    "true_divide": ("truediv", "divide"),
    "floor_divide": ("floordiv", "floor_divide"),
    "remainder": ("mod", "remainder"),
    "and": ("and", "bitwise_and"),
    "or": ("or", "bitwise_or"),
    "xor": ("xor", "bitwise_xor"),
    "lshift": ("lshift", "left_shift"),
    "rshift": ("rshift", "right_shift"),
}
"""Slots of operators, and what their methods and their ufuncs are called."""
_IN_PLACE = (
    *("add", "subtract", "multiply", "true_divide", "floor_divide", "remainder"),
    *("and", "or", "xor", "lshift", "rshift"),
)
_OF_NUMBERS = ("add", "subtract", "multiply", "true_divide")
_UNARY = ("negative", "absolute", "invert")
_ALIGNMENT = 16


class _Slot(NamedTuple):
    """A slot's function in machine code, and the one that it stands before."""

    kind: type
    name: str
    address: int
    before: int

    def exchange(self, *, is_native: bool) -> None:
        """Put one in the place of the other, unless a method has been replaced and Python has set the slot."""
        place = objects.slot(self.kind, self.name)
        present, wanted = (self.before, self.address) if is_native else (self.address, self.before)
        if place.value == present:
            place.value = wanted


class _Method(NamedTuple):
    """A method in machine code, and the one in Python that it goes on to."""

    kind: type
    name: str
    native: Any
    before: Any

    def exchange(self, *, is_native: bool) -> None:
        """Put one in the place of the other, unless that has been replaced."""
        present, wanted = (self.before, self.native) if is_native else (self.native, self.before)
        if self.kind.__dict__[self.name] is present:
            setattr(self.kind, self.name, wanted)


class _Call(NamedTuple):
    """A function that Python wrote, called by machine code, and what calls it else."""

    function: Any
    address: int
    before: int

    def exchange(self, *, is_native: bool) -> None:
        """Let one call it, unless somebody else has seen to that."""
        present, wanted = (self.before, self.address) if is_native else (self.address, self.before)
        if objects.vectorcall(self.function) == present:
            objects.set_vectorcall(self.function, wanted)


_CHANGING = free_in_children(RLock())
_functions: Mapping[Any, Any] = {}  # of NumPy's -> ours


def _makers(kind: type) -> dict[tuple[type, str], Callable[[int], bytes]]:
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
    for name, (method, ufunc_name) in _BINARY.items():
        row = _ROWS[ufunc_name]
        of_arrays[name] = partial(
            operators.binary,
            kind,
            numpys=numpys(name),
            name=method,
            ufunc=row.numpy,
            reach=reach_of(row),
            is_kept=takes_constants(row),
        )
    for name in _IN_PLACE:
        row = _ROWS[_BINARY[name][1]]
        of_arrays[f"inplace_{name}"] = partial(
            operators.in_place,
            kind,
            numpys=numpys(f"inplace_{name}"),
            ufunc=row.numpy,
            reach=reach_of(row),
            is_kept=takes_constants(row),
        )
    for name in _UNARY:
        of_arrays[name] = partial(
            operators.unary, kind, numpys=numpys(name), ufunc=_ROWS[name].numpy, reach=reach_of(_ROWS[name])
        )
    if lifetime.can_be_kept(kind):
        of_arrays["alloc"] = partial(lifetime.allocate, kind)
        of_arrays["dealloc"] = partial(lifetime.deallocate, kind)
    return {
        **{(kind, name): maker for name, maker in of_arrays.items()},
        **{
            (number, name): partial(numbers.beside_array, kind, name=name)
            for number in (np.float64, np.float32, np.int64, np.complex128, np.int32, np.uint8)
            for name in _OF_NUMBERS
        },
        (ufunc, "call"): partial(ufuncs.call, ufunc, arrays=kind),
    }


def _mapped(code: bytes) -> int | None:
    """Return where code may be executed; None if the system forbids that."""
    try:
        pages = mmap.mmap(-1, len(code), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, ValueError):
        return None
    pages.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    protect = ctypes.CDLL(None).mprotect
    protect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    if protect(address, len(code), mmap.PROT_READ | mmap.PROT_EXEC):
        return None
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(pages))  # for good: other threads may be in it at the very end
    return address


def _update(_: object = None) -> None:
    few = inlining.meaning("FEW")
    cells[0], cells[1], cells[3] = id(few), inlining.meaning("SMALL"), inlining.meaning("SMALL") * inlining.HEAVY // 8


class _Definition(ctypes.Structure):
    """What Python's C API calls `PyMethodDef`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("documentation", ctypes.c_char_p),
    )


_VARARGS_AND_KEYWORDS = 3
_definitions: list[_Definition] = []  # which Python refers to


def _method(kind: type, name: str, address: int) -> Any:
    """Return a method of a class that is machine code."""
    definition = _Definition(name.encode(), address, _VARARGS_AND_KEYWORDS, None)
    _definitions.append(definition)
    new = ctypes.pythonapi.PyDescr_NewMethod
    new.argtypes, new.restype = (ctypes.py_object, ctypes.POINTER(_Definition)), ctypes.py_object
    return new(kind, definition)


def _of(kind: type, make: Callable[..., bytes]) -> Callable[[type, int], bytes]:
    """Return what makes the code of a method of another class than that of arrays."""
    return lambda _, before: make(kind, before)


def _called(kind: type) -> Iterator[tuple[Any, Callable[[type, int], bytes]]]:
    """Yield the functions that Python wrote, and what makes the code of their calls."""
    if objects.VECTORCALL is None:
        return
    for function, make in (
        *((_functions.get(theirs), make) for theirs, make in calls.FUNCTIONS.items()),
        *((getattr(kind, name), make) for name, make in calls.METHODS.items()),
        *((getattr(ufunc, name), _of(ufunc, make)) for name, make in ufuncs.methods(kind).items()),
        (kind.__dict__["T"].fget, calls.transposed),
    ):
        if type(function) is FunctionType:
            yield function, make


@functools.cache
def _made(kind: type) -> tuple[_Slot | _Method | _Call, ...]:
    """Return the slots, methods and calls in machine code, or none if they cannot be."""
    if not objects.ARE_KNOWN:
        return ()
    parts: list[bytes] = []
    placed: list[tuple[Callable[..., _Slot | _Call], Any]] = []
    for (each, name), make in _makers(kind).items():
        before = objects.slot(each, name).value
        parts.append(make(before))
        placed.append((partial(_Slot, each, name), before))
    for function, make_call in _called(kind):
        before = objects.vectorcall(function)
        parts.append(make_call(kind, before))
        placed.append((partial(_Call, function), before))
    method = kind.__dict__["__array_ufunc__"]
    parts.append(ufuncs.array_ufunc(kind, method))
    addresses = _addresses(parts)
    if addresses is None:
        return ()
    return (
        _Method(kind, "__array_ufunc__", _method(kind, "__array_ufunc__", addresses.pop()), method),
        *(make(address, before) for (make, before), address in zip(placed, addresses, strict=True)),
    )


def _addresses(parts: list[bytes]) -> list[int] | None:
    """Return where parts of code may be executed; None if the system forbids that."""
    parts = [part + bytes(-len(part) % _ALIGNMENT) for part in parts]
    first = _mapped(b"".join(parts))
    return None if first is None else list(accumulate(map(len, parts[:-1]), initial=first))


_later: dict[type, list[_Call]] = {}
"""By the class of arrays, calls of functions of submodules, which are registered when one is first wanted."""


def _natives(kind: type) -> Iterator[_Slot | _Method | _Call]:
    yield from _made(kind)
    yield from _later.get(kind, ())


def call_more() -> None:
    """Let functions, too, be called by machine code that have been registered since it was written."""
    with _CHANGING:
        for kind in _later:
            if not _made(kind):
                continue
            known = {native.function for native in _natives(kind) if type(native) is _Call}
            called = [(function, make) for function, make in _called(kind) if function not in known]
            befores = [objects.vectorcall(function) for function, _ in called]
            addresses = _addresses([make(kind, before) for (_, make), before in zip(called, befores, strict=True)])
            if not called or addresses is None:
                continue
            made = list(map(_Call, (function for function, _ in called), addresses, befores))
            _later[kind] += made
            for native in made if config.machine_code else ():
                native.exchange(is_native=True)


def install(kind: type) -> bool:
    """Give arrays and ufuncs slots in machine code; return whether they have them.

    Parameters
    ----------
    kind : type
        That of arrays.
    """
    with _CHANGING:
        _update()
        for native in _natives(kind):
            native.exchange(is_native=True)
        is_possible = bool(_made(kind))
        if is_possible:  # a view of a large array that comes to Python is to be weighed, see `elements.subscript`
            inlining.enter(is_weighed=repeat(object()).__next__)
        return is_possible


def uninstall(kind: type) -> None:
    """Give arrays and ufuncs their slots of before again."""
    with _CHANGING:
        for native in _natives(kind):
            native.exchange(is_native=False)
        inlining.enter(is_weighed=is_sampled)


def is_installed(kind: type) -> bool:
    """Whether arrays have slots in machine code."""
    return any(
        type(native) is _Slot and objects.slot(native.kind, native.name).value == native.address
        for native in _made(kind)
    )


def _change(kind: type, is_wanted: bool) -> None:
    if is_wanted:
        install(kind)
    else:
        uninstall(kind)


def _leave(kind: type) -> None:
    """Give arrays their slots of before again, as the process ends: what the code refers to is gone soon.

    No lock is waited for, which another thread may hold for ever.
    """
    if _made.cache_info().currsize:
        for native in _natives(kind):
            native.exchange(is_native=False)


def follow_setting(kind: type, functions: Mapping[Any, Any]) -> None:
    """Let arrays have slots in machine code, and functions be called so, while the setting `machine_code` says so.

    Parameters
    ----------
    kind : type
        That of arrays.
    functions : mapping
        Functions of NumPy's -> ours, to which those of submodules are added later.
    """
    global _functions
    _functions = functions
    _later.setdefault(kind, [])
    atexit.register(_leave, kind)
    for setting in ("offload_threshold", "backend"):
        before_change.setdefault(setting, []).append(_update)
    before_change.setdefault("machine_code", []).append(partial(_change, kind))
    _change(kind, config.machine_code)


__all__ = ["call_more", "follow_setting", "install", "is_installed", "uninstall"]
