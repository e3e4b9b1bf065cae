"""What Bluestein's convolutions in a block are of: one kernel serves all lengths that are convolved over the same one.

Its chirp and its filter are operands. A kernel whose module holds the two of one length copies them to the workspace
first: it has no code to speak of, so that the next length is compiled in no time. The chirp is followed by zeros up to
the end of the last piece of elements that a butterfly of the first stage takes; of the filter, which is symmetric, half
is left out where all would not fit the L1 cache.

Source: L. I. Bluestein, A linear filtering approach to the computation of the discrete Fourier transform, NEREM 1968.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from oxinp._kernels.fft.radices import cut
from oxinp._kernels.fft.roots import roots_of_unity
from oxinp._kernels.fft.tiling import is_large
from oxinp._kernels.fft.traced import traced
from oxinp._kernels.plan import Argument, Launch, Scratch, Work
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.synchronize import follow
from oxinp._ptx.types import u32

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device
    from oxinp._ptx.types import Type

BLOCK = 256


class Chirp(NamedTuple):
    """What turns a convolution into a transform.

    Attributes
    ----------
    length : int
        Of the transform.
    chirp, filter : Argument
        Where the two are, see `TablesSpec`.
    """

    length: int
    chirp: Argument
    filter: Argument


class TablesSpec(Frozen):
    """A kernel that copies the chirp and the filter of a length from its module.

    Attributes
    ----------
    type : Type
        c64 or c128.
    length : int
        Of the transform.
    radices : tuple of int
        Of the convolution's stages.
    middle : int
        As `mirrored_from` says.
    is_following : bool
        As of `TransformSpec`.
    """

    type: Type
    length: int
    radices: tuple[int, ...]
    middle: int
    is_following: bool

    @property
    def convolution(self) -> int:
        """Length of the convolution."""
        return int(np.prod(self.radices))

    @property
    def num_chirp(self) -> int:
        """Elements of the chirp, with the zeros behind it."""
        return num_pieces(self.length, self.radices) * (self.convolution // self.radices[0])

    @property
    def num_filter(self) -> int:
        """Elements of the filter that are read."""
        return self.middle * (self.convolution // self.radices[-1]) + 1

    def tables(self) -> np.ndarray[Any, Any]:
        """The chirp, the zeros, and the filter: the transform of the chirp's conjugate to both sides."""
        n, m = self.length, self.convolution
        # j * j modulo 2 * n in integers; what is n or more of it is half a turn and the rest.
        chirp = roots_of_unity(np.arange(n, dtype=np.int64) ** 2 % (2 * n), 2 * n)
        both = np.zeros(m, np.clongdouble)
        both[:n] = chirp.conj()
        both[m - n + 1 :] = chirp[:0:-1].conj()
        factors = np.resize(np.fft.fft(both) / m, self.num_filter)  # its first element again behind the last
        zeros = np.zeros(self.num_chirp - n, np.clongdouble)
        return np.concatenate([chirp, zeros, factors]).astype(self.type.dtype)


def num_pieces(length: int, radices: tuple[int, ...]) -> int:
    """Return how many of the pieces that a butterfly of a convolution's first stage takes have elements."""
    apart = int(np.prod(radices[1:]))
    return -(-length // apart)


def mirrored_from(radices: tuple[int, ...], nbytes: int) -> int:
    """Return the results of a butterfly of the last stage beyond which the filter is read from its other side.

    Half of it fits the L1 cache where all would not; a short one takes longer that way.
    """
    radix = radices[-1]
    return -(-radix // 2) if is_large(int(np.prod(radices)), nbytes, is_chirp=True) else radix


@lru_cache(MAX_KERNELS)
@retraceable
@traced
def make(spec: TablesSpec) -> Kernel:
    """Build the kernel of a Spec; its parameter is where the tables come."""
    limits: dict[str, Any] = {"target": "sm_90"} if spec.is_following else {}
    k = Builder(f"fft_chirp_{spec.length}_by_{spec.convolution}", block=BLOCK, **limits)
    target = k.pointer("target", spec.type, "w")
    if spec.is_following:
        follow(k)
    values = spec.tables()
    number = k.ctaid * BLOCK + k.tid
    with k.when(number < k.const(len(values), u32)):
        target[number] = k.table(values)[number]
    return k.build()


def chirp_of(type_: Type, length: int, convolution: int, device: Device, scratch: Scratch) -> tuple[Launch, Chirp]:
    """Return the launch that copies the tables of a length to the workspace, and where they are.

    Parameters
    ----------
    type_ : Type
        c64 or c128.
    length : int
        Of the transform.
    convolution : int
        Length of the convolution, that `radices.convolution_length` gives.
    device : Device
    scratch : Scratch
    """
    found = cut(convolution, type_.nbytes, is_convolved=True)
    assert found is not None, f"no convolution of length {convolution}"
    middle = mirrored_from(found.radices, type_.nbytes)
    spec = TablesSpec(type_, length, found.radices, middle, device.cc >= (9, 0))
    count = spec.num_chirp + spec.num_filter
    chirp = scratch.take(count * type_.nbytes)
    filter = chirp.at(spec.num_chirp * type_.nbytes)
    work = Work(nbytes=2 * count * type_.nbytes)
    return Launch(make(spec), (-(-count // BLOCK), 1, 1), (chirp,), (), work), Chirp(length, chirp, filter)


__all__ = ["Chirp", "TablesSpec", "chirp_of", "make", "mirrored_from", "num_pieces"]
