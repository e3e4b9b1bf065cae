"""Threads that read the same arrays, and write each to its own part of them: random programs, with NumPy's results."""

import gc
import pickle
import random
from functools import partial

import numpy as np
import pytest

import oxinp
from tests.turns import run_at_once

SIZE, NUM_THREADS = 2048, 4
PART = SIZE // NUM_THREADS
SIDE = 16


def arrays(xp):
    """Return what all read, and what all write to in parts. Everything is a small whole number: no sum is rounded."""
    read = [xp.arange(float(SIZE)) % 89, (xp.arange(float(SIZE)) * 7) % 53, xp.arange(SIZE) % 31]
    return read, [xp.arange(float(SIZE)) % 17, xp.zeros(SIZE), xp.ones((32, SIZE // 32)).reshape(-1)]


class Program:
    """What one thread does: it notes what it reads on the way."""

    def __init__(self, xp, seed, number, read, shared):
        self.xp, self.random, self.read, self.shared = xp, random.Random(f"{seed} {number}"), read, shared
        self.low, self.high = number * PART, (number + 1) * PART
        self.own = [read[0][self.low : self.high] + 1, read[1][:PART] * 2, read[0][:PART] * 1]
        self.lent, self.noted = {}, []

    def run(self, steps, count):
        for _ in range(count):
            getattr(self, self.random.choice(steps))()
        for x in self.own:
            self.note(x)

    def note(self, x):
        self.noted.append(np.array(x))

    def some(self):
        return self.random.choice(self.own)

    def number(self):
        return self.random.randrange(len(self.shared))

    def part(self, number=None):
        return self.shared[self.number() if number is None else number][self.low : self.high]

    def keep(self, x):
        self.own.append(x)
        if len(self.own) > 6:
            self.own.pop(self.random.randrange(len(self.own)))

    def make(self):
        self.keep((self.some() * self.some() + self.some()) % 97)

    def use_what_all_read(self):
        start = self.random.randrange(SIZE - PART)
        self.keep(((self.read[0] * self.read[1] + self.read[2]) % 67)[start : start + PART])

    def use_part(self):
        self.keep((self.part() + self.some()) % 59)

    def where(self):
        self.keep(self.xp.where(self.some() > 30, self.some(), self.part(0)))

    def write_part(self):
        self.part()[...] = self.some()

    def change_part(self):
        x = self.part()
        x += self.some()
        x %= 71

    def write_masked(self):
        x = self.part()
        x[x > 40] = 1

    def write_element(self):
        number, place = self.number(), self.random.randrange(self.low, self.high)
        self.shared[number][place] = place % 13
        self.note(self.shared[number][place])

    def write_out(self):
        x = self.part()
        self.xp.add(self.some(), self.some(), out=x)
        x %= 91

    def change(self):
        x = self.some()
        x += self.some()
        x %= 73

    def change_view(self):
        x = self.some()
        x[::2] = x[1::2]

    def reverse(self):
        self.keep(self.some()[::-1])

    def multiply(self):
        self.keep((self.some()[: SIDE * SIDE].reshape(SIDE, SIDE) @ self.some()[:SIDE] % 79).repeat(PART // SIDE))

    def total(self):
        self.keep((self.some() + self.some().sum() % 11) % 83)

    def sort(self):
        self.keep(self.xp.sort(self.some()))

    def gather(self):
        self.keep(self.some()[self.read[2][:PART]])

    def join(self):
        self.keep(self.xp.concatenate([self.some()[: PART // 2], self.part(0)[PART // 2 :]]))

    def read_element(self):
        self.note(float(self.some()[self.random.randrange(PART)]))

    def leave_to_numpy(self):
        self.keep(self.xp.asarray(self.xp.gradient(self.some())) * 2 % 7)

    def lend(self):
        number = self.number()
        seen = np.asarray(self.shared[number])
        self.note(seen[self.low : self.high])
        seen[self.low : self.low + 3] = 1, 2, 3
        del seen
        self.note(self.part(number))

    def keep_lent(self):
        number = self.number()
        if self.lent.pop(number, None) is None:
            self.lent[number] = np.asarray(self.shared[number])

    def use_lent(self):
        for number, seen in self.lent.items():
            self.note(seen[self.low : self.high])
            seen[self.high - 2 : self.high] = 5
            self.note(self.part(number))

    def lend_memory(self):
        x = self.random.choice(self.read)
        self.note(np.frombuffer(memoryview(x), x.dtype)[self.low : self.high])

    def export(self):
        self.keep(self.xp.from_dlpack(self.some()) % 50)

    def pickle(self):
        self.note(pickle.loads(pickle.dumps(self.some())))  # noqa: S301 - they are ours

    def collect(self):
        gc.collect(0)


STEPS = [
    name
    for name in vars(Program)
    if name not in {"run", "note", "some", "number", "part", "keep"} and not name.startswith("_")
]


def programs_of(xp, seed):
    read, shared = arrays(xp)
    return [Program(xp, seed, number, read, shared) for number in range(NUM_THREADS)]


@pytest.mark.parametrize("threshold", [0, PART * 8 + 1, 1 << 30], ids=["device", "both", "host"])
@pytest.mark.parametrize("seed", [*range(3), *[pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 40)]])
def test_disjoint_parts_are_as_in_numpy(config, seed, threshold):
    config.backend, config.offload_threshold = "emulator", threshold
    chosen = random.Random(seed)
    steps = chosen.sample(STEPS, chosen.randrange(6, len(STEPS)))
    wanted, found = programs_of(np, seed), programs_of(oxinp, seed)
    for program in wanted:
        program.run(steps, 30)
    run_at_once(*[partial(program.run, steps, 30) for program in found])
    for ours, numpys in zip(found, wanted, strict=True):
        for x, y in zip(ours.noted, numpys.noted, strict=True):
            np.testing.assert_array_equal(x, y)
    for x, y in zip(found[0].shared + found[0].read, wanted[0].shared + wanted[0].read, strict=True):
        np.testing.assert_array_equal(oxinp.asnumpy(x), y)
