"""Device memory as arrays hold it: Buffers, the blocks behind them, and the sizes blocks come in."""

from __future__ import annotations

from sys import getrefcount
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from oxinp._ptx.frozen import Frozen
from oxinp._runtime.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = [
    "FOOTPRINTS",
    "Block",
    "Buffer",
    "Footprint",
    "MemoryStats",
    "Pages",
    "Source",
    "Uses",
    "class_nbytes",
    "format_nbytes",
]


class MemoryStats(Frozen):
    """What a pool holds.

    Attributes
    ----------
    used_nbytes : int
        In live Buffers, rounding included.
    cached_nbytes : int
        In free blocks kept for reuse.
    peak_nbytes : int
        The most `used_nbytes` has been since the last `Pool.reset_peak`.
    free_nbytes, total_nbytes : int
        What the driver says of the whole device.
    driver_allocations : int
        Calls that asked the driver for memory, since the start.
    num_blocks : int
        Blocks held, used and cached.
    limit_nbytes : int or None
        The most the pool may hold.
    """

    used_nbytes: int
    cached_nbytes: int
    peak_nbytes: int
    free_nbytes: int
    total_nbytes: int
    driver_allocations: int
    num_blocks: int
    limit_nbytes: int | None = None


class Source(Protocol):
    """A pool, as what comes from it knows it: a `Pool`."""

    used_nbytes: int
    peak_nbytes: int
    owner: Any

    def find(self, nbytes: int, stock: Any, /) -> Block:
        """Return a free block for a request that no free list has served."""
        ...


class Uses:
    """Who used a block of memory last.

    Attributes
    ----------
    writer, time : Timeline, int
        The last to write to it, and when.
    readers : dict of Timeline to int
        Who has read it since, each at last when.
    """

    __slots__ = ("readers", "time", "writer")

    def __init__(self, writer: Any, time: int) -> None:
        self.writer = writer
        self.time = time
        self.readers: dict[Any, int] = {}


class Block:
    """A piece of memory that serves one Buffer at a time, whole.

    Attributes
    ----------
    ptr, nbytes : int
        Where it is and its size.
    home : list of Block
        The free list it goes back to.
    pool : Pool
        Whose counters it is in.
    uses : Uses or None
        Who used it last, where that is kept; it outlives the Buffer.
    used : int
        When a kernel used it last, where that is kept (`Pool.notes_uses`): a number that grows.
    """

    __slots__ = ("home", "nbytes", "pool", "ptr", "used", "uses")

    def __init__(self, ptr: int, nbytes: int, home: list[Block], pool: Source) -> None:
        self.ptr = ptr
        self.nbytes = nbytes
        self.home = home
        self.pool = pool
        self.uses: Uses | None = None
        self.used = 0


class Pages(NamedTuple):
    """A range of a Buffer's bytes, and where they lie.

    Attributes
    ----------
    low, high : int
        The first byte, and one past the last.
    kind : str
        "device" for memory of a device; "managed", which moves between devices and the host by itself; "pinned" for
        the host's, which devices read over the bus.
    backend : Backend
        The device that holds them, or whose context they were made in.
    """

    low: int
    high: int
    kind: str
    backend: Any


def last_references() -> int:
    """Return how many references `__del__` finds where nothing but the call of it is left."""
    found: list[int] = []

    class Gone:
        def __del__(self, references: Callable[[object], int] = getrefcount) -> None:
            found.append(references(self))

    Gone()
    return found[0]


class _Owner:
    """Who has a block, which goes back to its pool when the owner does.

    Of what is part of a cycle, the garbage collector calls all finalisers before any of it goes, in any order: those of
    the user's classes may read an array after its owner's has been called, or keep it. So an heir has the block then,
    which nothing but the owner refers to.
    """

    __slots__ = ("_block", "_heir")

    _block: Block
    _heir: _Owner

    def __del__(
        self,
        references: Callable[[object], int] = getrefcount,
        last: int = last_references(),
        new: Callable[[type[_Owner]], _Owner] = object.__new__,
    ) -> None:
        # Runs anywhere, in any thread, and while the interpreter shuts down: it uses nothing but what it holds.
        block = self._block
        if references(self) > last:
            self._heir = heir = new(__class__)  # type: ignore[name-defined]
            heir._block = block
            return
        block.pool.used_nbytes -= block.nbytes  # before the block can be found, so that the peak is never too high
        block.home.append(block)


class Buffer(_Owner):
    """Device memory that lives as long as this object.

    Made by `Pool.allocate`.

    Attributes
    ----------
    ptr : int
        Device address, a multiple of 256.
    nbytes : int
        Size asked for.
    """

    __slots__ = ("__weakref__", "nbytes", "ptr")

    ptr: int
    nbytes: int

    @property
    def backend(self) -> Any:
        """The backend of the device that its first byte lies on."""
        return self._block.pool.owner

    @property
    def pages(self) -> tuple[Pages, ...]:
        """Where its bytes lie, in order and without gaps."""
        return (Pages(0, self.nbytes, "device", self.backend),)

    @property
    def buffer(self) -> Buffer:
        """Itself: a Buffer stands for its own first byte wherever an address with its owner is wanted."""
        return self

    def __repr__(self) -> str:
        return f"<Buffer of {self.nbytes} bytes at {self.ptr:#x}>"


class Footprint:
    """What a graph reads and writes, collected while it is captured, used by each of its launches."""

    __slots__ = ("__weakref__", "_is_written")

    def __init__(self) -> None:
        self._is_written: dict[Any, bool] = {}
        FOOTPRINTS.add(self)

    def add(self, block: Any, *, writes: bool) -> None:
        """Remember a block."""
        self._is_written[block] = writes or self._is_written.get(block, False)

    def items(self) -> Iterable[tuple[Any, bool]]:
        """Return each block, and whether it is written to."""
        return tuple(self._is_written.copy().items())  # which a thread that captures may add to meanwhile


FOOTPRINTS: Registry[Footprint] = Registry()
"""Of all graphs that there are: the memory in them stays where it is."""


def class_nbytes(nbytes: int, num_steps: int = 8) -> int:
    """Return the size of the block that serves a request.

    Parameters
    ----------
    nbytes : int
        From 0 up.
    num_steps : int
        Sizes between two powers of two, itself one.

    Returns
    -------
    int
        At least `nbytes` and 512, a multiple of 512; above 4 KiB at most an eighth more than `nbytes`.

    Examples
    --------
    >>> from oxinp._runtime.memory import class_nbytes
    >>> class_nbytes(0), class_nbytes(513), class_nbytes(1 << 20), class_nbytes((1 << 20) + 1)
    (512, 1024, 1048576, 1179648)
    """
    if nbytes <= 512:
        return 512
    step = max(512, (1 << ((nbytes - 1).bit_length() - 1)) // num_steps)
    return -(-nbytes // step) * step


def format_nbytes(nbytes: int) -> str:
    """Return a size as people read it.

    Examples
    --------
    >>> from oxinp._runtime.memory import format_nbytes
    >>> format_nbytes(1000), format_nbytes(3 << 29)
    ('1000 B', '1.50 GiB')
    """
    if nbytes < 1024:
        return f"{nbytes} B"
    exponent = min((nbytes.bit_length() - 1) // 10, 4)
    return f"{nbytes / (1 << 10 * exponent):.2f} {('KiB', 'MiB', 'GiB', 'TiB')[exponent - 1]}"
