"""How matrices are cut into blocks and strips for panels of QR with column pivoting, and the launches of these."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.lapack.pivoted_panel import STRIPS, PivotedSpec, make
from oxinp._kernels.lapack.resident import WIDTH
from oxinp._kernels.plan import Argument, Launch, Scratch, Work
from oxinp._ptx.types import Type

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device

MIN_ROWS = 8  # of a block


def strip(columns: int, device: Device) -> int:
    """Return the columns of a strip: as few as there are multiprocessors for."""
    return next((width for width in STRIPS if -(-columns // width) <= device.num_sms), STRIPS[-1])


def num_blocks(shape: tuple[int, int], device: Device) -> int:
    """Return how many blocks a matrix has."""
    rows, columns = shape
    wanted = max(-(-rows // MIN_ROWS), -(-columns // strip(columns, device)))
    return max(1, min(device.num_sms, wanted))


def spec_of(type: Type, shape: tuple[int, int], device: Device) -> PivotedSpec:
    """Return the kernel for a matrix of a shape."""
    height = -(-shape[0] // num_blocks(shape, device))
    power = 1 << max(3, (height - 1).bit_length())
    return PivotedSpec(type, 1 << max(5, (shape[0] - 1).bit_length()), power, strip(shape[1], device))


def is_possible(type: Type, shape: tuple[int, int], device: Device) -> bool:
    """Whether there is a kernel for matrices of a shape."""
    return spec_of(type, shape, device).shared_nbytes <= device.max_shared_nbytes


class Board(NamedTuple):
    """Where blocks tell each other, in the workspace."""

    column: Argument
    after: Argument
    squares: Argument
    best: Argument
    best_place: Argument
    flags: Argument
    flags_nbytes: int


def board(scratch: Scratch, type: Type, shape: tuple[int, int], device: Device) -> Board:
    """Return where the blocks of a matrix tell each other."""
    blocks = num_blocks(shape, device)
    column, after = scratch.take(shape[0] * type.nbytes), scratch.take(blocks * WIDTH * type.nbytes)
    squares, best, best_place, flags = (scratch.take(blocks * 8) for _ in range(4))
    return Board(column, after, squares, best, best_place, flags, blocks * 4)


def launch(
    type: Type,
    shape: tuple[int, int],
    panel: tuple[int, int],
    pitches: tuple[int, int],
    places: dict[str, Argument],
    told: Board,
    device: Device,
) -> Launch:
    """Return the launch that factors a panel.

    Parameters
    ----------
    type : Type
    shape : (int, int)
        Of A.
    panel : (int, int)
        Its first column, and how many.
    pitches : (int, int)
        Elements from one row to the next of A, and of the matrix of all reflectors.
    places : dict
        Arrays, see `pivoted_panel`: ``a``, ``p``, ``f``, ``v``, ``tau``, ``norms``, ``exact``, ``order_of``.
    told : Board
    device : Device
    """
    (rows, columns), (first, width), blocks = shape, panel, num_blocks(shape, device)
    kernel = make(spec_of(type, shape, device))
    at = places | told._asdict()
    names = [param.name for param in kernel.params if param.is_pointer]
    constants = (rows, columns, first, width, -(-(rows - first) // blocks), blocks, 2 * first)
    left = (rows - first) * (columns - first) * width
    work = Work((16 if type.is_complex else 4) * left, left * type.nbytes)
    return Launch(kernel, (blocks, 1, 1), tuple(at[name] for name in names), (*constants, *pitches), work)


__all__ = ["Board", "board", "is_possible", "launch", "spec_of"]
