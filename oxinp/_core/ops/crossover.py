"""Crossovers: the order of matrices from which the device takes less time than LAPACK on the host, as measured.

A routine of a dtype has three figures: the order from which a matrix on the host is the device's; that from which one
on the device is not fetched; and how many matrices of order `SMALL` are the device's. Between and beyond them the
number of matrices follows a power of their order. `python -m oxinp tune --family placement` measures them on the
machine it runs on, transfers included, and keeps them; the defaults are those of an H200 beside 16 cores.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from oxinp._config import config
from oxinp._core.host.exchange import is_array
from oxinp._core.lazy import placement
from oxinp._core.lazy.record import is_hosted
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._kernels.choice import Choice, decide
from oxinp._runtime import select

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._core.memory.layout import Layout

UNIT = 65536
"""The cost of what takes as long on the host as on the device: the default of `config.offload_threshold`."""
SMALL = 32
"""The order of the matrices of which stacks are measured."""
MAX_ORDER, MAX_COUNT = 1 << 20, 1 << 30
HOST_WEIGHT = 64.0
"""How much longer LAPACK takes for what costs `UNIT` than NumPy takes to add so many bytes."""


class Crossover(NamedTuple):
    """Where the device begins to be faster.

    Attributes
    ----------
    order : int
        Of one matrix on the host.
    resident : int
        Of one matrix on the device.
    count : int
        Of matrices of order `SMALL` on the host.
    """

    order: int
    resident: int
    count: int  # type: ignore[assignment]  # instead of the method of tuples

    @property
    def power(self) -> float:
        """By which the number of matrices falls as their order grows; at least 1, of reading them row by row."""
        doublings = math.log2(self.order / SMALL)
        return max(1.0, math.log2(self.count) / doublings) if doublings > 0 else 1.0

    def cost(self, order: float, count: float, *, is_resident: bool = False) -> float:
        """Return what matrices cost, `UNIT` where both sides take as long."""
        return UNIT * count * math.pow(order / (self.resident if is_resident else self.order), self.power)


def _is_legal(found: Crossover) -> bool:
    return all(1 <= order <= MAX_ORDER for order in found[:2]) and 1 <= found.count <= MAX_COUNT


DEFAULTS: dict[str, Crossover] = {
    "cholesky": Crossover(156, 104, 76),
    "eig": Crossover(214, 173, MAX_COUNT),
    "eigh": Crossover(163, 157, 5),
    "eigh_tridiagonal": Crossover(185, 1, 193),  # where both need as many operations as the others here
    "eigvals": Crossover(214, 173, MAX_COUNT),
    "eigvalsh": Crossover(201, 181, 8),
    "hessenberg": Crossover(214, 173, MAX_COUNT),
    "inv": Crossover(100, 79, 10),
    "ldl": Crossover(300, 270, MAX_COUNT),  # on an H100
    "lu": Crossover(126, 111, 27),
    "qr": Crossover(93, 69, 10),
    "slogdet": Crossover(161, 168, 24),
    "solve": Crossover(126, 111, 27),
    "svd": Crossover(186, 183, 4),
    "svdvals": Crossover(263, 254, 8),
}
"""Of double precision, as measured on an H200 beside 16 cores (docs/performance.md); other dtypes begin there, too.

Eigenvalues of general matrices alone, and Hessenberg forms, begin where those with vectors do, and factors of LU where
systems do.
"""


@cache
def choice(routine: str, dtype: np.dtype[Any]) -> Choice:
    """Return what is measured of a routine and a dtype."""
    default = DEFAULTS[routine]
    key = (DEVICE_TYPES[dtype].name,)
    return Choice(f"placement/{routine}", key, (), (1,), Crossover, _is_legal, lambda: default, lambda: [default])


def crossover(routine: str, dtype: np.dtype[Any]) -> Crossover:
    """Return what was measured on the device in use; the default before there is one, for that starts the driver."""
    asked = choice(routine, dtype)
    backend = select.current() if select.opened() else None
    found: Crossover = asked.default() if backend is None else decide(asked, backend.capability)
    return found


def square_order(shape: tuple[int, ...]) -> float:
    """Return the order of square matrices that are as much work as those of a shape."""
    *_, rows, columns = shape
    return rows if rows == columns else math.pow(rows * columns * min(rows, columns), 1 / 3)


def system_order(order: int, columns: int) -> float:
    """Return the order of a system with one right-hand side that is as much work as one with several."""
    return order if columns == 1 else math.pow(order * order * (order + 3 * columns), 1 / 3)


def cost_of(routine: str) -> Callable[[tuple[Layout, ...], Any], float]:
    """Return `Op.cost` of a routine that takes a stack of matrices, and perhaps right-hand sides."""

    def cost(layouts: tuple[Layout, ...], parameters: Any) -> float:  # noqa: ARG001 - the rows' one signature
        a, *right = layouts
        order = system_order(a.shape[-1], right[0].shape[-1]) if right else square_order(a.shape)
        batches = [layout.shape[:-2] for layout in layouts]
        return crossover(routine, a.dtype).cost(order, math.prod(np.broadcast_shapes(*batches)))

    return cost


WAITING = frozenset({"cholesky", "eig", "eigvals", "eigh", "eigvalsh", "inv", "lu", "solve", "svd", "svdvals"})
"""Routines that wait for the device to know whether they have failed: a matrix may as well be fetched for them."""


def belongs_on_host(routine: str, a: Any) -> bool:
    """Whether a stack is LAPACK's: it is on the host, or small enough to be fetched, and that is faster.

    What belongs on the device by what has been learned of its size is not fetched for less work than measured.
    """
    is_ours = is_array(a)
    if not is_ours and type(a) is not np.ndarray:
        return False
    shape, dtype = (a._layout.shape, a._layout.dtype) if is_ours else (a.shape, a.dtype)
    if len(shape) < 2 or 0 in shape or dtype not in DEVICE_TYPES:
        return False
    is_resident = is_ours and not is_hosted((a,))
    if is_resident and routine not in WAITING:
        return False
    found = crossover(routine, dtype if dtype.char in "fdFD" else np.dtype("f8"))
    cost = found.cost(square_order(shape), math.prod(shape[:-2]), is_resident=is_resident)
    if is_resident and cost >= config.offload_threshold:
        return False
    return placement.takes_to_host(routine, cost, HOST_WEIGHT)


__all__ = [
    "DEFAULTS",
    "HOST_WEIGHT",
    "SMALL",
    "UNIT",
    "Crossover",
    "belongs_on_host",
    "choice",
    "cost_of",
    "crossover",
]
