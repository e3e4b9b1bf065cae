"""Scalars on the device, for libraries written in C that read a number of Python's or NumPy's without asking for it.

They tell such a number by the memory that its class has, which no class of ours can have; so while a program is run,
what they are given is settled first. A row names a module, and what wraps its functions when it is imported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

import numpy as np

from oxinp._core.lazy.results import is_device_scalar, types

__all__ = ["install"]


def _settled(value: Any) -> Any:
    """Return NumPy's scalar for one on the device."""
    return value[()] if is_device_scalar(value) else value


def _as_key(key: Any) -> Any:
    key = _settled(key)
    return float(key) if isinstance(key, float) else key


def _with_settled_keys(value: Any, copies: dict[int, Any] | None = None) -> Any:
    """Return a copy of a value of json's with no key on the device; what is inside itself is so in the copy as well."""
    if not isinstance(value, dict | list | tuple):
        return value
    copies = {} if copies is None else copies
    if id(value) in copies:
        return copies[id(value)]
    copy: Any = {} if isinstance(value, dict) else []
    copies[id(value)] = copy
    if isinstance(value, dict):
        copy.update((_as_key(key), _with_settled_keys(part, copies)) for key, part in value.items())
    else:
        copy.extend(_with_settled_keys(part, copies) for part in value)
    return copy


def _wrap_json(encoder: Any) -> None:
    """Let json encode float64, which is one of Python's floats, before it asks `default` for what it does not know."""
    make_in_c, make = encoder.c_make_encoder, encoder._make_iterencode

    def made_in_c(markers: Any, default: Callable[[Any], Any], *rest: Any) -> Any:
        def settled(value: Any) -> Any:
            value = _settled(value)
            return float(value) if isinstance(value, float) else _with_settled_keys(default(value))

        encode = make_in_c(markers, settled, *rest)

        def encoded(value: Any, level: int) -> Any:
            try:
                return encode(value, level)
            except TypeError as error:
                if not str(error).startswith("keys must be"):
                    raise
            if markers is not None:
                markers.clear()
            return encode(_with_settled_keys(value), level)

        return encoded

    def made(markers: Any, default: Any, encode: Any, indent: Any, floatstr: Any, *rest: Any, **options: Any) -> Any:
        def settled(value: Any) -> Any:
            return floatstr(_settled(value))

        return make(markers, lambda value: default(_settled(value)), encode, indent, settled, *rest, **options)

    if make_in_c is not None:
        encoder.c_make_encoder = made_in_c
    encoder._make_iterencode = made


def _wrap_conversion(lib: Any) -> None:
    """Let pandas find the dtype of a list of scalars."""
    convert = lib.maybe_convert_objects

    def maybe_convert_objects(objects: Any, *args: Any, **options: Any) -> Any:
        found = convert(objects, *args, **options)
        if getattr(found, "dtype", None) != np.dtype(object) or types.scalar_type not in map(type, map(type, objects)):
            return found
        settled = np.empty_like(objects)
        settled[:] = [_settled(value) for value in objects]
        return convert(settled, *args, **options)

    lib.maybe_convert_objects = maybe_convert_objects


def _wrap_inference(cast: Any) -> None:
    """Let pandas find the dtype of one scalar."""
    infer = cast.infer_dtype_from_scalar

    def infer_dtype_from_scalar(value: Any, *args: Any, **options: Any) -> Any:
        return infer(_settled(value), *args, **options)

    cast.infer_dtype_from_scalar = infer_dtype_from_scalar


# THE ROWS.
_WRAPPED: dict[str, Callable[[Any], None]] = {
    "json.encoder": _wrap_json,
    "pandas._libs.lib": _wrap_conversion,
    "pandas.core.dtypes.cast": _wrap_inference,
}


class _WrappedLoader(Loader):
    """Loads a module of a row's as its own loader does, and wraps its functions."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Return what the module's own loader makes."""
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module, and wrap."""
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        _WRAPPED[module.__name__](module)


class _Finder(MetaPathFinder):
    """Finds the modules of the rows where Python finds them."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module with a row, None for others."""
        spec = PathFinder.find_spec(fullname, path, target) if fullname in _WRAPPED else None
        if spec is not None and spec.loader is not None:
            spec.loader = _WrappedLoader(spec.loader)
        return spec


def install() -> None:
    """Wrap what is imported already, and what will be, once."""
    if any(type(finder) is _Finder for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, _Finder())
    for name in _WRAPPED.keys() & sys.modules.keys():
        _WRAPPED[name](sys.modules[name])
