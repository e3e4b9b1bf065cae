"""Dask with blocks of ours. Dask alone loads this, through the entry point in pyproject.toml, where it is installed.

Under ``dask.config.set({"array.backend": "oxinp"})`` Dask's creation functions make arrays whose blocks are ours, and
those of other libraries become such by ``to_backend``. Arrays that Dask made from ours need none of this.
"""

from __future__ import annotations

from typing import Any

import dask
import numpy as np
from dask import array as dask_array
from dask.array import backends, dispatch
from dask.utils import Dispatch

import oxinp

__all__ = ["PCG64", "OxinpBackendEntrypoint"]

# THE TABLE OF DISPATCHES: what Dask looks up by the class of a block, and ours.
_DISPATCHES: tuple[tuple[Dispatch, Any], ...] = (
    (dispatch.concatenate_lookup, oxinp.concatenate),
    (dispatch.tensordot_lookup, oxinp.tensordot),
    (dispatch.einsum_lookup, oxinp.einsum),
    (dispatch.take_lookup, oxinp.take),
    (dispatch.empty_lookup, oxinp.empty),
    (dispatch.percentile_lookup, backends.percentile),
    (dispatch.numel_lookup, backends._numel_arraylike),
    (dispatch.to_numpy_dispatch, lambda block, **_: oxinp.asnumpy(block)),
)

to_oxinp_dispatch = Dispatch("to_oxinp_dispatch")
to_oxinp_dispatch.register(np.ndarray, lambda block, **_: oxinp.asarray(block))


class PCG64(np.random.PCG64):
    """NumPy's bit generator, by whose module Dask knows whose `default_rng` is meant."""


class OxinpBackendEntrypoint(backends.ArrayBackendEntrypoint):
    """What the array backend "oxinp" of Dask does; see `dask.array.backends.ArrayBackendEntrypoint`."""

    def __init__(self) -> None:
        for lookup, function in _DISPATCHES:
            lookup.register(oxinp.ndarray, function)

    @classmethod
    def to_backend_dispatch(cls) -> Dispatch:
        """Return what makes one block ours."""
        return to_oxinp_dispatch

    @classmethod
    def to_backend(cls, data: Any, **kwargs: Any) -> Any:
        """Return the Dask array with blocks of ours."""
        if type(data._meta) is oxinp.ndarray:
            return data
        return data.map_blocks(to_oxinp_dispatch, **kwargs)

    @property
    def RandomState(self) -> Any:
        """The class of the older random numbers."""
        return oxinp.random.RandomState

    @property
    def default_bit_generator(self) -> Any:
        """The class that `dask.array.random.default_rng` begins with."""
        return PCG64

    @staticmethod
    def ones(*args: Any, **kwargs: Any) -> Any:
        """See `dask.array.ones`."""
        return _made("ones", args, kwargs)

    @staticmethod
    def zeros(*args: Any, **kwargs: Any) -> Any:
        """See `dask.array.zeros`."""
        return _made("zeros", args, kwargs)

    @staticmethod
    def empty(*args: Any, **kwargs: Any) -> Any:
        """See `dask.array.empty`."""
        return _made("empty", args, kwargs)

    @staticmethod
    def full(*args: Any, **kwargs: Any) -> Any:
        """See `dask.array.full`."""
        return _made("full", args, kwargs)

    @staticmethod
    def arange(*args: Any, like: Any = None, **kwargs: Any) -> Any:
        """See `dask.array.arange`."""
        return _made("arange", args, {"like": like, **kwargs}, example="like")


def _made(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], example: str = "meta") -> Any:
    """Call a creation function of Dask's as its own backend has it, with an array of ours for an example of a block."""
    if kwargs.get(example) is None:
        kwargs = {**kwargs, example: oxinp.empty(0)}  # not 0-dimensional: an index would make a NumPy scalar of it
    with dask.config.set({"array.backend": "numpy"}):
        return getattr(dask_array, name)(*args, **kwargs)
