"""What small arrays and element loops cost: these stay on the host and should cost little more than NumPy.

``python -m asv_benchmarks.host_path`` times 88 statements on arrays of 16 elements, NumPy's and ours in turn. It prints
for each the microseconds that NumPy takes, those that we take beyond, the ratio (above 1 we are faster), and how many
more calls of Python functions ours makes, which no other load on the machine changes.
"""

import argparse
import math
import statistics
import sys
import timeit

import numpy as np

import oxinp
from asv_benchmarks import requirement
from asv_benchmarks.case import HostCase, ValueCase, random_array
from oxinp._terminal import Columns, columns

MILLISECONDS = 1e3
MICROSECONDS = 1e6

# `a`, `b`: 16 float64; `M`, `N`: 4 by 4; `k`: 16 int64; `m`: 16 bool, half of them true; `s`: what is written to.
# `r`: a generator.
STATEMENTS = (
    *("a + b", "a * 2.0", "1.0 - a", "-a", "a ** 2", "a / b", "s += b", "s *= 1.0", "a > b", "a == 2.0", "m & n"),
    *("a[2:9]", "M[1]", "M[:, 1]", "a[::-1]", "M[1:3, 1:3]", "a[3]", "M[1, 2]", "float(a[0])"),
    *("s[3] = 1.5", "S[1, 2] -= 0.5", "s[3] += 0.5", "S[1] = b[:4]", "s[2:9] = 0.0", "S[:, 1] = M[0]"),
    *("s[s > 2] = 0", "a[m]", "a[k]", "s[k] = 1.0"),
    *("M @ N", "M[1] @ N[2]", "M @ M[0]", "np.dot(M[1], N[2])", "np.outer(a, b)"),
    *("np.zeros(16)", "np.empty((4, 4))", "np.ones(16)", "np.arange(16)", "np.array([1.0, 2.0, 3.0])", "np.asarray(a)"),
    *("np.zeros_like(a)", "np.linspace(0.0, 1.0, 16)"),
    *("np.transpose(M)", "M.T", "a.reshape(4, 4)", "M.ravel()", "np.reshape(a, (4, 4))"),
    *("a.sum()", "np.sum(M, axis=0)", "a.max()", "a.mean()", "np.cumsum(a)", "m.any()", "np.all(m)"),
    *("np.sort(a)", "a.argsort()", "a.argmax()", "np.concatenate((a, b))", "np.stack([a, b])"),
    *("np.where(m, a, b)", "np.clip(a, 0.0, 1.0)", "np.abs(a)", "np.sqrt(a)", "np.maximum(a, b)", "np.exp(a)"),
    *(
        "np.result_type(a, b)",
        "a.item(3)",
        "M.diagonal()",
        "s.sort()",
        "a.repeat(2)",
        "np.array(3.0)",
        "np.hsplit(a, 2)",
    ),
    *("np.block([[M, M], [M, M]])", "np.r_[a, b]", "np.vander(a)", "np.nditer(a)", "np.trim_zeros(a)"),
    *("r.random()", "r.normal(size=3)", "np.random.randn(3)", "np.random.permutation(5)", "np.random.shuffle(s)"),
    *("np.linalg.norm(a)", "a.astype('f4')", "a.copy()", "len(a)", "a.shape", "for x in a: pass"),
)


def names(np):
    """Return what the statements are about, made with a library."""
    values = random_array(32, "float64") * 3
    x, y = values[:16], values[16:]
    return {
        "np": np,
        "r": np.random.default_rng(0),
        **{name: np.array(value.copy()) for name, value in {"a": x, "b": y, "s": x}.items()},
        **{name: np.array(value.copy().reshape(4, 4)) for name, value in {"M": x, "N": y, "S": x}.items()},
        "k": np.array([i * 5 % 16 for i in range(16)]),
        "m": np.array([i % 2 == 0 for i in range(16)]),
        "n": np.array([i % 3 == 0 for i in range(16)]),
    }


def num_calls(statement, given):
    """Return the calls of Python functions that a statement makes, by the interpreter's own count."""
    count = 0

    def note(frame, event, argument):
        nonlocal count
        del frame, argument
        count += event == "call"

    code = compile(statement, "<statement>", "exec")
    for _ in range(3):
        exec(code, given)  # noqa: S102 - one of the table's
    sys.setprofile(note)
    try:
        exec(code, given)  # noqa: S102
    finally:
        sys.setprofile(None)
    return count - 1  # the code itself


def measure(statement, sides, options):
    """Return the median time of a statement per side, in microseconds; the sides take turns."""
    rounds, seconds = options.rounds, options.seconds
    # Statements that assign to a name have it local.
    timers = [timeit.Timer(statement, "s = given['s']", globals={**given, "given": given}) for given in sides]
    for timer in timers:
        timer.timeit(20)  # which any caches keep
    count = max(10, int(seconds / (timers[0].timeit(20) / 20)))
    times = [[timer.timeit(count) / count for timer in timers] for _ in range(rounds)]
    chosen = min if options.fastest else statistics.median
    return [MICROSECONDS * chosen(column) for column in zip(*times, strict=True)]


def main(arguments=None):
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m asv_benchmarks.host_path", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=51)
    parser.add_argument("--seconds", type=float, default=1e-4, help="that NumPy takes for each round of a statement")
    parser.add_argument("--fastest", action="store_true", help="take the fastest round: on a busy machine")
    parser.add_argument("--calls", action="store_true", help="only count calls")
    parser.add_argument("--only", default="", help="statements that contain this text")
    options = parser.parse_args(arguments)
    sides = [names(np), names(oxinp)]
    _, theirs = measure("a + b", [sides[0]] * 2, options)
    print(f"NumPy {np.__version__}: a + b of 16 elements {theirs:.3f} us; oxinp's backend: {oxinp.config.backend}")
    drawn = Columns([28, *[0 if options.calls else each for each in (8, 8, 6)], 10], width=columns(), right=range(1, 5))
    print(drawn.draw(["statement", "NumPy us", "over us", "ratio", "calls over"]))
    ratios, calls = [], 0
    for statement in STATEMENTS:
        if options.only not in statement:
            continue
        theirs, ours = (num_calls(statement, given) for given in sides)
        calls += ours - theirs
        times = ["", "", ""]
        if not options.calls:
            numpys, taken = measure(statement, sides, options)
            ratios.append(numpys / taken)
            times = [f"{each:.2f}" for each in (numpys, taken - numpys, ratios[-1])]
        print(drawn.draw([statement, *times, str(ours - theirs)]))
    if ratios:
        print(f"geometric mean of NumPy's time by ours: {math.exp(statistics.fmean(map(math.log, ratios))):.3f}")
    print(f"calls over NumPy's: {calls} in {len(STATEMENTS)} statements")


class Small(HostCase):
    """One operation on arrays of 16 elements."""

    is_of_device = False
    params = (("add", "sum", "item", "slice"),)
    param_names = ("operation",)
    peers = ("numpy",)
    burst = quick_burst = 5000

    def iteration(self, side, operation):
        a, b = (side.asarray(random_array(16, "float64", seed)) for seed in range(2))
        return {
            "add": lambda: a + b,
            "sum": a.sum,
            "item": lambda: a[3],
            "slice": lambda: a[2:9],
        }[operation]

    def requirements(self, operation):
        return (requirement.at_most_above("numpy", 0.6, "us"),) if operation == "add" else ()


class ElementLoop(ValueCase):
    """`for i in range(n): x[i] = x[i] + 1` over an array that lives on the device."""

    is_of_device = False
    params = ((1 << 20,),)
    quick_params = ((1 << 17,),)
    param_names = ("nbytes",)
    peers = ("numpy",)

    def measure(self, side, nbytes):
        host = random_array(nbytes // 8, "float64")
        x = side.asarray(host) * 1  # on the device, and nowhere else
        if side.materialise is not None:
            side.materialise(x)
        side.synchronize()
        start = self.clock()
        for i in range(host.size):
            x[i] = x[i] + 1
        side.synchronize()
        elapsed = self.clock() - start
        assert np.array_equal(side.to_host(x), host + 1)
        return MILLISECONDS * elapsed

    def requirements(self, nbytes):
        del nbytes
        return (requirement.ratio("numpy", 0.1),)


if __name__ == "__main__":
    main()
