"""Tables that forget what has not been used for longest, and cost a hit nothing."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

MEETINGS = 2
"""Times that something is met before it is worth an entry, which takes as long to make as so many do without one."""


class Recent(dict[Any, Any]):
    """A dictionary of two generations: what is found by `get`, and what was before the last one was full.

    `get` is the dictionary's own, so that a hit is one look-up. After a miss, `recall` brings back what the older
    generation still has. When the newer one is full it becomes the older one: what was not asked for meanwhile goes.

    Parameters
    ----------
    room : int
        Entries of a generation.
    """

    __slots__ = ("marks", "old", "room")

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room
        self.old: dict[Any, Any] = {}
        self.marks: dict[int, int] = {}

    def recall(self, key: Hashable) -> Any:
        """Return what `get` no longer finds, and let it be found again; None where there is nothing."""
        value = self.old.pop(key, None)
        if value is not None:  # `remember`, spelled out
            if len(self) >= self.room:
                self.age()
            self[key] = value
        return value

    def remember(self, key: Hashable, value: Any) -> None:
        """Enter a value."""
        if len(self) >= self.room:
            self.age()
        self[key] = value

    def has_met(self, key: Hashable, *objects: Any, times: int = MEETINGS) -> bool:
        """Whether this was asked of a key some times before: what loops over ever new sizes make is not worth an entry.

        It is remembered by its hash, for an entry is of objects that the garbage collector has to look at. So it has to
        be made of what sizes are, not of objects that are made for them and hashed by where they lie. An entry that is
        found by such objects is not worth it, either, before these have come as often: where a loop makes more of them
        than are kept for its next turn, others of the same sizes come then.

        Parameters
        ----------
        key : hashable
        *objects : Layout, Graph or BoundOp
            What the entry would be found by; they count in `met` how often this was asked of them. What is entered
            comes as often as the entry is found: who enters it sets its `met`.
        times : int
            How often, where an entry takes longer to make than others do.
        """
        are_lasting = True
        for each in objects:
            if each.met < MEETINGS:
                each.met += 1
                are_lasting = False
        mark = hash(key)
        count = self.marks.get(mark, 0)
        if count >= times:
            return are_lasting
        if not count and len(self.marks) >= self.room:
            self.marks.clear()
        self.marks[mark] = count + 1
        return False

    def age(self) -> None:
        """Forget the older generation, and let the newer one be it.

        What has been met has to be met again before the next entry of it: a loop over more than there is room for would
        enter all of it each time and find nothing.
        """
        self.old = dict(self)
        self.clear()
        self.marks.clear()
