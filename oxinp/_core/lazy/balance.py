"""Where arrays of middling size belong, learned from what a program has done with them.

A launch costs the host as long as NumPy takes for some hundred kilobytes, so that a matrix of that size is better off
on the host if it is worked on row by row, and on the device if whole expressions of it are computed. What a program
does is weighed by the size of the largest array that takes part: below the threshold, up to twice of it, up to four
times and so on. For every size the balance says how much longer what has been done takes on the host than on the
device, in microseconds, by fixed prices: no clock is read, and a program is placed the same way every time. Sizes up to
which the sum is lowest belong on the host, as soon as that is worth as much more than the present way as moving some
such arrays takes.

What is small and on the host is not counted, for that would cost as much as some of it takes, but small views of larger
arrays are. So the way back to the device is longer, and gets twice as long every time that it was taken in vain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, cycle
from math import inf
from threading import RLock
from typing import TYPE_CHECKING, Any
from weakref import ref

from oxinp._config import before_change, config
from oxinp._core.lazy import explain
from oxinp._core.lazy.crossings import Crossings
from oxinp._core.memory.layout import Layout
from oxinp._core.memory.storage import Leaf
from oxinp._runtime import hooks
from oxinp._runtime.forking import free_in_children
from oxinp._runtime.memory import Buffer

if TYPE_CHECKING:
    from oxinp._core.lazy.expr import Structure

RECORD = 3.0
"""Microseconds to record an elementwise operation, most of which are launched together with others."""
LAUNCH = 10.0
"""Microseconds to launch a kernel."""
RECORDED = RECORD + LAUNCH / 4
"""Microseconds of an elementwise operation with its share of a launch, where nobody knows how many share one."""
LEAF, FEW_LEAVES, COMPARED = 3.0, 6, 6
"""Microseconds of each leaf of a chain beyond a few, for its launch and for each so many operations: leaves are looked
for in what else is pending, and compared with those of other operands."""
RELAUNCHED, AGAIN, FIRST = 16.0, 30.0, 110.0
"""Microseconds more for one that has not run before: of rows, products of vectors and reductions of new sizes, which
are launched by arithmetic; of chains and other operations of new sizes; and of what is planned anew."""
FEW = 4.0
"""Of launches, one in so many at most is planned anew where that is the beginning of something: it is no reason to work
elsewhere what a program does for the first time."""
WAIT = 30.0
"""Microseconds that waiting for the device takes beyond what it still computes."""
UPLOAD, FETCH = 20.0, 20.0
"""Microseconds that an upload and a fetch take beyond what they move and are waited for: asking for them."""
CALL = 1.5
"""Microseconds of an operation on the host, whatever its size."""
HOST_RATE = 20_000.0
"""Bytes of its largest operand or result that an operation on the host gets done in a microsecond."""
NEAR_NBYTES = 1 << 19
"""Of these, what it finds in the caches of its core, with its other operands; beyond, a byte takes twice as long."""
LOOP_NBYTES = 280
"""Bytes that NumPy adds in the time that it takes to begin with the next row, or other piece of memory, of a matrix."""
BY_ROWS = 2.5
"""How much longer NumPy takes for what it goes over row by row, for gaps between those of an operand or the result."""
LINE, CACHED_NBYTES = 64, 4 << 20
"""Bytes that the host moves at least, for whatever elements are among them, of arrays that its caches do not hold."""
COPY_RATE = 8_000.0
"""Bytes that a copy between the sides moves in a microsecond."""
SWITCH, MAX_SWITCH = 1000.0, 64_000.0
"""Microseconds, at first and at most, that the host has to be better by, for arrays that are moved in a `MOVED`-th.

For others it is as much more or less as moving them takes.
"""
MOVED = 10
"""Arrays that moving takes as long as the host has to be better by, at first: that of 64 KB 0.4 ms, of 64 MB 84 ms."""
CLEAR, LARGE = 0.4, 9
"""Of these, the share that is enough where the device has gained nothing, for arrays below that size: what programs do
with large ones may begin and end with small parts of them."""
RETURN, MAX_RETURN = 8 * SWITCH, 512 * SWITCH
"""Microseconds that the device has to be better by, at first and at most, for arrays that belong on the host."""
MAX_WEIGHT = 4 * SWITCH
"""What is remembered at least for a size, and at most unless moving such arrays takes longer: what was long ago counts
less; but a sample that stands for more counts whole until as many others have been taken."""
LASTING = 64_000.0
"""Microseconds gained on the device until half of what smaller arrays lose there is forgotten: what is little beside
that gain is not worth moving them for, however long it adds up."""
LATELY = 1 - 1 / 128
"""What is remembered of copies that there would be, at each judgement."""
SPARED_LATELY = 1 - 1 / 1024
"""And of what smaller work has lost on the device, at each launch of larger work since it is on the host."""
IN_ORDER = 0.4
"""What NumPy takes to find elements by a mask, as a share of that for as many by numbers in no order."""
MIN_GAIN = 16 * LAUNCH
"""Microseconds that the device gains at least with a launch for arrays that are not weighed, which are that large."""
WEIGHTS: dict[Any, float] = {}
"""How elementwise operations are lowered -> how much longer NumPy takes for one than for an addition, where it does."""
NUM_SIZES = 11
MIN_THRESHOLD = 4096
"""Settings of `offload_threshold` below are there to have everything on the device."""
SAMPLED = 23
"""One launch of so many is weighed, for all, and so is what small operations leave to the host: a prime, for loops have
few."""
EACH = 4
"""Launches that are weighed each after the program has waited, for one that waits again and again has few between."""
NEW = 4 * SAMPLED
"""The same after a change and at first, when nothing is known: one launch in `SAMPLED` says little of a few."""
SETTLED = 191
"""One view on the host of so many is weighed from `_SETTLED_AFTER` judgements after a change on: each says what those
before have said, and takes as long as a few views."""
_SETTLED_AFTER = 16
REST, MAX_REST, AWAKE = 5, 2048, 32
"""Launches that nothing is noted of for each that has been, and the most of them, where the device has long proved
right and still does, once so many have been: a note takes a tenth of a launch, and says what others have said."""
_NO_REST = (1 << 30) - 1
HEAVY = 8.0
"""How much longer NumPy takes for what is weighed each time, since one in `SAMPLED` would be too few to go by."""
_PERIOD = 8
"""Notes after which placement is judged anew."""
_IDLE, _FADING = 64, 0.9
"""Judgements after which a size counts as left that nothing has been noted of, and what is remembered of it after each
more: the way back from where large arrays were better off must not take as long as they were there."""
_REMEMBERED = 8 * SAMPLED
"""Launches by whose average it is known what one takes beyond its price."""
_PROOF = 64
"""Judgements after which a program that has not gone to the host is believed to have its arrays on the device."""
_LONG_PROOF = 8 * _PROOF
"""Judgements after which it takes half as much to go to the host again, where that has not paid before, and as little
as ever to come back."""
_SELECTED: dict[ref[Any], int] = {}
"""Buffers of what has been selected -> bytes of the largest array that it is from."""
_SUSPENDING = free_in_children(RLock())
is_sampled: Callable[[], bool] = cycle([True] + [False] * (SAMPLED - 1)).__next__
"""Whether the launch, view or operation that is asked about is; the first launches of their kind are weighed each."""


class Balance:
    """What has been learned.

    Attributes
    ----------
    limit : int
        Bytes below which arrays belong on the host, even those that are on the device; 0 where nothing speaks for that.
    reach : int
        Bytes from which on arrays are not weighed: they belong on the device. 0 while none is.
    period : int
        How many views on the host one is weighed of, where machine code counts them.
    each : int
        How many of the next launches are weighed each, others being sampled.
    has_waited : bool
        The program has waited for what the last kernels computed, so that the device has nothing to do.
    launches : list
        What machine code has launched and nobody has noted yet: the bytes of the largest array, what it is told by, see
        `BoundOp.told`, and whether it is weighed anyway.
    """

    __slots__ = (
        "_between",
        "_beyond",
        "_credit",
        "_crossings",
        "_due",
        "_earned",
        "_earned_before",
        "_fetch",
        "_gained",
        "_in_turn",
        "_last",
        "_last_crossed",
        "_level",
        "_lost",
        "_more",
        "_most",
        "_moving",
        "_news",
        "_noted",
        "_num_awake",
        "_num_judged",
        "_num_suspended",
        "_num_waits",
        "_outlasted",
        "_promise",
        "_ran",
        "_rest",
        "_return",
        "_sampled_below",
        "_shares",
        "_since",
        "_source",
        "_spared",
        "_switch",
        "_turn",
        "_unit",
        "_upload",
        "_usual",
        "_weights",
        "_won",
        "each",
        "has_waited",
        "launches",
        "limit",
        "period",
        "reach",
    )

    def __init__(self) -> None:
        self._num_suspended = 0  # blocks of `suspended`, of all threads
        self.launches: list[tuple[int, tuple[float, int], bool]] = []
        self.begin(config.offload_threshold, is_adaptive=config.adaptive_placement)

    def begin(self, threshold: float, *, is_adaptive: bool) -> None:
        """Forget everything, for a threshold; where placement does not adapt, nothing is learned."""
        del self.launches[:]
        self._unit = int(threshold) if is_adaptive and MIN_THRESHOLD <= threshold < inf else 0
        self._weights = [0.0] * NUM_SIZES
        self._won = [0.0] * NUM_SIZES  # of these, what has been gained; it fades with what is lost
        self._num_judged = 0
        self._noted = [0] * NUM_SIZES  # how many there had been when anything was noted last, by size
        self._gained = 0.0  # microseconds that the device has gained since the last judgement, of what it has won
        self._crossings = Crossings(NUM_SIZES, fetch=WAIT + FETCH, upload=UPLOAD)
        self._earned = 0.0  # microseconds that the device has gained since the last change
        self._turn = 0.0  # and since it has last been returned to, had all been done there
        self._level = self.limit = 0
        self.period = SAMPLED
        self._last = NUM_SIZES  # the size of the largest arrays that were worked on since the program waited last
        self.has_waited = False
        self.each = NEW
        self._beyond = 0  # launches for arrays that are not weighed, since the last judgement
        self._due = self._since = 0  # notes since the last judgement, and judgements since the last change
        self._upload = 0.0  # microseconds that uploads took of what belongs on the device, for what comes next
        self._news = 0.0  # the share of launches that were planned anew
        self._more = 0.0  # microseconds that launches take more, on an average: as the first of a kind, and waited for
        self._source = 0  # the size of the largest arrays that those were computed from
        self._between = 0.0  # microseconds that copies took between sizes that belong on different sides
        self._in_turn = 0.0  # of these, those of fetches and uploads in turn
        self._outlasted = 0.0  # of those in turn, what was as long ago as gains that are not remembered
        self._fetch = 0.0  # microseconds of the latest fetch, until something is uploaded
        self._note_anew()
        self._spared = 0.0  # microseconds that smaller work has lost there for each launch for larger arrays
        self._credit = 0.0  # and of all of these since smaller arrays are on the host
        self._moving = 0.0  # microseconds of copies to come that have been counted: arrays follow the last change
        self._return, self._switch = RETURN, SWITCH
        self.reach = self._unit << (NUM_SIZES - 1)
        self._rest = _NO_REST  # launches that are not weighed, as none is at present, until others are again
        self._num_awake = 0  # launches that have been noted since
        self._earned_before = 0.0  # microseconds that the device had gained by then
        self._promise = 0.0  # microseconds that the host would have gained at best, when that was judged last
        self._last_crossed = NUM_SIZES
        self._sampled_below = 4 * self._unit
        moving = [MOVED * (WAIT + (self._unit << size) / COPY_RATE) for size in range(NUM_SIZES)]
        self._shares = [microseconds / SWITCH for microseconds in moving]  # of `_switch`, by size
        # A loop whose turns begin and end with small parts must not forget between what its large parts have gained.
        self._usual = [max(MAX_WEIGHT, microseconds) for microseconds in moving]  # the most of the weights
        self._most = self._usual[:]  # and what it is at present

    def _note_anew(self) -> None:
        """Begin to note what smaller and larger work is like on the device."""
        self._lost = [0.0] * NUM_SIZES  # microseconds, by size
        self._ran = [0] * (NUM_SIZES + 1)  # launches, by size, and of what is not weighed
        self._num_waits = 0

    def computed_chain(
        self,
        size: int,
        structure: Structure,
        num_elements: float,
        *,
        is_first: bool,
        is_by_rows: bool = False,
        times: int = SAMPLED,
        num_recorded: int = 0,
    ) -> None:
        """Note a kernel of elementwise operations; for the other parameters, see `ran` and `computed_call`.

        Parameters
        ----------
        size : int
        structure : Structure
        num_elements : float
            Of the result, see `num_moved`.
        is_first : bool
            It has not run before on operands of these sizes.
        is_by_rows : bool
            See `are_by_rows`.
        times : int
        num_recorded : int
            Of its operations, how many the host would have to do for it; the others are done again, for more than one
            kernel. 0 for all.
        """
        calls = count = len(structure.nodes) or 1
        nbytes = (structure.host_nbytes or host_nbytes(structure)) * num_elements
        if 0 < num_recorded < count:
            calls = num_recorded
            nbytes *= calls / count
        nbytes += max(nbytes - calls * NEAR_NBYTES, 0.0)  # `numpys_microseconds`, spelled out
        if is_by_rows:
            nbytes *= BY_ROWS
        gain = calls * (CALL - RECORD) + nbytes / HOST_RATE - LAUNCH
        if (num_leaves := len(structure.kinds)) > FEW_LEAVES:
            gain -= LEAF * (num_leaves - FEW_LEAVES) * (1 + calls / COMPARED)
        self.launched(size, gain, extra=AGAIN if is_first else 0.0, times=times)

    def computed_call(
        self,
        size: int,
        cost: float,
        *,
        weight: float = 1.0,
        price: float = LAUNCH,
        extra: float = 0.0,
        times: int = SAMPLED,
        begun: float = 0.0,
    ) -> None:
        """Note another operation.

        Parameters
        ----------
        size : int
            See `ran`.
        cost : float
            See `BoundOp.host_cost`.
        weight : float
            See `Op.host_weight`.
        price : float
            See `Op.price`.
        extra : float
            Microseconds more that it took for not having run before.
        times : int
            How many it stands for: 1 where each is noted, as what is planned anew is; what takes arithmetic, and what
            has run before, is sampled.
        begun : float
            See `BoundOp.begun_nbytes`.
        """
        self.launched(size, numpys_microseconds(cost, weight, begun) - price, extra=extra, times=times)

    def recorded(self, nbytes: int, cost: float, price: float) -> None:
        """Note what was recorded of an array of so many bytes and takes the host a price, beside what is launched.

        It is sampled, as launches are.

        Parameters
        ----------
        nbytes : int
        cost : float
            See `BoundOp.host_cost`.
        price : float
            Microseconds.
        """
        if nbytes < self.reach and (self.each or is_sampled()):
            times = 1 if self.each else SAMPLED
            self._weigh(self._size(nbytes), times * (numpys_microseconds(cost) - price))

    def launched(self, size: int, gain: float, *, extra: float, times: int = SAMPLED) -> None:
        """Note a launch by the microseconds that the device gains; for the other parameters, see `computed_call`."""
        if self.each:
            self.each -= 1
            times = 1
        self._more += (extra - self._more) * times / _REMEMBERED
        if extra or self._news:
            self._news += ((extra > AGAIN) - self._news) * times / _REMEMBERED
            if extra > AGAIN:
                extra = AGAIN + (extra - AGAIN) * min(FEW * self._news, 1.0)
        self._weigh(size, times * (gain - extra))

    def ran(self, nbytes: int, leaves: tuple[Any, ...]) -> int:
        """Note how large the largest array is of what has been launched, for all of which the program may wait.

        What has been uploaded for it belongs to it as well.

        Returns
        -------
        int
            Its size, by which it is weighed; `NUM_SIZES` of what is not.
        """
        if nbytes < self.reach:
            held_nbytes: Any
            for entry in leaves:  # of a view it is the array that counts, which is placed as a whole; numbers have none
                kind = type(entry)
                if kind is Buffer:
                    held_nbytes = entry.nbytes
                elif kind is float or kind is int:
                    continue
                elif kind is Leaf:
                    held_nbytes = entry.buffer.nbytes
                elif (held_nbytes := getattr(entry, "nbytes", None)) is None:
                    held_nbytes = entry.buffer.nbytes if hasattr(entry, "buffer") else 0
                if held_nbytes > nbytes:  # noqa: PLR1730 - a call costs as much as the rest
                    nbytes = held_nbytes
            if _SELECTED:
                held = [x if type(x) is Buffer else getattr(x, "buffer", None) for x in leaves]
                nbytes = max(nbytes, *[_SELECTED.get(ref(x), 0) for x in held if x is not None], 0)
        if self.launches:
            self.note_launches()
        self._num_awake += 1
        if nbytes < self.reach:
            size = (int(nbytes) // self._unit).bit_length()  # `_size`, spelled out
        else:
            size = NUM_SIZES
            self._beyond += 1
            if self._beyond >= self._rest:
                self._end_rest()
                return size
        if self.has_waited or size > self._last:
            self._last = size
            self.has_waited = False
        if size != self._crossings.last:
            self._crossings.go(size)
        if not self._level:
            self._ran[size] += 1
        elif self._spared and size >= self._level:
            self._credit += self._spared
            self._spared *= SPARED_LATELY
        if self._upload:
            microseconds, self._upload = self._upload, 0.0
            if size < NUM_SIZES:
                self._weigh(size, -microseconds)
        return size

    def note_launches(self) -> None:
        """Note what machine code has launched, as `ran` and `computed_call` do, in its order."""
        launches, before, size = self.launches[:], -1, NUM_SIZES
        del self.launches[: len(launches)]
        for nbytes, (gain, times), is_due in launches:
            if nbytes != before or size == NUM_SIZES:  # else all that has been noted of that one
                size, before = self.ran(nbytes, ()), nbytes
            if size < NUM_SIZES and (is_due or times == 1 or self.each or is_sampled()):
                self.launched(size, gain, extra=0.0, times=times)

    def told(self, nbytes: int, leaves: tuple[Any, ...], told: tuple[float, int]) -> None:
        """Note such a launch for leaves that machine code does not know."""
        size = self.ran(nbytes, leaves)
        if size < NUM_SIZES and (told[1] == 1 or self.each or is_sampled()):
            self.launched(size, told[0], extra=0.0, times=told[1])

    def selected(self, buffers: Sequence[Any], leaves: tuple[Any, ...]) -> None:
        """Note that what is in Buffers has been selected from arrays: as large as those it counts from now on.

        It has another size each time, and to be on the host it would have to be fetched unless those are there.
        """
        held = [
            entry.nbytes if type(entry) is Buffer else entry.buffer.nbytes
            for entry in leaves
            if type(entry) is Buffer or getattr(entry, "buffer", None) is not None
        ]
        nbytes = max(held, default=0)  # 0 of numbers, repeated
        for buffer in buffers:
            _SELECTED[ref(buffer, _forget)] = nbytes

    def gathered(self, buffer: Any, leaves: Sequence[Any]) -> bool:
        """Note that what is in a Buffer has been gathered: by numbers that have been selected it is selected, too.

        Returns
        -------
        bool
            Whether it is.
        """
        if not _SELECTED:
            return False
        held = [entry if type(entry) is Buffer else getattr(entry, "buffer", None) for entry in leaves]
        found = [_SELECTED.get(ref(each), 0) for each in held if each is not None]
        if not any(found):
            return False
        _SELECTED[ref(buffer, _forget)] = max(*found, *[each.nbytes for each in held if each is not None])
        return True

    def waited(self) -> None:
        """Note that the program has waited for the device, for what the last kernels computed."""
        if self.launches:
            self.note_launches()
        self.has_waited = True
        if self.reach:
            self._num_waits += 1
        self.each = max(self.each, EACH)
        if self._last < NUM_SIZES:  # else it is none of those that the host would spare
            self._more += WAIT / _REMEMBERED
        self._weigh(self._last, -WAIT)
        if self._crossings.unfetched[1]:
            self._crossings.wait()

    def takes(self, nbytes: float, weight: float = 1.0, price: float = LAUNCH, times: float = 0) -> bool:
        """Whether an operation on the host that would be the device's belongs there, by what has been learned; note it.

        Parameters
        ----------
        nbytes : float
            The bytes of its largest operand or result.
        weight : float
            See `Op.host_weight`.
        price : float
            Microseconds that it would take on the device.
        times : int
            How many operations this one stands for, where the caller has sampled them; else that is found out here.
        """
        if nbytes >= self.limit:
            return False
        if not times:
            times = 1
            if nbytes < self._sampled_below and weight < HEAVY:  # which takes about as long as to find out how long
                if not is_sampled():
                    return True
                times = SAMPLED
        is_small = nbytes < self._unit  # the device's for its weight alone: what is done with the result is the host's
        if is_small:
            price += WAIT + 2 * nbytes / COPY_RATE
        gain = numpys_microseconds(weight * nbytes, weight) - price - self._more
        if gain > 0 or not is_small:
            self._weigh((int(nbytes) // self._unit).bit_length(), times * gain)
        return True

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Have arrays placed by the threshold alone, whatever has been or is learned, as long as the block lasts."""
        self._suspend(1)
        try:
            yield
        finally:
            self._suspend(-1)

    def _suspend(self, change: int) -> None:
        with _SUSPENDING:
            self._num_suspended += change
            self._follow_level()

    def viewed(self, nbytes: int, held: int, times: int = SAMPLED) -> None:
        """Note a view on the host, of so many bytes of an array of so many: work on it would be a launch.

        It stands for so many.
        """
        if nbytes < self._unit <= held:
            self._weigh(self._size(held), times * (CALL - LAUNCH - self._more))

    def fetched(self, nbytes: int) -> None:
        """Note that what is on the device was wanted on the host, and has been waited for.

        Larger work has left it there, or it belongs there, so that moving it is what that takes.
        """
        if self.launches:
            self.note_launches()
        if nbytes >= self.limit:
            self._weigh(max(self._size(nbytes), self._last), -FETCH - nbytes / COPY_RATE)
        else:
            self._fetch = self._copied(nbytes, nbytes, WAIT + FETCH)
            self._source = max(self._source, self._last)
            if self._last < NUM_SIZES:
                self._weights[self._last] += WAIT
            self._note()

    def uploaded(self, nbytes: int, moved: int) -> None:
        """Note that what is on the host was wanted on the device: by larger work, or it belongs there.

        Parameters
        ----------
        nbytes : int
            Of the array.
        moved : int
            Of these, how many were not valid there.
        """
        if self.launches:
            self.note_launches()
        if nbytes >= self.limit:
            self._upload += UPLOAD + moved / COPY_RATE
        else:
            microseconds = self._copied(nbytes, moved, UPLOAD)
            if self._fetch and microseconds:
                self._in_turn += self._fetch + microseconds
                self._fetch = 0.0
            self._note()

    def _copied(self, nbytes: int, moved: int, start: float) -> float:
        """Count a copy, but not those by which arrays come to where they belong since the last change; return it.

        What is smaller is a result; of what is larger no more may be moved than a part.
        """
        microseconds = start + moved / COPY_RATE
        if self._moving > 0 and nbytes >= self._unit:
            self._moving -= microseconds
            return 0.0
        self._between += microseconds
        return microseconds

    def _size(self, nbytes: float) -> int:
        return (int(nbytes) // self._unit).bit_length() if nbytes < self.reach else NUM_SIZES

    def _weigh(self, size: int, microseconds: float) -> None:
        if size >= NUM_SIZES:
            return
        self._weights[size] += microseconds
        self._noted[size] = self._num_judged
        self._earned += microseconds
        if not self._level:
            self._lost[size] -= microseconds
        most, usual = self._most, self._usual[size]
        if microseconds > most[size]:
            most[size] = microseconds
        elif microseconds > 0 and most[size] > usual:
            most[size] -= (most[size] - usual) / SAMPLED
        if size < self._level:
            pass
        elif microseconds > 0:
            self._gained += microseconds
            self._won[size] += microseconds
        else:
            self._won[size] *= max(1 + microseconds / (4 * MAX_WEIGHT), 0.0)
        self._due += 1  # `_note`, spelled out
        if self._due >= _PERIOD:
            self._due = 0
            self._judge()

    def _note(self) -> None:
        self._due += 1
        if self._due >= _PERIOD:  # two threads may have gone beyond
            self._due = 0
            self._judge()

    def _judge(self) -> None:
        """Find out whether another placement is better."""
        self._since += 1
        if self._since == _SETTLED_AFTER and self._level:
            self.period = SETTLED
        self._num_judged += 1
        self._fade()
        weights, level = self._weights, self._level
        least = -self._shares[0] * self._switch / NUM_SIZES
        if not (level or self._between) and min(weights) > least and sum(weights) < MAX_WEIGHT:
            return  # what follows would change nothing
        sums = [0.0, *accumulate(weights)]
        present = sums[level] + self._between
        if not level and sums[-1] >= MAX_WEIGHT:
            if self._earned >= self._return or self._since >= _LONG_PROOF:
                self._return = RETURN  # the device has proved right
            if self._since >= _PROOF and not self._since % _LONG_PROOF:
                self._switch = max(SWITCH, self._switch / 2)
        sizes = [size for size in range(level, NUM_SIZES) if weights[size]]
        better, most, before = [], 0.0, self._promise
        crossings = self._crossings.costs() if sizes else []
        switch = SWITCH if level else self._switch  # what has been dear is the way from the device
        for size in sizes:
            there = sums[size + 1] + (self._between if size < self._source else 0.0)  # which that would not spare
            there += crossings[size + 1] + (self._outlasted if size >= self._source else 0.0)
            gain = present - there
            most = max(most, gain)
            if self._is_better(gain, size, switch):
                better.append((there, size + 1))
        self._promise = most
        if better:
            self._settle(min(better)[1])
        elif not sizes and self._between + min(sums[level], 0.0) > 3 * SWITCH:
            # It is work on larger arrays that small ones come from, and what is gained on the host is less.
            if level <= self._source < NUM_SIZES:
                self._settle(self._source + 1)
            elif self._copies_not_spared() + min(sums[level], 0.0) > 3 * SWITCH:
                self._switch = min(2 * self._switch, MAX_SWITCH)
                self._settle(0)
        elif level and sums[level] + self._copies_not_spared() > self._return:
            # It was the way to the host that did not pay: for what is copied since, or for all since the way before.
            if self._between > sums[level] or self._turn + self._earned > 0:
                self._switch = min(4 * self._switch, MAX_SWITCH)
            else:
                self._return = min(4 * self._return, MAX_RETURN)
            self._settle(0)  # with all that may go there: it is seen there what smaller arrays would be copied for
        elif not level and sums[-1] >= MAX_WEIGHT and most <= before and self._since >= _SETTLED_AFTER:
            self._begin_rest()

    def _begin_rest(self) -> None:
        """Take all arrays for such as are not weighed, for so many launches, unless the device lost with the latest."""
        if self._num_awake < AWAKE or self._earned < self._earned_before:
            return
        self._rest = min(REST * self._num_awake, MAX_REST)
        self._beyond = 0
        self._last_crossed = self._crossings.last
        self.reach = 0

    def _end_rest(self) -> None:
        self.reach = self._unit << (NUM_SIZES - 1)
        self._rest = _NO_REST
        self._beyond = self._num_awake = self._last = 0
        self._earned_before = self._earned
        self._crossings.last = self._last_crossed

    def _fade(self) -> None:
        """Forget what was long ago, and what is little beside what has been gained since."""
        weights, level = self._weights, self._level
        is_forgetful = self._switch > SWITCH  # results of larger work have gone to the host in vain
        beyond = self._beyond * MIN_GAIN
        share = LASTING / (LASTING + self._gained + beyond)
        if is_forgetful:
            share *= MAX_WEIGHT / (MAX_WEIGHT + beyond)
        self._crossings.fade(share * LATELY)
        self._beyond, self._gained = 0, 0.0
        remembered = []  # sizes of which less than all gains are, and the share, from the largest on
        for size in range(NUM_SIZES - 1, -1, -1):
            weight = weights[size]
            if not weight:  # as of most sizes
                continue
            if self._num_judged - self._noted[size] > _IDLE:
                weight = weights[size] = _FADING * weight
            if share < 1 and weight < 0 and size >= level:  # what larger work gained meanwhile is not remembered either
                weight = weights[size] = weight * share
            least = -2 * max(1.0, self._shares[size]) * self._switch - MAX_WEIGHT
            most = self._most[size]
            if size >= level and not least <= weight <= most:
                weights[size] = min(max(weight, least), most)
                if weight > most:
                    remembered.append((size, most / weight))
                    share = min(share, most / weight) if is_forgetful else share
                    if size == self._source:  # what its results cost was as long ago
                        # What is fetched, worked on and uploaded again gains nothing there: all of that counts. Larger
                        # arrays would spare it, but not for what their gains are no longer remembered from.
                        self._between += (most / weight - 1) * (self._between - self._in_turn)
                        self._outlasted += (1 - most / weight) * (self._in_turn - self._outlasted)
        if remembered:
            self._lose(remembered)
        # What is on the host is remembered alike, of all sizes, and so is what copies cost and what they spare.
        excess = (
            max(max(weights[:level]) / self._return, -min(weights[:level]) / (RETURN + self._between)) if level else 0
        )
        if excess > 2:
            weights[:level] = [2 / excess * weight for weight in weights[:level]]

    def _lose(self, remembered: Sequence[tuple[int, float]]) -> None:
        """Let losses of larger arrays fade as the capped gains of smaller ones do, which would go to the host, too."""
        for size in range(remembered[-1][0] + 1, NUM_SIZES):
            if self._weights[size] < 0:
                self._weights[size] *= min(share for smaller, share in remembered if smaller < size)

    def _is_better(self, gain: float, size: int, switch: float) -> bool:
        """Whether it is worth moving arrays of up to a size to the host, for what it has been better by."""
        most = self._shares[size] * switch
        if gain <= max(CLEAR * most, self._shares[0] * switch):
            return False
        # Where the device has gained as much with some of what was done, more of that may follow.
        won = sum(self._won[self._level : size + 1])
        return gain > most * (CLEAR + (1 - CLEAR) * min(won / gain, 1.0)) and (size < LARGE or gain > most)

    def _follow_level(self) -> None:
        self.limit = self._unit << (self._level - 1) if self._level and not self._num_suspended else 0

    def _settle(self, level: int) -> None:
        """Let arrays of this many sizes belong on the host from now on."""
        kept = self._weights[level:] if level > self._level else []  # what larger arrays are better off with is as ever
        gains = (
            [] if kept else [max(weight, 0.0) for weight in self._weights[level : self._level]]
        )  # it returns for them
        self._won = [0.0] * level + gains + self._won[level + len(gains) :]
        self._weights = [0.0] * (NUM_SIZES - len(kept)) + kept
        self._crossings.forget(level if kept else NUM_SIZES)
        # Of a program whose arrays get smaller or larger, and its best way changes with them, a whole turn counts.
        self._turn = self._turn + self._earned + self._between if self._level else self._earned
        self._between = self._in_turn = self._outlasted = self._fetch = self._credit = 0.0
        self._moving = self._shares[level - 1] * SWITCH if level > self._level else 0.0
        self._since = 0
        self.period = SAMPLED
        self._earned = 0.0
        self._source = 0
        self.each = NEW
        self._earned_before = 0.0
        if not self._level:
            self._spared = self._lost_for_larger(level)
        elif not level:
            self._spared = 0.0
        self._note_anew()
        self._level = level
        self._follow_level()
        if explain.REPORTS:
            explain.note("placement", f"arrays below {self.limit or self._unit} B belong on the host", "learned")

    def _copies_not_spared(self) -> float:
        """Return the microseconds of copies between smaller and larger work beyond what smaller work lost before.

        What is small and on the host is not noted, so that nobody sees there what the copies spare.
        """
        self._credit = min(self._credit, self._between)  # of copies that there are
        return self._between - self._credit

    def _lost_for_larger(self, level: int) -> float:
        """Return the microseconds that work below a level has lost on the device for each launch of larger work.

        The program has waited for some of these launches as it waits for what is fetched.
        """
        num_larger = sum(self._ran[level:])
        if not num_larger:
            return 0.0
        return (max(sum(self._lost[:level]), 0.0) + WAIT * min(self._num_waits, num_larger)) / num_larger


def _forget(reference: ref[Any]) -> None:
    _SELECTED.pop(reference, None)


def numpys_microseconds(cost: float, weight: float = 1.0, begun: float = 0.0) -> float:
    """Return what an operation takes on the host, by the bytes that NumPy adds in as long as it takes.

    What weighs more than an addition, byte by byte, does not take longer for where they are, nor does what is `begun`,
    see `BoundOp.begun_nbytes`.
    """
    near = (NEAR_NBYTES * weight if weight > 1 else NEAR_NBYTES) + begun
    return CALL + (cost + max(cost - near, 0.0)) / HOST_RATE


def host_nbytes(structure: Structure) -> float:
    """Return the bytes that NumPy adds in as long as it takes for an element of all nodes of a structure.

    Of each node those of its largest operand or result count: a comparison reads eight times what it writes.
    """
    if structure.host_nbytes is not None:
        return structure.host_nbytes
    leaves = zip(structure.kinds, structure.are_arrays, strict=True)
    sizes = [kind.itemsize if is_array else 0 for kind, is_array in leaves]
    total = 0.0
    for node in structure.nodes:
        itemsize = node.dtype.itemsize
        total += WEIGHTS.get(node.lower, 1.0) * max([itemsize, *[sizes[i] for i in node.args]])
        sizes.append(itemsize)
    structure.host_nbytes = total
    return total


def num_moved(layout: Layout, nbytes: int) -> float:
    """Return how many elements the host moves to write those of a part of an array of so many bytes."""
    if nbytes < CACHED_NBYTES or layout.is_contiguous:
        return layout.size
    steps = [abs(step) for extent, step in zip(layout.shape, layout.strides, strict=True) if extent > 1 and step]
    step = min(steps, default=0)
    return layout.size * max(min(step, LINE) / layout.dtype.itemsize, 1.0)


def are_by_rows(layouts: Iterable[Any]) -> bool:
    """Whether NumPy goes over operands row by row: over leaves of a graph, or what a chain is written to."""
    for x in layouts:  # noqa: SIM110 - `any` costs more than the rest
        if type(x) is Layout and not x.is_contiguous and len(x.shape) > 1 and lies_apart(x):
            return True
    return False


def lies_apart(entry: Any) -> bool:
    """Whether a leaf of a graph is an array that has gaps, or is repeated along an axis; not a single element."""
    return type(entry) is Layout and not entry.is_contiguous and any(entry.strides)


balance = Balance()
before_change.setdefault("offload_threshold", []).append(
    lambda threshold: balance.begin(threshold, is_adaptive=config.adaptive_placement)
)
before_change.setdefault("adaptive_placement", []).append(
    lambda is_adaptive: balance.begin(config.offload_threshold, is_adaptive=is_adaptive)
)
hooks.after_waiting.append(balance.waited)
