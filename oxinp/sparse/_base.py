"""What all sparse classes have in common: the arrays of an object, SciPy's object that stands for it, delegation.

An object is a shape and parts, our arrays under SciPy's names (`FORMATS`); formats that SciPy keeps in Python objects
hold one of SciPy's instead. Whatever has no row of its own in the table of methods is SciPy's method, of an object of
SciPy's over the host sides of the parts; its results come back as ours by the rules of `exchange`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from types import GenericAlias
from typing import Any

import scipy.sparse

from oxinp._core.host import exchange, fallback
from oxinp._core.host.exchange import Exchange, is_array
from oxinp._core.lazy import placement, schedule
from oxinp._core.lazy.building import attempt
from oxinp._core.lazy.handle import device_value, fetch
from oxinp._core.lazy.record import is_hosted
from oxinp._core.lazy.results import types
from oxinp._core.memory.storage import SHARED

# THE FORMATS. Format -> the attributes that are its arrays; none: SciPy's object is held.
FORMATS: dict[str, tuple[str, ...]] = {
    "csr": ("data", "indices", "indptr"),
    "csc": ("data", "indices", "indptr"),
    "bsr": ("data", "indices", "indptr"),
    "coo": ("data", "coords"),
    "dia": ("data", "offsets"),
    "lil": (),
    "dok": (),
}
COMPRESSED = ("csr", "csc")
CLASSES: dict[str, Any] = {}
"""Name -> class of ours."""


class SparseType(type):
    """Makes SciPy's sparse objects instances of the classes of ours that take their place."""

    def __instancecheck__(cls, instance: Any) -> bool:
        theirs = cls.__dict__.get("_theirs")
        return type.__instancecheck__(cls, instance) or (theirs is not None and isinstance(instance, theirs))


class Sparse(metaclass=SparseType):
    """A sparse array or matrix; see `scipy.sparse.sparray`.

    Attributes
    ----------
    _parts : dict
        Attribute -> our array, or a tuple of them.
    _held : object or None
        SciPy's object, of a format without arrays.
    _flags : dict
        ``canonical`` and ``sorted``, where they are known.
    _known : dict
        Name -> the values of the storages that something was computed from, and what was.
    _twin : tuple or None
        SciPy's object over the same memory, see `_small`, our arrays that it consists of, and their memory.
    """

    __array_priority__ = 10.1  # SciPy's
    __class_getitem__ = classmethod(GenericAlias)
    _theirs: Any = scipy.sparse._base._spbase
    format = "und"

    _parts: dict[str, Any]
    _shape: tuple[int, ...]
    _held: Any
    _flags: dict[str, bool]
    _known: dict[str, tuple[tuple[Any, ...], Any]]
    _twin: tuple[Any, list[Any], list[Any]] | None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        made = BUILDERS["new"](type(self), args, kwargs)
        vars(self).update(vars(made))

    # -- what it is ----------------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the dimensions."""
        return self._shape if self._held is None else tuple(self._held.shape)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def dtype(self) -> Any:
        """Data type of the elements."""
        return self._parts["data"].dtype if self._held is None else self._held.dtype

    def get(self) -> Any:
        """Return an object of SciPy's class with copies of the arrays."""
        return given(self, fetch) if self._held is None else self._held.copy()

    def __reduce__(self) -> Any:
        return _unpickled, (self.get(),)

    def __getattr__(self, name: str) -> Any:
        if name.endswith("_container") and name[1:4] in FORMATS:
            kind = "array" if type.__instancecheck__(sparray, self) else "matrix"
            return CLASSES[f"{name[1:4]}_{kind}"]
        held = self.__dict__.get("_held")
        if held is None or name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        return getattr(held, name)

    def __setattr__(self, name: str, value: Any) -> None:
        parts = self.__dict__.get("_parts", {})
        if name in parts:
            parts[name] = tuple(map(_as_part, value)) if isinstance(value, tuple) else _as_part(value)
            self._flags.clear()
            vars(self)["_twin"] = None
        else:
            object.__setattr__(self, name, value)

    # -- what SciPy's own code asks of its objects beside public names ------------------------------------------------

    @property
    def _shape_as_2d(self) -> tuple[int, ...]:
        shape = self.shape
        return (1, shape[-1]) if len(shape) == 1 else shape

    def __len__(self) -> int:
        return len(self._theirs(self.shape) if self._held is None else self._held)

    def __bool__(self) -> bool:
        return bool(self.nnz) if self.shape == (1, 1) else bool(self._theirs(self.shape))

    def _deduped_data(self) -> Any:
        if hasattr(self, "sum_duplicates"):
            self.sum_duplicates()
        return self.data

    @classmethod
    def _swap(cls, pair: tuple[Any, Any]) -> tuple[Any, Any]:
        return pair[::-1] if cls.format == "csc" else pair

    # -- where it is ---------------------------------------------------------------------------------------------------

    def _arrays(self) -> list[Any]:
        """Return all arrays that it consists of."""
        found: list[Any] = []
        for part in self._parts.values():
            found += part if isinstance(part, tuple) else (part,)
        return found

    def _cached(self, name: str, parts: Iterable[str], make: Callable[[], Any]) -> Any:
        """Return what was made of some parts, which may be written to at any time: made again if they were."""
        arrays = [array for part in parts for array in _each(self._parts[part])]
        known = self._known.get(name)
        if known is not None and _are_as_known(arrays, known[0]):
            return known[1]
        values, made = attempt(_values, arrays), make()
        self._known[name] = values, made
        return made


class sparray(Sparse):  # noqa: N801 - SciPy's name
    __doc__ = scipy.sparse.sparray.__doc__
    _theirs = scipy.sparse.sparray
    __signature__ = inspect.signature(scipy.sparse.sparray)


class spmatrix(Sparse):  # noqa: N801
    __doc__ = scipy.sparse.spmatrix.__doc__
    _theirs = scipy.sparse.spmatrix
    __signature__ = inspect.signature(scipy.sparse.spmatrix)


BUILDERS: dict[str, Callable[..., Any]] = {}
"""``new``: what makes an object from a constructor's arguments, entered by the module above."""


def _are_as_known(arrays: list[Any], known: tuple[Any, ...]) -> bool:
    """Return whether arrays have the values that they had, unless others hold them, which write without telling."""
    if len(arrays) != len(known):
        return False
    for array, before in zip(arrays, known, strict=True):
        if before is None or before[2] & SHARED or array._storage.value is not before:
            return False
    return True


def _each(part: Any) -> tuple[Any, ...]:
    return part if isinstance(part, tuple) else (part,)


def _as_part(value: Any) -> Any:
    return value if is_array(value) else types.from_host(value)


def _values(arrays: list[Any]) -> tuple[Any, ...]:
    """Return the values of arrays on the device, which are others after every write; None for unknown ones."""
    return tuple([_computed(array._storage) for array in arrays])


def _computed(storage: Any) -> Any:
    device_value(storage)
    return None if storage.value is None else schedule.materialise(storage)


def build(name: str, parts: dict[str, Any], shape: tuple[int, ...], **flags: bool) -> Any:
    """Return an object of a class of ours, by its name, that consists of these arrays."""
    cls = CLASSES[name]
    made = cls.__new__(cls)
    vars(made).update(
        _parts=parts, _shape=tuple(shape), _held=None, _flags=flags, _known={}, _twin=None, maxprint=_MAXPRINT
    )
    return made


_MAXPRINT = 50


def sibling(self: Sparse, format_: str, parts: dict[str, Any], shape: tuple[int, ...], **flags: bool) -> Any:
    """Return an array where `self` is one, else a matrix, of some format."""
    kind = "array" if isinstance(self, sparray) else "matrix"
    return build(f"{format_}_{kind}", parts, shape, **flags)


def rebuilt(self: Sparse, parts: dict[str, Any]) -> Any:
    """Return an object of the same class and shape that consists of other arrays."""
    return build(type(self).__name__, parts, self.shape, **self._flags)


# -- to SciPy and back -------------------------------------------------------------------------------------------------


def given(self: Sparse, give: Callable[[Any], Any]) -> Any:
    """Return SciPy's object that stands for one of ours; `give` returns NumPy's arrays for ours."""
    if self._held is not None:
        return self._held
    parts = {
        name: tuple(map(give, part)) if isinstance(part, tuple) else give(part) for name, part in self._parts.items()
    }
    if self._twin is not None and all(part is getattr(self._twin[0], name) for name, part in parts.items()):
        return self._twin[0]
    data, *others = parts.values()
    arguments = (data, others[0]) if len(others) == 1 else (data, *others)
    made = self._theirs(arguments, shape=self._shape, copy=False)
    for name, part in parts.items():  # these very arrays, whatever was made of them
        setattr(made, name, part)
    made.maxprint = self.maxprint
    if self._flags.get("canonical"):
        made.has_canonical_format = True
    return made


def taken(theirs: Any, take: Callable[[Any], Any]) -> Any:
    """Return ours for an object of SciPy's; `take` returns ours for NumPy's arrays."""
    names = FORMATS[theirs.format]
    parts: dict[str, Any] = {}
    for name in names:
        part = getattr(theirs, name)
        parts[name] = tuple(map(take, part)) if isinstance(part, tuple) else take(part)
    made = build(type(theirs).__name__, parts, theirs.shape)
    flags = vars(theirs)
    if flags.get("_has_canonical_format") or flags.get("has_canonical_format"):
        made._flags["canonical"] = True
    made.maxprint = theirs.maxprint
    if not names:
        made._held = theirs
    return made


def _unpickled(theirs: Any) -> Any:
    """Return ours for an object of SciPy's that nobody else holds."""
    return taken(theirs, types.from_host)


def is_ours(value: Any) -> bool:
    """Whether a value is a sparse object of ours, not of SciPy's."""
    return type(type(value)) is SparseType


def as_ours(value: Any) -> Any:
    """Return a sparse object of SciPy's as ours, with copies of its arrays; anything else as it is."""
    return taken(value, types.from_host) if type(value) in exchange.taken_as else value


def is_small(*values: Any) -> bool:
    """Whether everything is on the host and belongs there."""
    first = values[0]._parts.get("data") if is_ours(values[0]) else None
    if first is not None and not is_hosted((first,)):
        return False
    most = 0
    for array in _arrays_in(values):
        if not is_hosted((array,)):
            return False
        most = max(most, array._layout.nbytes)
    return placement.is_host(most)


def _arrays_in(values: Iterable[Any]) -> Iterable[Any]:
    for value in values:
        if is_ours(value):
            yield from value._arrays()
        elif is_array(value):
            yield value
        elif isinstance(value, list | tuple):
            yield from _arrays_in(value)


def delegate(self: Sparse, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], *, writes: bool) -> Any:
    """Let SciPy compute a method on the host; count it, unless that is where it belongs.

    Parameters
    ----------
    self : Sparse
    name : str
        Of the method.
    args, kwargs
        Its arguments.
    writes : bool
        It may write to the parts, or put others in their place.
    """
    if self._held is None and not is_small(self, args, tuple(kwargs.values())):
        fallback.count(f"scipy.sparse.{type(self).__name__}.{name}")
    # SciPy sorts indices, and adds duplicates, in place when it needs that.
    writes = writes or (self.format in FORMATS and not self._flags.get("canonical"))
    if writes:
        vars(self)["_twin"] = None
    used = Exchange(self._arrays() if writes else (), whole=True)
    try:
        theirs = used.give(self)
        host_args = [used.give(value) for value in args]
        host_kwargs = {key: used.give(value) for key, value in kwargs.items()}
        result = getattr(theirs, name)(*host_args, **host_kwargs)
    finally:
        used.settle()
    if writes and self._held is None:
        after = taken(theirs, used.take)
        vars(self).update(_parts=after._parts, _shape=after._shape, _flags=after._flags, _twin=None)
    return used.take(result)


__all__ = [
    "BUILDERS",
    "CLASSES",
    "COMPRESSED",
    "FORMATS",
    "Sparse",
    "SparseType",
    "as_ours",
    "build",
    "delegate",
    "given",
    "is_ours",
    "is_small",
    "rebuilt",
    "sibling",
    "sparray",
    "spmatrix",
    "taken",
]
