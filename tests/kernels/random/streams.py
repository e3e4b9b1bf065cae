"""NumPy's generators beside our plans: the same draw on both, and whether numbers and states agree."""

import numpy as np

from oxinp._core.ops.c_library import form_of
from oxinp._kernels.random import fill, segments
from oxinp._kernels.random.lcg import GENERATORS, MASK_64
from oxinp._kernels.random.variates import VARIATES, ziggurat_table
from tests.kernels.machine import execute

FILLS = {
    "uniform_f64": lambda rng, n: rng.random(n),
    "uniform_f32": lambda rng, n: rng.random(n, dtype="f4"),
    "words": lambda rng, n: rng.bit_generator.random_raw(n),
    "halves": lambda rng, n: rng.integers(0, 2**32, n, dtype="u4"),
}
ZIGGURATS = {
    "normal_f64": lambda rng, n: rng.standard_normal(n),
    "normal_f32": lambda rng, n: rng.standard_normal(n, dtype="f4"),
    "exponential_f64": lambda rng, n: rng.standard_exponential(n),
    "exponential_f32": lambda rng, n: rng.standard_exponential(n, dtype="f4"),
}


class Stream:
    """A state of NumPy's generator, and the same for our plans.

    Parameters
    ----------
    session : Session
    generator : str
    seed : int
    has_half : bool
        A half word is left from a draw before.
    """

    def __init__(self, session, generator, seed, *, has_half=False):
        self.session, self.lcg = session, GENERATORS[generator]
        self.rng = np.random.Generator(getattr(np.random, generator)(seed))
        if has_half:
            self.rng.random(dtype="f4")
        self.before = self.rng.bit_generator.state
        self.has_half = has_half

    def scalars(self, *, is_shifted):
        """Return the inputs that say where a plan starts."""
        state, increment = self.before["state"]["state"], self.before["state"]["inc"]
        values = [part for number in (state, increment) for part in (number & MASK_64, number >> 64)]
        return [*values, self.before["uinteger"]] if is_shifted else values

    def fill(self, name, size, offset=0):
        """Return what a plan of a fixed number of words gives, written some elements into an array."""
        made = fill.FORMATS[name]
        base = np.zeros(size + offset + 9, made.type.dtype)
        out = base[offset : offset + size]
        pointer = self.session.pointer(out)
        is_shifted = self.has_half and made.halves == 1
        plan = fill.plan(self.lcg.name, name, size, pointer & -pointer, self.session.device, is_shifted=is_shifted)
        self.session.run(plan, [out], self.scalars(is_shifted=is_shifted))
        assert not base[:offset].any()
        assert not base[offset + size :].any()
        return out

    def segments(self, name, size, parameters=(), **how):
        """Return what a plan of segments gives, and the two words that say how it ended."""
        variate = VARIATES[name]
        out = np.zeros(size, variate.type.dtype)
        is_shifted = self.has_half and variate.pieces > 1
        if variate.tail is not None:
            how.setdefault("log1p", form_of(f"log1p_f{variate.type.nbytes}"))
        plan = segments.plan(segments.Draw(self.lcg.name, name, size, is_shifted, **how), self.session.device)
        values = self.scalars(is_shifted=is_shifted)
        if variate.has_table:
            values.append(self.session.pointer(ziggurat_table(name)))
        words = np.zeros(2, np.int64)
        outputs = [self.session.pointer(array) for array in (out, words)]
        execute(self.session.machine, plan, outputs, [*values, *parameters])
        self.session.fetch([out, words])
        return out, words.tolist()

    def state_after(self, name, taken):
        """Return the state after pieces of words were taken, as NumPy's dictionary."""
        state, increment = self.before["state"]["state"], self.before["state"]["inc"]
        pieces = VARIATES[name].pieces
        after = dict(self.before)
        halves = -(-taken * 2 // pieces)
        words = -(-halves // 2) - (self.has_half and pieces > 1)
        after["state"] = {"state": self.lcg.advanced(state, increment, words), "inc": increment}
        if pieces > 1:
            after["has_uint32"] = halves % 2
            if words > 0:
                after["uinteger"] = self.lcg.word_at(state, increment, words - 1) >> 32
        return after
