"""Named tuples as of `typing`, made in a third of the time: that compiles the text of each annotation of each class.

Those classes derive from this `NamedTuple` that `import oxinp` makes, which are dozens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import NamedTuple
else:
    from collections import namedtuple

    class _Maker(type):
        def __new__(cls, name: str, _: tuple[type, ...], body: dict[str, Any]) -> type:
            fields = body.pop("__annotations__", {})
            defaults = [body.pop(field) for field in fields if field in body]
            made = namedtuple(name, fields, defaults=defaults, module=body["__module__"])  # noqa: PYI024 - see above
            made.__annotations__ = fields
            for attribute, value in body.items():
                setattr(made, attribute, value)
            return made

    NamedTuple = type.__new__(_Maker, "NamedTuple", (), {})

__all__ = ["NamedTuple"]
