"""`ndarray.flags`: what NumPy's flags object says, read off the layout and the handle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oxinp._core.lazy.handle import Handle, base_of, is_writeable


def _is_aligned(handle: Handle) -> bool:
    layout = handle._layout
    alignment = layout.dtype.alignment
    return layout.offset % alignment == 0 and not any(step % alignment for step in layout.strides)


# THE FLAGS TABLE: attribute -> (the keys that `flags[key]` takes, what it says).
_ROWS: dict[str, tuple[tuple[str, ...], Callable[[Handle], bool]]] = {
    "c_contiguous": (("C_CONTIGUOUS", "C", "CONTIGUOUS"), lambda x: x._layout.is_contiguous),
    "f_contiguous": (("F_CONTIGUOUS", "F", "FORTRAN"), lambda x: x._layout.is_fortran),
    "owndata": (("OWNDATA", "O"), lambda x: base_of(x) is None),
    "writeable": (("WRITEABLE", "W"), is_writeable),
    "aligned": (("ALIGNED", "A"), _is_aligned),
    "writebackifcopy": (("WRITEBACKIFCOPY", "X"), lambda x: False),  # noqa: ARG005
    "fnc": (("FNC",), lambda x: x._layout.is_fortran and not x._layout.is_contiguous),
    "forc": (("FORC",), lambda x: x._layout.is_fortran or x._layout.is_contiguous),
    "behaved": (("BEHAVED", "B"), lambda x: _is_aligned(x) and is_writeable(x)),
    "carray": (("CARRAY", "CA"), lambda x: _is_aligned(x) and is_writeable(x) and x._layout.is_contiguous),
    "farray": (
        ("FARRAY", "FA"),
        lambda x: _is_aligned(x) and is_writeable(x) and x._layout.is_fortran and not x._layout.is_contiguous,
    ),
}
_KEYS = {key: name for name, (keys, _) in _ROWS.items() for key in keys}
_ALIASES = {"contiguous": "c_contiguous", "fortran": "f_contiguous"}
# The bits of `flags.num`, which are NumPy's C interface.
_BITS = {"c_contiguous": 0x1, "f_contiguous": 0x2, "owndata": 0x4, "aligned": 0x100, "writeable": 0x400}
_SHOWN = ("c_contiguous", "f_contiguous", "owndata", "writeable", "aligned", "writebackifcopy")


class Flags:
    """The flags of an array; see `numpy.ndarray.flags`.

    Only ``writeable`` means something to set: ``aligned`` may be set to what it is, ``writebackifcopy`` to False.
    """

    __slots__ = ("_handle",)

    _handle: Handle

    def __init__(self, handle: Handle) -> None:
        object.__setattr__(self, "_handle", handle)

    def __getattr__(self, name: str) -> Any:
        if name == "num":
            return sum(bit for flag, bit in _BITS.items() if getattr(self, flag))
        row = _ROWS.get(_ALIASES.get(name, name))
        if row is None:
            raise AttributeError(f"'numpy.flagsobj' object has no attribute {name!r}")
        return row[1](self._handle)

    def __setattr__(self, name: str, value: Any) -> None:
        setter = _SETTERS.get(name)
        if setter is None:
            known = name in _ROWS or name in _ALIASES or name == "num"
            what = f"attribute {name!r} of 'numpy.flagsobj' objects is not writable"
            raise AttributeError(what if known else f"'numpy.flagsobj' object has no attribute {name!r}")
        setter(self._handle, bool(value))

    def __getitem__(self, key: Any) -> bool:
        if key not in _KEYS:
            raise KeyError("Unknown flag")
        return bool(getattr(self, _KEYS[key]))

    def __setitem__(self, key: Any, value: Any) -> None:
        if _KEYS.get(key) not in _SETTERS:
            raise KeyError("Unknown flag")
        setattr(self, _KEYS[key], value)

    def __eq__(self, other: object) -> bool:
        return self.num == other.num if isinstance(other, Flags) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "".join(f"  {name.upper()} : {getattr(self, name)}\n" for name in _SHOWN)


def _set_writeable(handle: Handle, value: bool) -> None:
    base = base_of(handle)
    if value == is_writeable(handle):
        return
    if value and base is not None and not (is_writeable(base) if isinstance(base, Handle) else _is_let(handle)):
        raise ValueError("cannot set WRITEABLE flag to True of this array")
    is_whole = _is_whole(handle)
    handle._view = None if value and base is None and is_whole else (base, value)
    handle._host = handle._seen = None  # what NumPy made of it has a flag of its own


def _is_let(handle: Handle) -> bool:
    """Whether those whose memory an array lies in let it be written."""
    host = handle._storage.host
    return host is not None and host.flags.writeable


def _is_whole(handle: Handle) -> bool:
    """Whether a handle that owns its storage also lies in it as it was made, so that it may be given a new value."""
    storage = handle._storage
    if storage.value is not None:
        return storage.value[0].layout is handle._layout
    host, layout = storage.host, handle._layout
    return host is not None and host.shape == layout.shape and host.strides == layout.strides


def _set_aligned(handle: Handle, value: bool) -> None:
    if value and not _is_aligned(handle):
        raise ValueError("cannot set aligned flag of mis-aligned array to True")


def _set_writeback(handle: Handle, value: bool) -> None:  # noqa: ARG001 - one signature for all
    if value:
        raise ValueError("cannot set WRITEBACKIFCOPY flag to True")


_SETTERS: dict[str | None, Callable[[Handle, bool], None]] = {
    "writeable": _set_writeable,
    "aligned": _set_aligned,
    "writebackifcopy": _set_writeback,
}


def setflags(handle: Handle, write: Any = None, align: Any = None, uic: Any = None) -> None:
    """Set flags that are given; see `numpy.ndarray.setflags`."""
    for setter, value in ((_set_aligned, align), (_set_writeback, uic), (_set_writeable, write)):
        if value is not None:
            setter(handle, bool(value))
