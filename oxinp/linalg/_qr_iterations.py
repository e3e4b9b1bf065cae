"""QR iterations on the host: LAPACK's xHSEQR and xTREVC, which SciPy has for Cython and not for Python.

`scipy.linalg.cython_lapack` tells in capsules where its routines are, and in the capsules' names how they are called.
"""

from __future__ import annotations

import ctypes
import importlib
import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.linalg import LinAlgError

from oxinp._core.lazy.expr import Unsupported

COLUMNS_PER_THREAD = 32  # of a matrix's eigenvectors
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
    if not signature.startswith((b"void (char *, char *, int *", b"void (int *, int *, int *")):
        raise Unsupported(f"a SciPy without {name}")
    count = signature.count(b"*")
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * count)(_address_of(capsule, signature))


def _call(name: str, *arguments: Any) -> int:
    """Call a routine; letters, numbers and arrays become addresses. Returns its last argument, ``info``."""
    info = np.zeros(1, np.intc)
    _call_all(name, *arguments, info)
    return int(info[0])


def _call_all(name: str, *arguments: Any) -> None:
    """Call a routine, as `_call`, with all of its arguments."""
    held: list[Any] = []
    for x in arguments:
        if isinstance(x, str):
            held.append(ctypes.create_string_buffer(x.encode()))
        elif isinstance(x, int):
            held.append(ctypes.c_int(x))
        else:
            held.append(x)
    _routine(name)(*[x.ctypes.data if isinstance(x, np.ndarray) else ctypes.addressof(x) for x in held])


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


def deflate(
    h: np.ndarray[Any, Any], rows: int
) -> tuple[int, np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Deflate eigenvalues of a window, the last rows of a Hessenberg matrix, with LAPACK's xLAQR3.

    Parameters
    ----------
    h : ndarray, (N, N), float or complex, in Fortran order
        Whose window is all, or all but the first row.
    rows : int
        Of the window.

    Returns
    -------
    count : int
        How many were deflated.
    values : ndarray, complex
        Of the window those that may be shifts, and those that were deflated, which come last.
    h, u : ndarray, (N, N)
        The matrix transformed by U, again of Hessenberg form, triangular in its last `count` columns.
    """
    order, letter = len(h), _LETTERS[h.dtype.char]
    u = np.eye(order, dtype=h.dtype, order="F")
    kept, count = np.zeros(1, np.intc), np.zeros(1, np.intc)
    parts = [np.zeros(order, h.dtype) for _ in range(1 if h.dtype.kind == "c" else 2)]
    v, t, wide = (np.zeros((rows, rows), h.dtype, order="F") for _ in range(3))
    num_work = 4 * rows * rows
    work = np.empty(num_work, h.dtype)
    # Whether T and Z are wanted; the order; the block; the window; H; rows of Z, and Z.
    block = (1, 1, order, 1, order, rows, h, order, 1, order, u, order)
    _call_all(f"{letter}laqr3", *block, kept, count, *parts, v, rows, rows, t, rows, rows, wide, rows, work, num_work)
    values = parts[0] if h.dtype.kind == "c" else parts[0] + 1j * parts[1]
    num_kept, num_deflated = int(kept[0]), int(count[0])
    return num_deflated, values[order - num_deflated - num_kept :], h, u


def triangular_vectors(t: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return right eigenvectors of a quasi-triangular matrix, two columns for the parts of a conjugate pair's.

    Threads have every so many columns each: a column of number j takes j^2 operations, on vectors alone.
    """
    order, t = len(t), np.asfortranarray(t)
    vectors = np.zeros_like(t, order="F")
    # Columns of a pair stay together.
    is_second = np.r_[False, np.diagonal(t, -1) != 0] if t.dtype.kind == "f" else np.zeros(order, bool)
    group = np.cumsum(~is_second) - 1
    num_threads = max(1, min(os.cpu_count() or 1, order // COLUMNS_PER_THREAD))

    def compute(thread: int) -> None:
        columns = np.flatnonzero(group % num_threads == thread)
        vectors[:, columns] = _chosen_vectors(t, columns)

    if num_threads == 1:
        compute(0)
    else:
        with ThreadPoolExecutor(num_threads) as pool:
            list(pool.map(compute, range(num_threads)))
    return vectors


def _chosen_vectors(t: np.ndarray[Any, Any], columns: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the right eigenvectors of a quasi-triangular matrix that belong to columns."""
    order, count, letter, char = len(t), len(columns), _LETTERS[t.dtype.char], t.dtype.char
    found = np.zeros((order, count), t.dtype, order="F")
    chosen, written = np.zeros(order, np.intc), np.zeros(1, np.intc)
    chosen[columns] = 1
    left = np.zeros((1, 1), t.dtype)
    work = [np.empty(3 * order, t.dtype)] + ([np.empty(order, char.lower())] if t.dtype.kind == "c" else [])
    # Of complex matrices T is changed, and restored.
    given = t.copy(order="F") if t.dtype.kind == "c" else t
    _call(f"{letter}trevc", "R", "S", chosen, order, given, order, left, 1, found, order, count, written, *work)
    return found


__all__ = ["Schur", "deflate", "iterate", "triangular_vectors"]
