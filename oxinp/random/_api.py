"""Random numbers: NumPy's generators, on the host, with our arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from oxinp._api.fronts import describe
from oxinp._core.array import dispatch
from oxinp._core.host.fallback import OUT, Mutated, call

# What a method writes to, self being argument 0; `out` by position, since methods tell `inspect` nothing everywhere.
_MUTATES: dict[str, tuple[Mutated, ...]] = {
    "Generator.permuted": (3, *OUT),
    "Generator.random": (3, *OUT),
    "Generator.shuffle": (1, "x"),
    "Generator.standard_exponential": (4, *OUT),
    "Generator.standard_gamma": (4, *OUT),
    "Generator.standard_normal": (3, *OUT),
    "RandomState.shuffle": (1, "x"),
}
# What gives no arrays.
STATE = {"bit_generator", "spawn", "seed", "get_state", "set_state", "bytes"}


def _method(kind: type, name: str) -> Callable[..., Any]:
    numpys = getattr(kind, name)
    qualified = f"{kind.__name__}.{name}"
    mutates = _MUTATES.get(qualified, OUT)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return call(numpys, (self, *args), kwargs, name=f"random.{qualified}", mutates=mutates)

    method.__name__ = name
    method.__qualname__ = qualified
    method.__doc__ = numpys.__doc__
    return method


def _methods(kind: type) -> dict[str, Callable[..., Any]]:
    names = [name for name in dir(kind) if not name.startswith("_") and name not in STATE]
    return {name: _method(kind, name) for name in names}


_GeneratorMethods: Any = type("_GeneratorMethods", (np.random.Generator,), _methods(np.random.Generator))
_RandomStateMethods: Any = type("_RandomStateMethods", (np.random.RandomState,), _methods(np.random.RandomState))


class Generator(_GeneratorMethods):
    """See `numpy.random.Generator`."""

    def spawn(self, n_children: int) -> list[Any]:
        """See `numpy.random.Generator.spawn`."""
        return [Generator(child.bit_generator) for child in super().spawn(n_children)]

    def __reduce__(self) -> Any:
        return Generator, (self.bit_generator,)


class RandomState(_RandomStateMethods):
    """See `numpy.random.RandomState`."""

    def __reduce__(self) -> Any:
        return RandomState, (), self.get_state(legacy=False)


def default_rng(seed: Any = None) -> Any:
    """See `numpy.random.default_rng`."""
    if isinstance(seed, Generator):
        return seed
    return Generator(np.random.default_rng(seed).bit_generator)


for _theirs, _ours in ((np.random.Generator, Generator), (np.random.RandomState, RandomState)):
    dispatch.register(_theirs, _ours)
dispatch.register(np.random.default_rng, describe(default_rng, np.random.default_rng, "random.default_rng"))
