"""QR iterations on the host: LAPACK's xHSEQR and xTREVC, which SciPy has for Cython and not for Python.

`scipy.linalg.cython_lapack` tells in capsules where its routines are, and in the capsules' names how they are called.
"""

from __future__ import annotations

import ctypes
import importlib
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.linalg import LinAlgError

from oxinp._core.lazy.expr import Unsupported

_LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}
_api = ctypes.pythonapi
_name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", _api))
_address_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", _api))


@cache
def _routine(name: str) -> Any:
    """Return a routine, which takes addresses alone.

    Raises
    ------
    Unsupported
        SciPy has none, or one with other integers.
    """
    capsule = getattr(importlib.import_module("scipy.linalg.cython_lapack"), "__pyx_capi__", {}).get(name)
    signature = b"" if capsule is None else _name_of(capsule)
    if not signature.startswith(b"void (char *, char *, int *"):
        raise Unsupported(f"a SciPy without {name}")
    count = signature.count(b"*")
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * count)(_address_of(capsule, signature))


def _call(name: str, *arguments: Any) -> int:
    """Call a routine; letters, numbers and arrays become addresses. Returns the last argument, ``info``."""
    held: list[Any] = []
    for x in arguments:
        if isinstance(x, str):
            held.append(ctypes.create_string_buffer(x.encode()))
        elif isinstance(x, int):
            held.append(ctypes.c_int(x))
        else:
            held.append(x)
    info = ctypes.c_int(0)
    addresses = [x.ctypes.data if isinstance(x, np.ndarray) else ctypes.addressof(x) for x in (*held, info)]
    _routine(name)(*addresses)
    return info.value


class Schur(NamedTuple):
    """What QR iterations make of H = Z T Z^H.

    Attributes
    ----------
    values : ndarray, (N,), complex
    t, z : ndarray, (N, N), or None
        Quasi-triangular for real matrices.
    """

    values: np.ndarray[Any, Any]
    t: np.ndarray[Any, Any] | None
    z: np.ndarray[Any, Any] | None


def iterate(h: np.ndarray[Any, Any], active: tuple[int, int], *, has_vectors: bool) -> Schur:
    """Return eigenvalues of a Hessenberg matrix, and where they are asked for its Schur form and vectors.

    Parameters
    ----------
    h : ndarray, (N, N), float or complex
    active : (int, int)
        First and last row of what is not triangular already.
    has_vectors : bool

    Raises
    ------
    LinAlgError
        They did not converge.
    """
    order, letter = len(h), _LETTERS[h.dtype.char]
    t = np.array(h, order="F")
    z = np.zeros_like(t, order="F") if has_vectors else np.zeros((1, 1), h.dtype)
    parts = [np.zeros(order, h.dtype) for _ in range(1 if h.dtype.kind == "c" else 2)]
    job = ("S", "I") if has_vectors else ("E", "N")
    given = (*job, order, active[0] + 1, active[1] + 1, t, order, *parts, z, len(z))
    wanted = np.zeros(1, h.dtype)
    _call(f"{letter}hseqr", *given, wanted, -1)
    num_work = max(order, int(wanted[0].real))
    if _call(f"{letter}hseqr", *given, np.empty(num_work, h.dtype), num_work):
        raise LinAlgError("Eigenvalues did not converge")
    values = parts[0] if h.dtype.kind == "c" else parts[0] + 1j * parts[1]
    return Schur(values, t, z) if has_vectors else Schur(values, None, None)


def triangular_vectors(t: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return right eigenvectors of a quasi-triangular matrix, two columns for the parts of a conjugate pair's."""
    order, letter, char = len(t), _LETTERS[t.dtype.char], t.dtype.char
    vectors = np.zeros_like(t, order="F")
    left, chosen, count = np.zeros((1, 1), t.dtype), np.zeros(order, np.int32), np.zeros(1, np.int32)
    work = [np.empty(3 * order, t.dtype)] + ([np.empty(order, char.lower())] if t.dtype.kind == "c" else [])
    _call(f"{letter}trevc", "R", "A", chosen, order, t, order, left, 1, vectors, order, order, count, *work)
    return vectors


def spectrum(h: np.ndarray[Any, Any], active: tuple[int, int]) -> tuple[np.ndarray[Any, Any], ...]:
    """Return eigenvalues of a Hessenberg matrix, right eigenvectors of its Schur form, and the Schur vectors."""
    values, t, z = iterate(h, active, has_vectors=True)
    assert t is not None
    assert z is not None
    return values, triangular_vectors(t), z


__all__ = ["Schur", "iterate", "spectrum", "triangular_vectors"]
