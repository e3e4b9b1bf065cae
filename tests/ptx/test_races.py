"""The race detector finds what a search through all earlier accesses finds, and nothing else."""

import numpy as np
import pytest

from oxinp._ptx.emulator.races import Epochs, Tracker

NUM_BLOCKS = 3
LANES_PER_BLOCK = 64
NUM_LANES = NUM_BLOCKS * LANES_PER_BLOCK
WARP = 32
CAPACITY = 4096
BLOCK_STRIDE = 1024  # of shared memory


class Search:
    """Every access there was, by byte: two lanes conflict unless a synchronisation came between."""

    def __init__(self, lanes_per_block):
        self.accesses = []  # (first byte, bytes, lane, is_write, time)
        self.now = self.grid = 0
        self.lanes_per_block = lanes_per_block
        self.block = [0] * NUM_BLOCKS
        self.warp = [0] * (NUM_BLOCKS * lanes_per_block // WARP)

    def synchronize(self, blocks):
        self.now += 1
        for block in blocks:
            self.block[block] = self.now

    def synchronize_warps(self, warps):
        self.now += 1
        for warp in warps:
            self.warp[warp] = self.now

    def fence(self):
        self.now += 1
        self.grid = self.now

    def is_conflict(self, start, nbytes, lane, is_write):
        for other_start, other_nbytes, other, other_writes, time in self.accesses:
            if other == lane or not (is_write or other_writes):
                continue
            if other_start >= start + nbytes or start >= other_start + other_nbytes:
                continue
            since = self.grid
            if other // self.lanes_per_block == lane // self.lanes_per_block:
                since = max(since, self.block[lane // self.lanes_per_block])
            if other // WARP == lane // WARP:
                since = max(since, self.warp[lane // WARP])
            if time >= since:
                return True
        return False

    def conflicts(self, offsets, nbytes, lanes, is_write):
        """Tell whether an instruction conflicts, with earlier ones or between its own lanes."""
        found = any(self.is_conflict(o, nbytes, lane, is_write) for o, lane in zip(offsets, lanes, strict=True))
        return found or (is_write and len(set(offsets)) < len(offsets))

    def note(self, offsets, nbytes, lanes, is_write):
        self.accesses += [(o, nbytes, lane, is_write, self.now) for o, lane in zip(offsets, lanes, strict=True)]


def access(rng, is_shared, lanes_per_block):
    """Offsets, width and lanes of a random instruction: contiguous, strided, scattered, or one element for all."""
    num_lanes = NUM_BLOCKS * lanes_per_block
    first = int(rng.integers(num_lanes - 1))
    lanes = np.arange(first, int(rng.integers(first + 1, num_lanes + 1)), dtype=np.int64)
    if rng.random() < 0.3:
        lanes = lanes[rng.random(len(lanes)) < 0.6] if len(lanes) > 4 else lanes
    if not len(lanes):
        lanes = np.array([first], np.int64)
    nbytes = int(rng.choice([1, 2, 4, 8, 16], p=[0.1, 0.1, 0.4, 0.3, 0.1]))
    kind = rng.choice(["own", "shifted", "strided", "scattered", "one"], p=[0.45, 0.2, 0.15, 0.1, 0.1])
    base = int(rng.integers(4)) * 512
    room = 512 // nbytes if is_shared else CAPACITY // nbytes
    if kind == "own":
        elements = lanes
    elif kind == "shifted":
        elements = lanes + int(rng.integers(-3, 4))
    elif kind == "strided":
        elements = (lanes * int(rng.integers(2, 5))) ^ int(rng.integers(4))
    elif kind == "one":
        elements = np.full(len(lanes), int(rng.integers(room)))
    else:
        elements = rng.integers(room, size=len(lanes))
    offsets = np.abs(elements) % room * nbytes
    if is_shared:  # a part for each block
        offsets = offsets % 512 + lanes // lanes_per_block * BLOCK_STRIDE + base % 1024 // 2
    return offsets.astype(np.int64), nbytes, lanes


def bounds(offsets, nbytes, is_shared):
    inside = offsets % BLOCK_STRIDE if is_shared else offsets
    return int(inside.min()), int(inside.max()) + nbytes


def is_contiguous(offsets, nbytes):
    return bool((np.diff(offsets) == nbytes).all())


@pytest.mark.parametrize("is_shared", [False, True], ids=["global", "shared"])
@pytest.mark.parametrize("seed", [*range(50), 2357])  # the last: a range tagged after later ones of the same lanes
def test_as_a_search(seed, is_shared):
    rng = np.random.default_rng(seed)
    lanes_per_block = WARP if seed % 2 else LANES_PER_BLOCK
    tracker, search = Tracker(CAPACITY, is_shared=is_shared), Search(lanes_per_block)
    epochs = Epochs(1 + seed, NUM_BLOCKS, lanes_per_block)
    earlier = []
    for _ in range(70):
        what = rng.random()
        if what < 0.25:
            blocks = range(NUM_BLOCKS) if rng.random() < 0.7 else [int(rng.integers(NUM_BLOCKS))]
            search.synchronize(blocks)
            epochs.synchronize_blocks(np.array(blocks))
        elif what < 0.4:
            warps = rng.permutation(len(search.warp))[: int(rng.integers(1, len(search.warp) + 1))]
            search.synchronize_warps(warps.tolist())
            epochs.synchronize_warps(warps)
        elif what < 0.45:
            search.fence()
            epochs.synchronize_grid()
        else:
            is_again = earlier and rng.random() < 0.3
            offsets, nbytes, lanes = (
                earlier[int(rng.integers(len(earlier)))] if is_again else access(rng, is_shared, lanes_per_block)
            )
            earlier.append((offsets, nbytes, lanes.copy()))
            is_write = bool(rng.random() < 0.4)
            instruction = offsets.tolist(), nbytes, lanes.tolist(), is_write
            expected = search.conflicts(*instruction)
            if expected and rng.random() < 0.9:
                continue  # the first conflict is the end: most are left out, so that much comes before
            search.note(*instruction)
            given = offsets[:1] if not is_write and len(set(offsets.tolist())) == 1 else offsets
            conflict = tracker.note(
                epochs,
                given,
                nbytes,
                lanes,
                bounds(offsets, nbytes, is_shared),
                is_write=is_write,
                is_contiguous=len(given) == len(lanes) and is_contiguous(offsets, nbytes),
            )
            assert (conflict is not None) == expected
            if expected:
                return


def test_tags_of_all_noted_ranges_once_there_are_too_many(monkeypatch):
    monkeypatch.setattr("oxinp._ptx.emulator.races._MAX_NOTED", 2 * NUM_LANES)
    tracker, epochs, lanes = Tracker(CAPACITY), Epochs(1, NUM_BLOCKS, LANES_PER_BLOCK), np.arange(NUM_LANES // 2)

    def note(start, *, is_write, lanes=lanes):
        offsets = start + 4 * np.arange(len(lanes))
        bounds = int(offsets[0]), int(offsets[-1]) + 4
        return tracker.note(epochs, offsets, 4, lanes, bounds, is_write=is_write, is_contiguous=True)

    for i in range(7):
        assert note(512 * i, is_write=False) is None
    assert note(3584, is_write=True) is None
    conflict = note(512, is_write=True, lanes=np.arange(5, 6))
    assert conflict.kind == "write after read"
    assert (conflict.offset, conflict.lane, conflict.other) == (512, 5, 0)


@pytest.mark.parametrize("is_strided", [False, True], ids=["contiguous", "strided"])
def test_accesses_that_repeat_each_other_are_held_once(is_strided):
    tracker, epochs, lanes = Tracker(CAPACITY), Epochs(1, NUM_BLOCKS, LANES_PER_BLOCK), np.arange(NUM_LANES)

    def note(lanes, *, is_write):
        offsets = (8 if is_strided else 4) * lanes
        bounds = int(offsets[0]), int(offsets[-1]) + 4
        return tracker.note(epochs, offsets, 4, lanes, bounds, is_write=is_write, is_contiguous=not is_strided)

    for _ in range(20):
        assert note(lanes, is_write=False) is None
        epochs.synchronize_warps(np.array([0]))
        assert note(lanes, is_write=True) is None
    assert tracker._num_noted == 2 * NUM_LANES
    conflict = tracker.note(epochs, 8 + 0 * lanes[:1], 4, lanes[40:41], (8, 12), is_write=True, is_contiguous=True)
    assert (conflict.kind, conflict.lane, conflict.other) == ("write after write", 40, 1 if is_strided else 2)


def test_warps_that_are_blocks_are_ordered_as_blocks_are():
    tracker, epochs = Tracker(CAPACITY, is_shared=True), Epochs(1, NUM_BLOCKS, WARP)
    lanes, offsets = np.arange(WARP), 4 * np.arange(WARP)
    for i in range(9):
        bounds = 0, 4 * WARP
        assert tracker.note(epochs, offsets, 4, lanes, bounds, is_write=True, is_contiguous=True) is None
        epochs.synchronize_warps(np.array([0]))
        given = offsets[::-1] if i % 2 else offsets
        assert tracker.note(epochs, given, 4, lanes, bounds, is_write=False, is_contiguous=not i % 2) is None
        epochs.synchronize_warps(np.arange(NUM_BLOCKS))
    assert tracker._extents == []  # nothing had to be tagged
