"""What the two blocks of a cluster share in the wgmma kernels: an operand tile by multicast, or a tile of C."""

from __future__ import annotations

from typing import ClassVar


class Sharing:
    """What the blocks of a cluster share.

    Attributes
    ----------
    letter : str
        ``"a"``, ``"b"`` or ``"c"``, as in `WgmmaConfig` and in names of kernels; without a cluster ``"b"``.
    size : int
        Blocks of a cluster.
    multicast : (int, int)
        Blocks that load parts of a tile of A, and of one of B, and multicast them.
    """

    letter: ClassVar[str]
    size: ClassVar[int]
    multicast: ClassVar[tuple[int, int]]

    @classmethod
    def check(cls, *, is_serial_split_k: bool) -> None:
        """Raise ValueError if the blocks cannot share this."""


class Single(Sharing):
    """No cluster."""

    letter, size, multicast = "b", 1, (1, 1)


class MulticastA(Sharing):
    """Tiles side by side: each block loads half of the tile of A for both."""

    letter, size, multicast = "a", 2, (2, 1)


class MulticastB(Sharing):
    """Tiles one above the other: each block loads half of the tile of B for both."""

    letter, size, multicast = "b", 2, (1, 2)


class ClusterSplitK(Sharing):
    """One tile of C: each block computes half of K, and stores half of the rows; see `cluster_split_k`."""

    letter, size, multicast = "c", 2, (1, 1)

    @classmethod
    def check(cls, *, is_serial_split_k: bool) -> None:
        """Raise ValueError if K is split otherwise as well."""
        if is_serial_split_k:
            raise ValueError("a kernel splits K over a cluster or serially, not both")


AnySharing = type[Sharing]

SHARINGS: dict[tuple[int, str], AnySharing] = {
    (each.size, each.letter): each for each in (Single, MulticastA, MulticastB, ClusterSplitK)
}
"""By the fields of a `WgmmaConfig`: blocks of a cluster, and what they share."""

__all__ = ["SHARINGS", "AnySharing", "ClusterSplitK", "MulticastA", "MulticastB", "Sharing", "Single"]
