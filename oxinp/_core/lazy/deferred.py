"""Products that have been asked for and not yet computed, so that what is made of them can become part of them.

A `Deferred` stands where the Buffer of a product would: in the value of the product's storage, and among the leaves of
what is recorded on it. Nothing else knows of it. Whoever asks where it lies has it computed; and what is pending,
elementwise and of the product's shape, and the only one to use it, is computed in the product's own kernel instead.

It is sound as recording is (see `schedule`): the operands are Buffers, whose bytes change only after every deferred
product that reads them has been computed. Whether something else uses a product decides speed alone: one that was
wrongly thought to be used by nothing else would be computed again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import ref

from oxinp._core.lazy import schedule
from oxinp._core.lazy.expr import leaf
from oxinp._core.lazy.schedule import DEFERRED
from oxinp._core.memory.storage import SHARED, Storage, next_mask
from oxinp._runtime import here, hooks

if TYPE_CHECKING:
    from typing import Protocol

    from oxinp._core.lazy.expr import Graph
    from oxinp._core.memory.layout import Layout
    from oxinp._core.memory.storage import Value
    from oxinp._runtime.memory import Buffer

    class Product(Protocol):
        """What computes one."""

        layout: Layout

        def compute(self, left: Any, right: Any) -> Buffer:
            """Enqueue the product of operands that lie there into a new Buffer."""

        def compute_finished(self, graph: Graph, place: int, leaves: tuple[Any, ...]) -> Buffer | None:
            """Enqueue what a graph makes of the product, its leaf at a place; None where no kernel does both."""


MAX_DEFERRED = 64
"""Products that wait: beyond, all are computed, for they keep their operands."""


_OF_BUFFERS = frozenset({"nbytes", "_block"})


class Deferred:
    """The memory of a product, computed when `ptr` is first read.

    Attributes
    ----------
    product : Product
    operands : tuple or None
        Where they lie; None once it is computed.
    mask : int
        Of the operands, see `storage`.
    owner : weak reference or None
        To the storage whose value it is.
    lines, offset
        As a storage's.
    """

    __slots__ = ("__weakref__", "_buffer", "_entry", "lines", "mask", "offset", "operands", "owner", "product")

    lines: Any
    offset: int

    def __init__(self, product: Product, operands: tuple[Any, Any], mask: int) -> None:
        self.product = product
        self.operands: tuple[Any, Any] | None = operands
        self.mask = mask
        self.owner: ref[Storage] | None = None
        self._buffer: Any = None
        self._entry = ref(self, _forget)  # `wait`, spelled out
        DEFERRED[self._entry] = None

    @property
    def buffer(self) -> Deferred:
        """Itself, as a Buffer."""
        return self

    @property
    def ptr(self) -> int:
        """As a Buffer's; the product is computed for whoever asks."""
        if self.operands is not None:
            self.compute()
        return self._buffer.ptr  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        """What else a Buffer has."""
        if name not in _OF_BUFFERS:
            raise AttributeError(name)
        self.compute()
        return getattr(self._buffer, name)

    def wait(self) -> None:
        """Enter it among `DEFERRED`."""
        self._entry = ref(self, _forget)
        DEFERRED[self._entry] = None

    def compute(self) -> None:
        """Enqueue the product, if that has not been done."""
        with schedule.LOCK:
            operands = self.operands
            if operands is None:
                return
            DEFERRED.pop(self._entry, None)
            outer, schedule.at_work = schedule.at_work, self
            try:
                buffer = self.product.compute(*operands)
            except BaseException:
                self.wait()
                raise
            finally:
                schedule.at_work = outer
            if self.operands is not None:  # else it was computed to free memory for this very Buffer
                self._buffer, self.operands = buffer, None

    def is_held(self) -> bool:
        """Whether an array has the product itself."""
        owner = None if self.owner is None else self.owner()
        value = None if owner is None else owner.value
        return value is not None and not value[0].nodes and value[1][0] is self

    def num_readers(self, storages: list[Storage]) -> int:
        """How many of these have pending values that read it."""
        values = [storage.value for storage in storages]
        return sum(value is not None and any(entry is self for entry in value[1]) for value in values)


def _forget(entry: ref[Deferred]) -> None:
    DEFERRED.pop(entry, None)


def defer(product: Product, operands: tuple[Value, Value]) -> Value | None:
    """Return the value of a storage for a product that is not computed yet; None where it should be at once.

    Parameters
    ----------
    product : Product
    operands : tuple of values
        Of what lies on the device.
    """
    mask = operands[0][2] | operands[1][2]
    if here.are_several or mask & SHARED:
        return None
    if len(DEFERRED) >= MAX_DEFERRED:
        schedule.compute_deferred()
    entry = Deferred(product, (operands[0][1][0], operands[1][1][0]), mask)
    for record in schedule.RECORDERS:
        record(entry, 4)  # type: ignore[arg-type] # it is remembered like a storage
    return leaf(product.layout), (entry,), next_mask()


def fuse(storage: Storage, value: Value, others: list[Storage]) -> Value | None:
    """Compute a pending value in the kernel of a product that nothing else uses; None where there is no such thing.

    Parameters
    ----------
    storage, value
        As for `schedule.materialise`.
    others : list of Storage
        That are pending, too.
    """
    graph, leaves, _ = value
    if graph.reduction is not None or not graph.layout.is_contiguous:
        return None
    for place, entry in enumerate(leaves):
        if (
            type(entry) is Deferred
            and entry.operands is not None
            and graph.leaves[place].same(entry.product.layout)
            and sum(other is entry for other in leaves) == 1
            and not entry.is_held()
            and not entry.num_readers(others)
        ):
            buffer = entry.product.compute_finished(graph, place, leaves)
            if buffer is not None:
                done: Value = (leaf(graph.layout), (buffer,), next_mask())
                storage.value = done
                return done
    return None


schedule.fuse = fuse
hooks.when_several.append(schedule.compute_deferred)
