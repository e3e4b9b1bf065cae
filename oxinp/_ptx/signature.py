"""Kernels as decorated functions: the signature declares the parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from oxinp._ptx.builder import Builder
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import Kernel
from oxinp._ptx.types import Type, from_dtype


class PointerParam(Frozen):
    """What ``In[f32]`` gives: element type and access."""

    type: Type
    access: str


def _machine_type(type: Any) -> Type:
    """Return a machine type, or that of a NumPy dtype."""
    return type if isinstance(type, Type) else from_dtype(type)


class In:
    """Pointer parameter that is read: ``In[f32]``, or ``In[numpy.float32]``."""

    def __class_getitem__(cls, type: Any) -> PointerParam:
        return PointerParam(_machine_type(type), "r")


class Out:
    """Pointer parameter that is written: ``Out[f32]``."""

    def __class_getitem__(cls, type: Any) -> PointerParam:
        return PointerParam(_machine_type(type), "w")


class InOut:
    """Pointer parameter that is read and written: ``InOut[f32]``."""

    def __class_getitem__(cls, type: Any) -> PointerParam:
        return PointerParam(_machine_type(type), "rw")


def kernel(name: str | None = None, **options: Any) -> Callable[[Callable[..., None]], Kernel]:
    """Turn a function of the builder and its parameters into a `Kernel`.

    Parameters
    ----------
    name : str, optional
        Entry name; the function's name if left out.
    **options
        As for `Builder`: ``block``, ``target``, ...

    Returns
    -------
    decorator
        The function is called once, at once, with the builder and one pointer or value per parameter. Annotations
        are ``In[type]``, ``Out[type]``, ``InOut[type]`` for pointers and a type for by-value parameters.

    Raises
    ------
    TypeError
        A parameter without such an annotation.

    Examples
    --------
    >>> from oxinp._ptx.types import f32, u32
    >>> @kernel(block=256)
    ... def axpy(k, x: In[f32], y: InOut[f32], a: f32, n: u32):
    ...     with k.grid_stride(n) as i:
    ...         y[i] = k.fma(a, x[i], y[i])
    >>> [p.name for p in axpy.params], axpy.param_format
    (['x', 'y', 'a', 'n'], '<QQfI')
    """

    def decorate(function: Callable[..., None]) -> Kernel:
        k = Builder(name or function.__name__, **options)
        _, *parameters = inspect.signature(function, eval_str=True).parameters.values()
        function(k, *[_declare(k, parameter) for parameter in parameters])
        return k.build()

    return decorate


def _declare(k: Builder, parameter: inspect.Parameter) -> Any:
    declared = declared_type(parameter)
    if isinstance(declared, PointerParam):
        return k.pointer(parameter.name, declared.type, declared.access)
    return k.scalar(parameter.name, declared)


def declared_type(parameter: inspect.Parameter) -> PointerParam | Type:
    """Return what a parameter's annotation declares.

    Raises
    ------
    TypeError
        It has none, or one that declares no parameter.
    """
    annotation = parameter.annotation
    if isinstance(annotation, PointerParam):
        return annotation
    try:
        return _machine_type(annotation)
    except TypeError:
        raise TypeError(
            f"kernel parameter {parameter.name!r} needs an annotation: In[type], Out[type], InOut[type] or a type"
        ) from None
