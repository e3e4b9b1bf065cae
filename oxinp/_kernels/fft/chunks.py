"""Parts of a batch, one after the other: what a pass leaves of one is in the L2 cache when the next pass reads it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from oxinp._kernels.plan import Scratch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.choice import Device
    from oxinp._kernels.fft.plan import Transform
    from oxinp._kernels.plan import Launch

CHUNK_NBYTES = 0  # of a part's results; 0 for whole batches


def parts(extent: int, nbytes: int) -> list[tuple[int, int]]:
    """Return first index and number of the parts of a loop that makes some bytes per index: as even as can be."""
    fitting = CHUNK_NBYTES // nbytes
    if not fitting or extent < 2 * fitting:
        return [(0, extent)]
    size = -(-extent // -(-extent // fitting))
    return [(start, min(size, extent - start)) for start in range(0, extent, size)]


def launches(transforms: Sequence[Transform], loops: Sequence[int], device: Device, scratch: Scratch) -> list[Launch]:
    """Return the launches of transforms along several axes, part by part of a loop that they all have.

    Parameters
    ----------
    transforms : sequence of Transform
        Of which each one but the first reads what the one before has left.
    loops : sequence of int
        Of each transform, the number of the loop.
    device : Device
    scratch : Scratch
        Transforms follow each other, and parts do: each may have all of the workspace.
    """
    first, number = transforms[0], loops[0]
    extents = [loop.extent for i, loop in enumerate(first.loops) if i != number]
    nbytes = max(each.length for each in transforms) * math.prod(extents) * first.type.nbytes
    used = scratch.nbytes

    def launched(start: int, count: int) -> list[Launch]:
        made: list[Launch] = []
        for transform, loop in zip(transforms, loops, strict=True):
            own = Scratch()
            own.nbytes = used
            made += transform.part(loop, start, count).launches(device, own)
            scratch.nbytes = max(scratch.nbytes, own.nbytes)
        return made

    extent = first.loops[number].extent
    found = parts(extent, nbytes)
    made = launched(*found[0])
    if len(made) == 1 and len(found) > 1:  # nobody reads again
        return launched(0, extent)
    return made + [launch for part in found[1:] for launch in launched(*part)]


__all__ = ["CHUNK_NBYTES", "launches", "parts"]
