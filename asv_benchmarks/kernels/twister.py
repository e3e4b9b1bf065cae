"""The legacy generator on a GPU: NumPy's MT19937 streams, bit for bit, and how fast.

``python -m asv_benchmarks.kernels.twister [--numbers N] [--peer] [--parts] [--streams N] [--only NAME]`` draws
uniforms, polar normals and masked integers as `numpy.random.RandomState` does, compares N of each with NumPy's
(2 * 10**7 unless given), states too, and prints a line per case: the median of device-event times at full size, the
rate as a share of what the driver's fill writes, how many numbers differ and by how many units in the last place; with
``--parts`` the time of every launch; with ``--peer`` CuPy's and PyTorch's own streams; ``--streams`` cuts draws into
other numbers of streams than usual; with ``--only`` cases whose names have that in them. Ends with status 1 if anything
is wrong.
"""

import argparse
import sys

import numpy as np

from asv_benchmarks.kernels.plans import Prepared, milliseconds, write
from asv_benchmarks.kernels.random import integers, normal, peer_milliseconds, uniform, write_parts, write_rate
from oxinp._kernels.random import twister, twister_plan
from oxinp._kernels.random.twister_formats import FORMATS, RESULT_WORDS
from oxinp._runtime.cuda import open_backend

CHECKED = 20_000_000
N = 2**27
HIGH = 1000
MASK = 1023
CASES = {
    "uniform_f64": (lambda rng, n: rng.random_sample(n), (), 1.0, uniform("float64")),
    "polar_f64": (lambda rng, n: rng.standard_normal(n), (), 1.0, normal("float64")),
    "masked_u64": (
        lambda rng, n: rng.randint(0, HIGH, n).view("u8"),
        (MASK, HIGH - 1, 0),
        HIGH / (MASK + 1),
        integers("int64", HIGH),
    ),
    "uniform_f32": (None, (), 1.0, uniform("float32")),
}


class Draw:
    """A case of some size on the device."""

    def __init__(self, backend, name, size, num_streams=0):
        self.backend, self.name, self.size = backend, name, size
        self.draw, parameters, chance, self.peers = CASES[name]
        self.numpys = np.random.RandomState(20_26)
        self.numpys.bytes(100)
        self.before = self.numpys.get_state(legacy=False)["state"]
        cut = twister_plan.streams_of(name, size, chance)
        if num_streams:
            cutting = FORMATS[name].cutting._replace(most=num_streams)
            cut = twister_plan.streams(twister_plan.words_for(name, size, chance), cutting)
        plan = twister_plan.plan(name, size, backend.capability, cut=cut)
        made = FORMATS[name]
        self.dtype = made.type.dtype
        inputs = [twister.window_at(self.before["key"], self.before["pos"])]
        if cut.number > 1:
            inputs.append(twister_plan.polynomials(cut))
        self.inputs = [self._uploaded(array) for array in inputs]
        self.out, self.ended, self.left = (
            backend.allocate(n) for n in (size * made.type.nbytes, RESULT_WORDS * 8, twister.N * 4)
        )
        outputs = [buffer.ptr for buffer in (self.out, self.ended, self.left)]
        self.prepared = Prepared(backend, plan, outputs, [*(buffer.ptr for buffer in self.inputs), *parameters])

    def _uploaded(self, array):
        buffer = self.backend.allocate(array.nbytes)
        self.backend.upload(buffer.ptr, array)
        return buffer

    def __call__(self):
        self.prepared()

    def check(self):
        """Return how many numbers differ, the largest difference in ulp, and whether the end state is NumPy's."""
        self()
        self.backend.synchronize()
        ours, words, left = np.empty(self.size, self.dtype), np.empty(4, np.int64), np.empty(twister.N, np.uint32)
        for array, buffer in ((ours, self.out), (words, self.ended), (left, self.left)):
            self.backend.download(array, buffer.ptr)
        numpys = self.draw(self.numpys, self.size)
        different = np.nonzero(ours != numpys)[0]
        ulps = 0.0
        if len(different):
            a, b = ours[different], numpys[different]
            is_float = ours.dtype.kind == "f"
            ulps = float((np.abs(a - b) / np.spacing(np.abs(b))).max()) if is_float else float("inf")
        taken, start = words[:2].tolist()
        if taken < 0:
            return len(different), ulps, False
        key, position = twister.key_at(left, start, self.before["pos"], taken)
        after = self.numpys.get_state(legacy=False)["state"]
        return len(different), ulps, bool((key == after["key"]).all()) and position == after["pos"]


def main(arguments):
    """Check, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--numbers", type=int, default=CHECKED, help="how many are compared with NumPy's")
    parser.add_argument("--peer", action="store_true", help="measure CuPy and PyTorch as well")
    parser.add_argument("--parts", action="store_true", help="measure every launch of a draw")
    parser.add_argument("--streams", type=int, default=0, help="at most so many streams per draw")
    parser.add_argument("--only", default="", help="cases whose names have this in them")
    options = parser.parse_args(arguments)
    backend, is_right = open_backend(), True
    rate = write_rate(backend)
    write(f"{backend.capability.device_name}: fill writes {rate * 1e-6:.0f} GB/s")
    for name, (numpys, _, _, peers) in ((name, case) for name, case in CASES.items() if options.only in name):
        said = "not compared"
        if numpys is not None:
            different, ulps, ends_right = Draw(backend, name, options.numbers - 1, options.streams).check()
            is_right &= ends_right and ulps == 0
            said = f"{different} of {options.numbers - 1} differ, by {ulps:.0f} ulp; end {ends_right}"
        draw = Draw(backend, name, N, options.streams)
        ms = milliseconds(backend, draw)
        line = f"{name:12s} 2^27: {ms:8.4f} ms, {N * draw.dtype.itemsize / rate / ms:5.2f} of writing; {said}"
        if options.peer:
            for peer, other in peers.items():
                time = peer_milliseconds(peer, other, N)
                line += f"; {peer} {time:.4f} ({time / ms:.2f}x)"
        write(line)
        if options.parts:
            write_parts(backend, draw)
        del draw
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
