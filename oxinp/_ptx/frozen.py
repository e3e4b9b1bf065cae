"""Immutable records: what frozen dataclasses are, without compiling methods for each class while modules load."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, ClassVar, Self, dataclass_transform


class _Deferred:
    """A field that may be given as a function of the record, which is called when the field is first read."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, record: Any, owner: type) -> Any:
        if record is None:
            return self
        value = vars(record)[self._name]
        if callable(value):
            value = vars(record)[self._name] = value(record)
        return value

    def __set__(self, record: Any, value: Any) -> None:
        raise AttributeError(f"{type(record).__name__} is immutable: {self._name} cannot be set")


def deferred() -> Any:
    """Mark a field of a `Frozen` class that may be given as a function of the record: ``text: str = deferred()``."""
    return _Deferred()


@dataclass_transform(frozen_default=True, field_specifiers=(deferred,))
class Frozen:
    """Base of records whose annotations are their fields, in order; two are equal if all fields are.

    A subclass made with ``eq=False`` compares by identity, one made with ``aside=("a",)`` neither compares nor shows
    the field ``a``. Making a frozen dataclass takes about a millisecond, and `import oxinp` would make dozens.

    Raises
    ------
    TypeError
        A field is missing, given twice or unknown.
    AttributeError
        When a field is set later.

    Examples
    --------
    >>> from oxinp._ptx.frozen import Frozen
    >>> class Point(Frozen):
    ...     x: int
    ...     y: int = 0
    >>> Point(1), Point(1).replace(y=2), Point(1) == Point(1, 0)
    (Point(x=1, y=0), Point(x=1, y=2), True)
    """

    _fields: ClassVar[tuple[str, ...]] = ()
    _defaults: ClassVar[dict[str, Any]] = {}
    _names: ClassVar[frozenset[str]] = frozenset()
    _shown: ClassVar[tuple[str, ...]] = ()
    _values: ClassVar[Any] = None  # record -> what it is compared by

    def __init_subclass__(cls, *, eq: bool = True, aside: tuple[str, ...] = ()) -> None:
        own = tuple(name for name, kind in cls.__annotations__.items() if not str(kind).startswith("ClassVar"))
        cls._fields = (*cls._fields, *own)
        given = {name: vars(cls)[name] for name in own if name in vars(cls)}
        cls._defaults = {**cls._defaults, **{k: v for k, v in given.items() if not isinstance(v, _Deferred)}}
        cls._names = frozenset(cls._fields)
        cls._shown = tuple(name for name in cls._fields if name not in aside)
        cls._values = attrgetter(*cls._shown)
        if not eq:
            cls.__eq__ = object.__eq__  # type: ignore[method-assign]
            cls.__hash__ = object.__hash__  # type: ignore[method-assign]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        fields = self._fields
        if not kwargs and len(args) == len(fields):
            vars(self).update(zip(fields, args, strict=True))
            return
        if not kwargs and len(args) < len(fields):
            own = vars(self)
            own.update(self._defaults)
            own.update(zip(fields, args, strict=False))
            if len(own) == len(fields):
                return
        values = {**self._defaults, **dict(zip(fields, args, strict=False)), **kwargs}
        is_doubtful = len(args) > len(fields) or (args and not kwargs.keys().isdisjoint(fields[: len(args)]))
        if is_doubtful or values.keys() != self._names:
            raise TypeError(f"{type(self).__name__} has the fields {', '.join(fields)}; got {args} and {kwargs}")
        vars(self).update(values)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: {name} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: {name} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return bool(self._values(self) == self._values(other))

    def __hash__(self) -> int:
        known: int | None = self.__dict__.get("_hash")
        if known is None:
            known = self.__dict__["_hash"] = hash(self._values(self))
        return known

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_hash"}  # another process has others

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self._shown)})"

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed."""
        return type(self)(**{**{name: getattr(self, name) for name in self._fields}, **changes})
