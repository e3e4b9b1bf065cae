"""Philox4x32: a bit generator of our own, for those who need speed and not NumPy's numbers."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from oxinp._core.ops.draws import Counter
from oxinp._kernels.random.philox import VARIANTS

_NAME = b"BitGenerator"
_KEPT_BLOCKS = 1024  # of words that are computed at once on the host
_OF_UINT64, _OF_UINT32, _OF_DOUBLE = (
    ctypes.CFUNCTYPE(kind, ctypes.c_void_p) for kind in (ctypes.c_uint64, ctypes.c_uint32, ctypes.c_double)
)
_address_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


class _Interface(ctypes.Structure):
    """NumPy's bitgen_t."""

    _fields_ = (
        ("state", ctypes.c_void_p),
        ("next_uint64", _OF_UINT64),
        ("next_uint32", _OF_UINT32),
        ("next_double", _OF_DOUBLE),
        ("next_raw", _OF_UINT64),
    )


class Philox4x32(np.random.BitGenerator):
    """Philox of four words of 32 bits and 10 rounds, for `Generator`: uniform numbers at the speed of memory.

    Parameters
    ----------
    seed : None, int, array_like of int, SeedSequence, optional
        As of `numpy.random.Philox`.
    counter : int, optional
        128 bits: of the block that the first words come from.
    key : int, optional
        64 bits, in place of a seed.

    Attributes
    ----------
    state : dict
        Counter, key, and how many words of the counter's block were taken.

    Notes
    -----
    The stream is its own, not that of NumPy's Philox, which has words of 64 bits. Words are taken in order; a number of
    64 bits is two words, the low one first, and begins at an even one. Large draws of uniform numbers, integers,
    normals, exponentials and what is made of these come from the device; all else is drawn by NumPy on the host, a word
    at a time, about 1 us each.

    Source: J. Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3" (2011).

    Examples
    --------
    >>> import oxinp as np
    >>> rng = np.random.Generator(np.random.Philox4x32(1))
    >>> rng.random(1 << 20).shape
    (1048576,)
    """

    def __init__(self, seed: Any = None, *, counter: int | None = None, key: int | None = None) -> None:
        if seed is not None and key is not None:
            msg = "seed and key cannot be both used"
            raise ValueError(msg)
        for name, value, bits in (("counter", counter, 128), ("key", key, 64)):
            if value is not None and not 0 <= value < 1 << bits:
                msg = f"{name} must be positive and less than 2**{bits}."
                raise ValueError(msg)
        super().__init__(0 if key is not None else seed)
        if key is None:
            key = int(self.seed_seq.generate_state(1, np.uint64)[0])
        self._at = Counter("Philox4x32", counter or 0, key, 0)
        self._words: list[int] = []  # of the counter's block and those after it
        self._offer()

    def _offer(self) -> None:
        """Give NumPy the functions that take words."""
        interface = _Interface.from_address(_address_of(self.capsule, _NAME))
        self._functions = (
            _OF_UINT64(lambda _: self._next_64()),
            _OF_UINT32(lambda _: self._next_32()),
            _OF_DOUBLE(lambda _: (self._next_64() >> 11) * 2.0**-53),
            _OF_UINT64(lambda _: self._next_64()),
        )
        interface.state = None
        interface.next_uint64, interface.next_uint32, interface.next_double, interface.next_raw = self._functions

    def _next_32(self) -> int:
        at = self._at
        if at.taken >= len(self._words):
            blocks, taken = divmod(at.taken, 4)
            self._at = at = at._replace(counter=(at.counter + blocks) % (1 << 128), taken=taken)
            self._words = VARIANTS["Philox4x32"].blocks(at.counter, at.key, _KEPT_BLOCKS).tolist()
        word = self._words[at.taken]
        self._at = at._replace(taken=at.taken + 1)
        return word

    def _next_64(self) -> int:
        if self._at.taken % 2:
            self._next_32()
        low = self._next_32()
        return low | self._next_32() << 32

    @property  # type: ignore[override]  # NumPy's own bit generators narrow it, too
    def state(self) -> dict[str, Any]:
        """Where the stream is."""
        at = self._at.plain()
        return {
            "bit_generator": "Philox4x32",
            "state": {"counter": at.counter, "key": at.key},
            "taken": at.taken,
        }

    @state.setter
    def state(self, value: Any) -> None:
        if not isinstance(value, dict):
            msg = "state must be a dict"
            raise TypeError(msg)
        if value.get("bit_generator") != "Philox4x32":
            msg = "state must be for a Philox4x32 RNG"
            raise ValueError(msg)
        self._at, self._words = position(value), []

    def advance(self, delta: int) -> Philox4x32:
        """Advance by a number of words of 32 bits; return the bit generator itself."""
        at = self._at
        blocks, taken = divmod(at.taken + delta, 4)
        self._at, self._words = at._replace(counter=(at.counter + blocks) % (1 << 128), taken=taken), []
        return self

    def jumped(self, jumps: int = 1) -> Philox4x32:
        """Return a new bit generator with the counter ``jumps * 2**64`` further."""
        at = self._at.plain()
        other = Philox4x32(counter=(at.counter + (jumps << 64)) % (1 << 128), key=at.key)
        other._at = other._at._replace(taken=at.taken)
        return other


def position(state: dict[str, Any]) -> Counter:
    """Return the position that a state dictionary says."""
    return Counter("Philox4x32", int(state["state"]["counter"]), int(state["state"]["key"]), int(state["taken"]))


__all__ = ["Philox4x32", "position"]
