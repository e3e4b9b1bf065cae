"""Classes and objects of NumPy's that take or give arrays: the same, with our arrays."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from oxinp._api.fronts import host_function
from oxinp._api.rebound import rebound
from oxinp._core.array import dispatch
from oxinp._core.array.ndarray import ndarray
from oxinp._core.documentation import ON_THE_HOST, stand_for
from oxinp._core.errors.frames import user_frame
from oxinp._core.host.fallback import KEPT, OUT, call
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.handle import Handle
from oxinp._core.lazy.record import is_hosted


class Indexed:
    """An object of NumPy's that makes arrays when indexed: ``r_``, ``c_``, ``mgrid``, ``ogrid``.

    Parameters
    ----------
    name : str
        Which.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._numpys = getattr(np, name)
        self.__doc__ = self._numpys.__doc__

    def __getitem__(self, key: Any) -> Any:
        join = _JOINING.get(self._name)
        if join is not None and type(key) is tuple and len(key) > 1 and _are_vectors(key):
            return join(key)
        if type(key) is str and self._name not in _GRIDS:  # a matrix by the names of the user's variables
            frame = user_frame()
            return np.bmat(key, frame.f_globals, frame.f_locals)
        if self._name in _GRIDS:
            with contextlib.suppress(Unsupported):
                return _grid(self._numpys, key)
        elif type(key) is tuple and any(map(_is_away, key)) and not any(isinstance(part, str) for part in key):
            with contextlib.suppress(Unsupported):
                return _joined(self._numpys, key)
        return call(self._numpys.__getitem__, (key,), {}, name=self._name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._numpys, name)

    def __len__(self) -> int:
        return len(self._numpys)

    def __reduce__(self) -> Any:
        return Indexed, (self._name,)


_GRIDS = ("mgrid", "ogrid")
_grid = rebound(type(np.mgrid).__getitem__)
_joined = rebound(type(np.r_).__getitem__)


_JOINING = {"r_": dispatch.functions[np.concatenate], "c_": dispatch.functions[np.column_stack]}
"""What does the same of vectors."""


def _are_vectors(values: tuple[Any, ...]) -> bool:
    for value in values:  # noqa: SIM110 - `all` costs more than the rest
        if type(value) is not ndarray or value.ndim != 1:
            return False
    return True


def _is_away(value: Any) -> bool:
    """Whether a value is an array that is not valid on the host."""
    return isinstance(value, Handle) and not is_hosted([value])


class vectorize(np.vectorize):  # noqa: N801 - NumPy's name
    """See `numpy.vectorize`; the function runs on the host, one element at a time."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        numpys = super().__call__
        # Called with a function it decorates, it returns itself.
        return call(numpys, args, kwargs, name="vectorize")


class ndenumerate(np.ndenumerate):  # noqa: N801 - NumPy's name
    """See `numpy.ndenumerate`."""

    def __init__(self, arr: Any) -> None:
        call(super().__init__, (arr,), {}, name="ndenumerate", mutates=(KEPT,))


class MadeOnTheHost(type):
    """The class of classes whose instances NumPy makes, and keeps our arrays in: theirs to `isinstance`."""

    _theirs: type
    _make: Any

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Return NumPy's object."""
        return cls._make(*args, **kwargs)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls._theirs)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, cls._theirs)


def _made_on_the_host(theirs: type) -> MadeOnTheHost:
    body = {name: value for name, value in vars(theirs).items() if not name.startswith("_")}
    make = staticmethod(host_function(theirs, theirs.__name__, (KEPT, *OUT)))
    made = MadeOnTheHost(theirs.__name__, (), {**body, "_theirs": theirs, "_make": make})
    stand_for(made, theirs, ON_THE_HOST)
    return made


broadcast, nditer = _made_on_the_host(np.broadcast), _made_on_the_host(np.nditer)


stand_for(vectorize, np.vectorize, "The function runs on the host, one element at a time.")
stand_for(ndenumerate, np.ndenumerate, "Elements are read on the host.")
