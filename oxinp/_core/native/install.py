"""Giving `ndarray` its slots in machine code, and taking them away again.

The code of a slot, method or function is written once that has been called so often that it pays. Until then a stub
counts its calls, see `counting`; what writes code is imported for the first one. What every program with a device goes
through is written while the driver starts, which takes longer.

The code lies in pages that may be executed and no longer written to; where a system allows no such pages, or objects
are laid out in another way than in `objects`, arrays keep the slots that Python gives them, and everything works.
"""

from __future__ import annotations

import atexit
import ctypes
import importlib
import os
import sys
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping
from functools import partial
from itertools import repeat
from threading import Lock, RLock
from types import FunctionType
from typing import Any

from oxinp._config import before_change, config
from oxinp._core.host.draws import DRAWS
from oxinp._core.lazy import inlining
from oxinp._core.lazy.balance import SAMPLED, Balance, balance, is_sampled
from oxinp._core.lazy.calls import Call, forget
from oxinp._core.lazy.chains import entry_at, line_again, line_of, matrix_of
from oxinp._core.lazy.combining import renew_pair
from oxinp._core.lazy.executor import Executable
from oxinp._core.lazy.expr import graph_of, leaf, reading, recorded
from oxinp._core.lazy.handle import chain, upload_first
from oxinp._core.lazy.placement import wants_mirror
from oxinp._core.lazy.record import paired
from oxinp._core.lazy.results import deferred, pending, wrap_pending, wrap_result
from oxinp._core.lazy.row_launches import row_launch, run_rows
from oxinp._core.lazy.schedule import materialise
from oxinp._core.lazy.straight import write_part
from oxinp._core.memory.layout import Layout, dense_of, spread
from oxinp._core.memory.parts import part_of
from oxinp._core.native import names, objects
from oxinp._core.native.counting import NEVER, Counted, stubs
from oxinp._core.native.pages import mapped
from oxinp._core.ops.vector_product import inner, operand
from oxinp._core.ufunc.object import ufunc
from oxinp._runtime import hooks
from oxinp._runtime.brief_uploads import BriefUploads
from oxinp._runtime.forking import free_in_children
from oxinp._runtime.memory import Buffer
from oxinp._runtime.stock import Stock

# A call in Python takes 0.3 to 5 us more than in machine code, and it takes 0.2 ms to write the code of one, as a rule:
# by then calls have cost about as much. Once it takes some 20 ms to import what writes it, a tenth of what the program
# has waited for this package by then; one that has called so often is in a loop, and there is more to come.
EACH = 64
"""Calls of one slot, method or function until its code is written."""
FIRST = 512
"""Calls of all of them together until any code is."""

_Write = Callable[[Any, type], "bytes | None"]  # (the module `writers`, the class of arrays)


class _Native:
    """A function in machine code, what counts the calls until there is any, and the function of before.

    Parameters
    ----------
    key : hashable
        By which it is known.
    before : object
        What the place has without machine code.
    write : callable
        Returns the code, or None if there had better be none, of `writers` and the class of arrays.
    counted : Counted or None
        What a stub is of; None where there can be none: such code is written with the first.
    """

    def __init__(self, key: Hashable, before: Any, write: _Write, counted: Counted | None) -> None:
        self.key, self.before, self.write, self.counted = key, before, write, counted
        self.stub: Any = None
        self.code: Any = None
        self.left: ctypes.c_int64 | None = None
        """How many calls are to come until then; None where they are not counted."""
        self.is_due = True
        """Whether its code is still to be written."""
        self.is_wanted = counted is None
        """Whether it is called often enough for that to pay."""

    def read(self) -> Any:
        """Return what the place has."""
        raise NotImplementedError

    def put(self, value: Any) -> None:
        """Let the place have something else."""
        raise NotImplementedError

    def made_of(self, address: int) -> Any:
        """Return what the place is to have, by where the code lies."""
        return address

    def follow(self, *, is_native: bool) -> None:
        """Put the code or the stub in the place of the function of before, or this in theirs.

        Where a method has been replaced Python has set the slot, and it stays so.
        """
        present = self.read()
        if present is None or present not in (self.before, self.stub, self.code):
            return
        wanted = (self.code or self.stub or self.before) if is_native else self.before
        if present != wanted:
            self.put(wanted)


class _Slot(_Native):
    """A slot of a class."""

    def __init__(self, kind: type, name: str, *, is_counted: bool = True, methods: Iterable[str] = ()) -> None:
        self._place = objects.slot(kind, name)
        before = self._place.value
        counted = Counted(
            before,
            failed=-1 if name in names.RETURNING_INTEGERS else 0,
            methods=tuple(getattr(kind, method) for method in methods),
            has_third=name == "power",
        )
        super().__init__(
            (kind, name),
            before,
            lambda writers, arrays: writers.slot(arrays, kind, name, before),
            counted if is_counted else None,
        )

    def read(self) -> Any:
        return self._place.value

    def put(self, value: Any) -> None:
        self._place.value = value


class _Call(_Native):
    """A function that Python wrote, called by machine code, and what calls it else.

    Parameters
    ----------
    function : function
    name : object
        What `of`, a function of the module `writers`, knows it by.
    of : str
    """

    def __init__(self, function: Any, name: Any, of: str) -> None:
        before = objects.vectorcall(function)
        super().__init__(
            function,
            before,
            lambda writers, arrays: getattr(writers, of)(arrays, name, before),
            Counted(before),
        )
        self._function = function

    def read(self) -> Any:
        return objects.vectorcall(self._function)

    def put(self, value: Any) -> None:
        objects.set_vectorcall(self._function, value)


class _Method(_Native):
    """A method that is machine code itself, and the one in Python that it goes on to."""

    def __init__(self, kind: type, name: str) -> None:
        before = kind.__dict__[name]
        super().__init__((kind, name), before, lambda writers, arrays: writers.array_ufunc(arrays, before), None)
        self._kind, self._name = kind, name

    def read(self) -> Any:
        return self._kind.__dict__[self._name]

    def put(self, value: Any) -> None:
        setattr(self._kind, self._name, value)

    def made_of(self, address: int) -> Any:
        return _method(self._kind, self._name, address)


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


def _slots(kind: type) -> Iterator[_Native]:
    """Yield what has machine code and is no function that Python wrote."""
    for name in names.SLOTS:
        yield _Slot(kind, name, methods=names.ASKING.get(name, ()))
    for number in names.NUMBERS:
        for name in names.OF_NUMBERS:
            yield _Slot(number, name)
    yield _Slot(ufunc, "call")
    # Each array comes and goes. What Python has in `dealloc` goes on to the first base's function that is another: that
    # would be the stub again.
    yield _Slot(kind, "alloc", is_counted=False)
    yield _Slot(kind, "dealloc", is_counted=False)
    yield _Slot(Buffer, "finalize", is_counted=False)
    yield _Method(kind, "__array_ufunc__")


def _numpys(path: str) -> Any:
    """Return a function of NumPy's by its name there, None where its module has not been imported."""
    module, _, name = path.rpartition(".")
    return getattr(sys.modules.get(f"numpy.{module}" if module else "numpy"), name, None)


def _name_of(function: Any) -> str:
    """Return how the module that writes the code of a function, or of a method, names that."""
    name: str = function.__qualname__
    return name.replace(".", "_").lower()


_RECORDING = (
    Balance.ran,
    BriefUploads.upload,
    Call.run,
    Executable.run,
    Executable.run_all,
    Layout.of,
    Stock.allocate,
    *(
        chain,
        deferred,
        dense_of,
        entry_at,
        forget,
        graph_of,
        inner,
        leaf,
        line_again,
        line_of,
        materialise,
        matrix_of,
        operand,
        paired,
        pending,
        reading,
        recorded,
        renew_pair,
        row_launch,
        run_rows,
        spread,
        upload_first,
        wants_mirror,
        wrap_pending,
        wrap_result,
        write_part,
    ),
)


def _calls(kind: type, functions: Mapping[Any, Any], known: Container[Any]) -> Iterator[_Native]:
    """Yield functions that Python wrote and that have machine code, but for those that are known."""
    if objects.VECTORCALL is None:
        return
    for function, name, of in (
        *((functions.get(_numpys(name)), name, "function") for name in names.FUNCTIONS),
        *((getattr(kind, name), name, "method") for name in names.METHODS),
        *((getattr(ufunc, name), name, "method_of_ufuncs") for name in names.OF_UFUNCS),
        *((getattr(kind, name).fget, name, "attribute") for name in names.ATTRIBUTES),
        (part_of, "part_of", "part_of_layout"),
        *((function, _name_of(function), "internal") for function in _RECORDING),
        *((function, draw, "draw") for function, draw in DRAWS.items()),
    ):
        if type(function) is FunctionType and function not in known:
            yield _Call(function, name, of)


_CHANGING = free_in_children(RLock())  # held for moments only, in which nothing is imported
_WRITING = free_in_children(Lock())


class Natives:
    """All that has machine code where arrays are of a class.

    Parameters
    ----------
    kind : type
        That of arrays.
    functions : mapping
        Functions of NumPy's -> ours, to which those of submodules are added later.
    """

    def __init__(self, kind: type, functions: Mapping[Any, Any]) -> None:
        self.kind = kind
        self._functions = functions
        self._all: dict[Hashable, _Native] = {}
        self._is_used = False
        self._is_written = False
        """Whether all code is written at once."""
        self._num_calls = 0
        self._writer = 0
        """The process in which a thread writes code. A child that has been forked meanwhile writes none: nobody goes on
        there with what that thread was importing."""

    def __iter__(self) -> Iterator[_Native]:
        return iter(tuple(self._all.values()))

    def __getitem__(self, key: Hashable) -> _Native:
        return self._all[key]

    def _count(self, natives: list[_Native]) -> None:
        """Let calls be counted of what has not been known yet; nothing is known where the system forbids code."""
        natives = list({each.key: each for each in natives}.values())  # some functions have two names
        counted = [(each, each.counted) for each in natives if each.counted is not None]
        made = stubs(self.kind, [(what, partial(self._count_out, each)) for each, what in counted], EACH)
        if made is None:
            return
        for (native, _), (stub, left) in zip(counted, made, strict=True):
            native.stub, native.left = stub, left
        for native in natives:
            self._all[native.key] = native
            native.follow(is_native=self._is_used)

    def count_more(self) -> None:
        """Let calls be counted of functions, too, that have been registered since."""
        with _CHANGING:
            more = list(_calls(self.kind, self._functions, self._all)) if self._all else []
            if more:
                self._count(more)
        if self._is_written:
            self._try_to_write(more)

    def _count_out(self, native: _Native) -> None:
        """Write the code of what has been called so often, once that pays."""
        assert native.left is not None
        native.left.value = EACH  # to be counted again, if this comes to nothing for now
        self._num_calls += EACH
        native.is_wanted = True
        if self._num_calls >= FIRST:
            self._try_to_write(each for each in self if each.is_wanted)

    def _try_to_write(self, natives: Iterable[_Native]) -> None:
        """Write code, unless another thread does so, or this one does."""
        if _WRITING.acquire(blocking=False):
            try:
                self._write(natives)
            finally:
                _WRITING.release()

    def _write(self, natives: Iterable[_Native]) -> None:
        """Write what code is still to be written; where that fails, what has been before stays for good."""
        due = [each for each in natives if each.is_due]
        if not due or self._writer not in (0, os.getpid()):
            return
        self._writer = os.getpid()
        codes = [self._code_of(each) for each in due]
        self._writer = 0
        addresses = mapped([code or b"" for code in codes]) or repeat(0)
        for native, code, address in zip(due, codes, addresses, strict=False):
            made = native.made_of(address) if code and address else None
            with _CHANGING:
                native.is_due, native.code, present = False, made, native.stub or native.before
                native.stub = None
                if self._is_used and native.read() == present:  # else somebody else has seen to that
                    native.put(made or native.before)
        with _CHANGING:
            self._weigh()

    def _code_of(self, native: _Native) -> bytes | None:
        try:
            return native.write(importlib.import_module("oxinp._core.native.writers"), self.kind)
        except Exception:  # noqa: BLE001 - whatever it is, nothing is lost but time
            return None

    def _weigh(self) -> None:
        """Let a view of a large array be weighed each time that it comes to Python, if only some do so.

        See `elements.subscript`; who goes through an array reads its elements by that, too, where it is code.
        """
        subscript = self._all.get((self.kind, "subscript"))
        is_code = self._is_used and subscript is not None and subscript.code is not None
        inlining.enter(
            is_weighed=repeat(object()).__next__ if is_code else is_sampled,
            times_weighed=lambda: balance.period if is_code else SAMPLED,
            has_code=is_code,
        )

    def follow(self, *, is_used: bool) -> None:
        """Let machine code be used, or not."""
        with _CHANGING:
            self._is_used = is_used
            for native in self:
                native.follow(is_native=is_used)
            if is_used and not self._all and objects.ARE_KNOWN:
                self._count([*_slots(self.kind), *_calls(self.kind, self._functions, ())])
            self._weigh()

    def write_ahead(self) -> None:
        """Write the code of slots, and of what records and launches, before there is a device to wait for them."""
        if self._is_used:
            self._num_calls = FIRST  # what others wait for is imported now
            self._try_to_write(each for each in self if type(each) is not _Call or each.key in _RECORDING)

    def write_all(self) -> None:
        """Write all code at once, and that of what is registered later, too."""
        with _WRITING:
            self._is_written = True
            self._write(self)

    def is_followed(self) -> bool:
        """Whether any slot of arrays has machine code, or what counts its calls."""
        return any(type(each) is _Slot and each.read() in (each.stub, each.code) for each in self)

    def leave(self) -> None:
        """Let everything be as before, as the process ends: what the code refers to is gone soon.

        No lock is waited for, which another thread may hold for ever.
        """
        self._is_used = False  # by what another thread is about to write
        for native in self:
            if native.left is not None:
                native.left.value = NEVER
            native.follow(is_native=False)


_known: dict[type, Natives] = {}


def install(kind: type) -> bool:
    """Give arrays and ufuncs slots in machine code, all written at once; return whether they have them.

    Called once the first array has been made.

    Parameters
    ----------
    kind : type
        That of arrays.
    """
    natives = _known[kind]
    natives.follow(is_used=True)
    natives.write_all()
    return natives.is_followed()


def uninstall(kind: type) -> None:
    """Give arrays and ufuncs their slots of before again."""
    _known[kind].follow(is_used=False)


def is_installed(kind: type) -> bool:
    """Whether arrays have slots in machine code, or what counts calls until it is written."""
    return _known[kind].is_followed()


def call_more() -> None:
    """Let functions, too, be called by machine code that have been registered since it was installed."""
    for natives in _known.values():
        natives.count_more()


def follow_setting(kind: type, functions: Mapping[Any, Any]) -> None:
    """Let arrays have slots in machine code, and functions be called so, while the setting `machine_code` says so.

    Parameters
    ----------
    kind : type
        That of arrays.
    functions : mapping
        Functions of NumPy's -> ours, to which those of submodules are added later.
    """
    natives = _known[kind] = Natives(kind, functions)
    atexit.register(natives.leave)
    hooks.while_starting.append(natives.write_ahead)
    before_change.setdefault("machine_code", []).append(lambda is_used: natives.follow(is_used=is_used))
    natives.follow(is_used=config.machine_code)


__all__ = ["EACH", "FIRST", "Natives", "call_more", "follow_setting", "install", "is_installed", "uninstall"]
