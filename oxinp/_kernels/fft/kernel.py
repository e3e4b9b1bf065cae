"""The kernels of transforms in a block, by their Specs."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.fft.block import Block
from oxinp._kernels.fft.cosine import Second, Third
from oxinp._kernels.fft.prime import Summed
from oxinp._kernels.fft.rader import Rader
from oxinp._kernels.fft.real import Filtering, Merge, Split
from oxinp._kernels.fft.spec import (
    MERGE,
    RADER,
    SECOND,
    SECOND_SINE,
    SPLIT,
    SPLIT_MERGE,
    SUMMED,
    THIRD,
    THIRD_SINE,
    TWIN_MERGE,
    TWIN_SPLIT,
    TransformSpec,
)
from oxinp._kernels.fft.staged import Staged
from oxinp._kernels.fft.traced import traced
from oxinp._kernels.fft.twins import TwinMerge, TwinSplit
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._ptx.kernel import Kernel, retraceable

if TYPE_CHECKING:
    from typing import Any

# By `TransformSpec.real`.
BUILDERS: dict[str, Any] = {
    "": Block,
    SPLIT: Split,
    MERGE: Merge,
    SPLIT_MERGE: Filtering,
    SUMMED: Summed,
    RADER: Rader,
    TWIN_SPLIT: TwinSplit,
    TWIN_MERGE: TwinMerge,
    **dict.fromkeys((SECOND, SECOND_SINE), Second),
    **dict.fromkeys((THIRD, THIRD_SINE), Third),
}


@lru_cache(MAX_KERNELS)
@retraceable
@traced
def make(spec: TransformSpec) -> Kernel:
    """Build the kernel of a Spec."""
    builder = Staged if spec.is_staged and not spec.real else BUILDERS[spec.real]
    built: Kernel = builder(spec).build()
    return built


__all__ = ["make"]
