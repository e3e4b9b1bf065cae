"""The shape of blocks: how many transforms a block has, how many threads have one, and how many blocks share a tile.

Batches of rows of any size have one of two shapes, so that a new size is hardly ever a new kernel: that of many rows,
and where those would leave multiprocessors idle, that of few, whose blocks have two warps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp._kernels.fft import tiling
from oxinp._kernels.fft.prime import most_columns
from oxinp._kernels.fft.radices import MAX_THREADS
from oxinp._kernels.fft.spec import BANK_WIDTH, COLUMNS, RADER, SUMMED
from oxinp._kernels.fft.tiling import MIN_SEGMENT, cluster_limit, tile_of
from oxinp._ptx.types import c128

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.choice import Device
    from oxinp._kernels.fft.radices import Cut

MIN_BLOCK = 64  # threads at which transforms share a block where they are few, and spread
MANY = 1 << 20  # transforms, more than any block has


class Shape(NamedTuple):
    """Threads of a transform, transforms of a block, and blocks of a cluster."""

    threads: int
    columns: int
    cluster: int


def shape_of(batch: Any, found: Cut, extent: int, outer_size: int, orders: Sequence[str], device: Device) -> Shape:
    """Return the shape of a pass's blocks.

    Parameters
    ----------
    batch : Batch
    found : Cut
        How its transforms are computed.
    extent, outer_size : int
        Of the column loop, and of all others.
    orders : sequence of str
        How threads go when they load, store, and read what is between; `COLUMNS` if a thread has a transform.
    device : Device
    """
    is_mixed = COLUMNS in orders and (len(found.radices) > 1 or bool(batch.real))
    reach = extent if is_mixed or outer_size > 1 else MANY
    threads, columns, cluster = _largest(batch, found, reach, orders, device)
    least = MIN_SEGMENT // batch.type.nbytes if is_mixed and len(found.radices) > 1 else 1
    is_few = -(-extent // columns) * outer_size * cluster * batch.slabs < device.num_sms
    # Few transforms are spread over all multiprocessors.
    while is_few and columns > least and columns * threads > MIN_BLOCK:
        columns //= 2
        is_few = not is_mixed or -(-extent // columns) * outer_size * cluster * batch.slabs < device.num_sms
    if batch.shape is not None:
        threads, columns = batch.shape
    return Shape(threads, columns, cluster)


def _largest(batch: Any, found: Cut, reach: int, orders: Sequence[str], device: Device) -> Shape:
    """The shape where there are many transforms, `reach` of them in the column loop."""
    nbytes, threads = batch.type.nbytes, found.threads
    if batch.real == SUMMED:
        most = most_columns(batch.length, nbytes, device.max_shared_nbytes)
        return Shape(threads, min(1 << (reach - 1).bit_length(), most), 1)
    is_single = batch.real or batch.chirp or batch.filter or batch.between
    most = 1 if is_single else cluster_limit(device)
    if batch.order > 1:
        most = min(most, tiling.MOST_IN_PASSES)
    elif not orders[0] == orders[1] == COLUMNS:
        most = 1
    columns, cluster = tile_of(
        batch.length,
        nbytes,
        reach,
        device.max_shared_nbytes,
        most,
        is_mixed=COLUMNS in orders,
        is_convolved=batch.is_convolved,
        is_staged=batch.is_staged,
        is_ragged=batch.is_ragged,
    )
    threads = -(-threads // cluster)
    if cluster == 1 and batch.twiddle and len(found.radices) > 1:
        is_twice = batch.chirp or batch.filter or batch.between
        factors = found.radices[0 if is_twice else -1] * c128.nbytes  # see `TransformSpec.num_factors`
        while columns * (batch.length * nbytes + factors) > device.max_shared_nbytes:
            columns //= 2
    lanes = BANK_WIDTH // nbytes
    if batch.real == RADER and columns < lanes <= reach:
        is_fitting = threads * lanes <= MAX_THREADS
        is_fitting &= 2 * lanes * batch.row * nbytes <= device.max_shared_nbytes
        # Neighbouring lanes with different rows, whose permuted accesses have no bank conflicts.
        columns = lanes if is_fitting else columns
    return Shape(threads, columns, cluster)


__all__ = ["Shape", "shape_of"]
