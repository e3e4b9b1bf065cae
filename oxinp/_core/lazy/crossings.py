"""What copies would take if arrays up to a size were on the host, by the sizes of launches that follow one another.

A program that works on the results of large arrays by small ones, and again on large ones with what comes of that, has
little of being spared the small launches: each turn would fetch and upload. So placement counts beforehand what the
copies would take, for every size up to which arrays may go to the host.
"""

from __future__ import annotations

from itertools import accumulate

LEAST = 1e-6
"""The share of what has been noted from which on it is no factor beside that any more, for its precision."""


class Crossings:
    """Copies that there would be, in microseconds.

    Parameters
    ----------
    num_sizes : int
        Sizes that are weighed; the next one stands for what is larger.
    fetch, upload : float
        What they take, one each.

    Attributes
    ----------
    last : int
        The size of the last launch.
    unfetched : (int, int)
        From which number of sizes to which other what is worked on would be fetched, and has not been.
    """

    __slots__ = ("_changes", "_fetch", "_remembered", "_upload", "last", "unfetched")

    def __init__(self, num_sizes: int, *, fetch: float, upload: float) -> None:
        self._fetch, self._upload = fetch, upload
        self._remembered = 1.0  # the share of what has been noted: that fades at once, and is asked for now and then
        self._changes = [0.0] * (num_sizes + 2)  # from the number of sizes before, all of which is remembered a share
        self.unfetched = 0, 0
        self.last = num_sizes

    def go(self, size: int) -> None:
        """Note a launch of another size than the last."""
        changes, last = self._changes, self.last
        self.last = size
        if size < last:
            microseconds = self._fetch / self._remembered
            changes[size + 1] += microseconds
            changes[last + 1] -= microseconds
            self.unfetched = size + 1, self.unfetched[1] or last
        else:
            microseconds = self._upload / self._remembered
            changes[last + 1] += microseconds
            changes[size + 1] -= microseconds
            self.unfetched = 0, 0

    def wait(self) -> None:
        """Note that the program has waited, as it would for what is fetched: that is none of what copies would add."""
        low, high = self.unfetched
        if high:
            microseconds = self._fetch / self._remembered
            self._changes[low] -= microseconds
            self._changes[high + 1] += microseconds
            self.unfetched = 0, 0

    def fade(self, share: float) -> None:
        """Remember a share."""
        self._remembered *= share
        if self._remembered < LEAST:
            self._changes = [self._remembered * change for change in self._changes]
            self._remembered = 1.0

    def costs(self) -> list[float]:
        """Return what copies would take, were arrays of so many sizes on the host."""
        remembered = self._remembered
        return [remembered * change for change in accumulate(self._changes)]

    def forget(self, level: int) -> None:
        """Remember only what copies would take, were arrays of more than so many sizes on the host."""
        self.unfetched = 0, 0
        self._changes[: level + 2] = [*[0.0] * (level + 1), sum(self._changes[: level + 2])]
