"""THE TABLE OF TUNING PROBLEMS: one row per family, saying what is run to tune it.

A problem is NumPy arrays and a function of ours on them. Which choices that leads to is found by running it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from oxinp._core.manipulation.copy import copy
from oxinp._core.ops import factorise
from oxinp._core.ops.crossover import SMALL
from oxinp._core.ops.matmul import matmul
from oxinp._core.reduction.reduce import reduce
from oxinp._core.reduction.table import SUM
from oxinp._tune.routines import ROUTINES

__all__ = ["FAMILIES", "Family", "Problem", "Shape", "problems", "shape_of"]

Shape = tuple[int, ...]

PERIOD = (1 << 20) + 7
"""Numbers that are drawn; larger arrays repeat them."""

MAX_FLOPS = 1.2e12
"""Of the problems that are tuned unless sizes are given: more takes too long to measure often enough."""


class Problem(NamedTuple):
    """Something to be tuned.

    Attributes
    ----------
    name : str
        For people: family, dtype, extents, layout.
    family : str
        What choices that it tunes begin with.
    dtype : numpy.dtype
    shapes : tuple of tuple of int
        Of the operands as they lie in memory, in C order.
    run : callable
        ``run(*arrays)``, on ours.
    depth : int
        How many products or elements are summed into an element of the result.
    flops : float
        0 where bytes count.
    result_nbytes : int
        Where bytes count: what is written.
    """

    name: str
    family: str
    dtype: np.dtype[Any]
    shapes: tuple[Shape, ...]
    run: Callable[..., Any]
    depth: int = 1
    flops: float = 0.0
    result_nbytes: int = 0

    @property
    def nbytes(self) -> int:
        """Size of the operands."""
        return sum(math.prod(shape) for shape in self.shapes) * self.dtype.itemsize

    @property
    def nbytes_moved(self) -> int:
        """What is read and written where bytes count."""
        return self.nbytes + self.result_nbytes

    def whole(self) -> list[np.ndarray[Any, Any]]:
        """Return operands of whole numbers so small that sums of their products are exact in any order."""
        return self._drawn(lambda rng, size: rng.integers(-3, 4, size).astype(np.float32))

    def random(self) -> list[np.ndarray[Any, Any]]:
        """Return operands of normal numbers."""
        return self._drawn(lambda rng, size: rng.standard_normal(size, np.float32))

    def _drawn(self, draw: Callable[[np.random.Generator, int], Any]) -> list[np.ndarray[Any, Any]]:
        return [
            _filled(np.random.default_rng(number), shape, self.dtype, draw) for number, shape in enumerate(self.shapes)
        ]


def _filled(
    rng: np.random.Generator, shape: Shape, dtype: np.dtype[Any], draw: Callable[[np.random.Generator, int], Any]
) -> np.ndarray[Any, Any]:
    size = min(PERIOD, math.prod(shape))
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        values = rng.integers(info.min, info.max, size, dtype, endpoint=True)
    elif dtype.kind == "b":
        values = rng.random(size) < 0.1
    else:
        values = draw(rng, size) + 1j * draw(rng, size) if dtype.kind == "c" else draw(rng, size)
    return np.resize(values.astype(dtype), shape)


class Family(NamedTuple):
    """What is tuned under one name.

    Attributes
    ----------
    dtypes : tuple of str
        Those that are tuned unless others are asked for.
    sizes : tuple of tuple of int
        Likewise; of products the extents M, K and N, behind the number of matrices if there are more than one.
    layouts : tuple of str
        Likewise; of other families than products, what is done.
    all_layouts : tuple of str
        Those that may be asked for.
    make : callable
        ``make(dtype, size, layout)``, the problem; raises ValueError for sizes that make none.
    """

    dtypes: tuple[str, ...]
    sizes: tuple[Shape, ...]
    layouts: tuple[str, ...]
    all_layouts: tuple[str, ...]
    make: Callable[[np.dtype[Any], Shape, str], Problem]


def _matmul(dtype: np.dtype[Any], size: Shape, layout: str) -> Problem:
    if len(size) == 1:
        size *= 3
    if len(size) not in {3, 4}:
        raise ValueError("a product has one extent, or M, K and N, or a count and these")
    *count, m, depth, n = size
    turned = [letter == "t" for letter in layout]
    shapes = [
        (*count, *(shape[::-1] if t else shape)) for shape, t in zip(((m, depth), (depth, n)), turned, strict=True)
    ]

    def run(*arrays: Any) -> Any:
        return matmul(*[x.swapaxes(-1, -2) if t else x for x, t in zip(arrays, turned, strict=True)])

    flops = (8 if dtype.kind == "c" else 2) * math.prod(size)
    name = f"matmul {dtype.name} {'x'.join(map(str, size))} {layout}"
    return Problem(name, "matmul", dtype, tuple(shapes), run, depth, flops)


_SQUARES = (96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 8192)
_OBLONGS = ((128, 8192, 128), (512, 8192, 512), (4096, 4096, 64), (64, 4096, 4096), (4096, 64, 4096), (16384, 256, 256))
_BATCHES = ((16384, 32, 32, 32), (4096, 64, 64, 64), (512, 128, 128, 128), (64, 256, 256, 256), (16, 512, 512, 512))


def _elementwise(dtype: np.dtype[Any], size: Shape, layout: str) -> Problem:
    operations: dict[str, tuple[int, Callable[..., Any]]] = {
        "twice": (1, lambda x: x + x),
        "add": (2, lambda x, y: x + y),
        "fma": (3, lambda x, y, z: x * y + z),
    }
    count, run = operations[layout]
    name = f"elementwise {dtype.name} {'x'.join(map(str, size))} {layout}"
    nbytes = math.prod(size) * dtype.itemsize
    return Problem(name, "elementwise", dtype, (size,) * count, run, result_nbytes=nbytes)


def _transpose(dtype: np.dtype[Any], size: Shape, layout: str) -> Problem:
    if len(size) != 2:
        raise ValueError("a transposed matrix has two extents")
    name = f"transpose {dtype.name} {'x'.join(map(str, size))} {layout}"
    nbytes = math.prod(size) * dtype.itemsize
    return Problem(name, "transpose", dtype, (size,), lambda x: copy(x.swapaxes(0, 1)), result_nbytes=nbytes)


def _reduce(dtype: np.dtype[Any], size: Shape, layout: str) -> Problem:
    if len(size) != 2:
        raise ValueError("what is reduced has two extents")
    axis = {"rows": 1, "columns": 0, "all": None}[layout]
    name = f"reduce {dtype.name} {'x'.join(map(str, size))} {layout}"
    depth = math.prod(size) if axis is None else size[axis]
    return Problem(name, "reduce", dtype, (size,), lambda x: reduce(SUM, x, axis), depth)


def _dominant(x: Any) -> Any:
    """Return what the fractions of a square matrix make of a multiple of the identity: that, of whole numbers."""
    order = len(x)
    return (x - np.rint(x)) + np.eye(order, dtype=x.dtype, like=x) * x.dtype.type(1 << (2 * order - 1).bit_length())


def _factorisation(dtype: np.dtype[Any], size: Shape, layout: str) -> Problem:
    if len(size) != 1:
        raise ValueError("a factored matrix has one extent")
    factor: dict[str, tuple[float, Callable[..., Any]]] = {
        "cholesky": (1 / 3, lambda x: factorise.cholesky(_dominant(x))),
        "lu": (2 / 3, lambda x: factorise.solve(_dominant(x), _dominant(x)[:, :1])),
        "qr": (4 / 3, lambda x: factorise.qr(_dominant(x), "r")),
    }
    flops, run = factor[layout]
    name = f"{layout} {dtype.name} {size[0]}"
    total = flops * size[0] ** 3 * (4 if dtype.kind == "c" else 1)
    return Problem(name, layout, dtype, (size * 2,), run, size[0], total)


def _factored(layout: str) -> Family:
    """Return the row of a factorisation."""
    return Family(
        ("float64", "float32", "complex128"), ((2048,), (4096,), (8192,)), (layout,), (layout,), _factorisation
    )


PLACEMENT = "placement/"
"""What the families of crossovers begin with, before the routine."""


def _placement(dtype: np.dtype[Any], size: Shape, layout: str) -> Problem:
    if len(size) != 1 or size[0] < SMALL:
        raise ValueError(f"a crossover is searched up to one order, at least {SMALL}")
    name = f"{PLACEMENT}{layout}"
    return Problem(f"{name} {dtype.name}", name, dtype, (size * 2,), ROUTINES[layout].ours)


FAMILIES: dict[str, Family] = {
    "matmul": Family(
        ("float64", "float32", "float16", "complex64", "complex128", "int64", "int32", "int8"),
        (*((n, n, n) for n in _SQUARES), *_OBLONGS, *_BATCHES),
        ("nn",),
        ("nn", "nt", "tn", "tt"),
        _matmul,
    ),
    "elementwise": Family(
        ("float64", "float32", "float16", "int8", "complex128"),
        ((1 << 21,), (1 << 23,), (1 << 25,)),
        ("twice", "add", "fma"),
        ("twice", "add", "fma"),
        _elementwise,
    ),
    "transpose": Family(
        ("float64", "float32", "float16", "int8", "complex128"),
        ((2048, 2048), (8192, 4096), (4096, 8192)),
        ("copy",),
        ("copy",),
        _transpose,
    ),
    "reduce": Family(
        ("float64", "float32", "float16", "int8", "complex64"),
        ((2048, 2048), (8192, 4096), (256, 131072), (131072, 256)),
        ("all", "rows", "columns"),
        ("all", "rows", "columns"),
        _reduce,
    ),
    "cholesky": _factored("cholesky"),
    "lu": _factored("lu"),
    "qr": _factored("qr"),
    "placement": Family(
        ("float64", "float32", "complex128", "complex64"), ((2048,),), tuple(ROUTINES), tuple(ROUTINES), _placement
    ),
}


def problems(
    families: Sequence[str], dtypes: Sequence[str] = (), sizes: Sequence[Shape] = (), layouts: Sequence[str] = ()
) -> Iterator[Problem]:
    """Yield the problems of some families, small ones first; what is not given is the family's own.

    Raises
    ------
    ValueError
        A family, dtype, size or layout is none; says which there are.
    """
    for name in families:
        family = _known(name, FAMILIES, "family")
        for layout in layouts:
            _known(layout, dict.fromkeys(family.all_layouts), "layout")
        kinds = [_dtype(text) for text in dtypes or family.dtypes]
        made = [
            family.make(dtype, size, layout)
            for size in sizes or family.sizes
            for layout in layouts or family.layouts
            for dtype in kinds
        ]
        yield from (problem for problem in made if sizes or problem.flops <= MAX_FLOPS)


def shape_of(text: str) -> Shape:
    """Return the extents that a text such as ``512x512x8192`` names.

    Raises
    ------
    ValueError
        It names none.
    """
    try:
        shape = tuple(int(part) for part in text.lower().split("x"))
    except ValueError:
        shape = ()
    if not shape or min(shape) < 1:
        raise ValueError(f"{text!r} is no size: extents are whole numbers from 1 up, joined by x")
    return shape


def _known(name: str, table: dict[str, Any], what: str) -> Any:
    if name not in table:
        raise ValueError(f"there is no {what} {name!r}; there are {', '.join(table)}")
    return table[name]


def _dtype(text: str) -> np.dtype[Any]:
    try:
        return np.dtype(text)
    except TypeError:
        raise ValueError(f"there is no dtype {text!r}") from None
