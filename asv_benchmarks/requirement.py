"""What a case must reach on the H200, carried by the case and judged by `compare`.

A requirement looks at one row of results and answers True, False, or None where it cannot be judged: the peer it
speaks of is missing, or the run was not on a GPU.
"""

import dataclasses
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Requirement:
    """A sentence and the test of it.

    Attributes
    ----------
    text : str
    holds : callable
        ``holds(row) -> bool | None`` with `row` a `compare.Row`.
    needs_gpu : bool
        Whether it only means something on a GPU.
    """

    text: str
    holds: Callable
    needs_gpu: bool = True


def at_most(limit, unit):
    """Ours, in the case's unit."""
    return Requirement(f"<= {limit:g} {unit}", lambda row: row.ours.value <= limit)


def throughput(nbytes, least):
    """Bytes per second of a case whose unit is the millisecond."""
    return Requirement(f">= {least / 1e9:g} GB/s", lambda row: nbytes / (1e-3 * row.ours.value) >= least)


def operations(count, least):
    """Operations per second of a case whose unit is the millisecond."""
    return Requirement(f">= {least / 1e12:g} T/s", lambda row: count / (1e-3 * row.ours.value) >= least)


def launches(count):
    """Kernel launches per call."""
    return Requirement(
        f"{count} launch{'es' if count != 1 else ''}",
        lambda row: None if row.ours.launches is None else row.ours.launches == count,
    )


def share_of_limit(share):
    """The time that the bytes that must move take at copy bandwidth, over ours."""
    return Requirement(
        f">= {100 * share:g} % of copy bandwidth", lambda row: None if row.share is None else row.share >= share
    )


def ratio(peer, least):
    """Peer's time over ours."""
    return Requirement(
        f">= {least:g}x {peer}", lambda row: None if peer not in row.ratios else row.ratios[peer] >= least
    )


def at_most_above(peer, margin, unit, *, needs_gpu=True):
    """Ours against a peer's plus a margin, in the case's unit."""
    return Requirement(
        f"<= {peer} + {margin:g} {unit}",
        lambda row: None if peer not in row.peers else row.ours.value <= row.peers[peer].value + margin,
        needs_gpu,
    )
