"""What is said of a function after NumPy's or SciPy's documentation of it: where it is computed, and what differs."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from oxinp._api.coverage import COMPOSED, HOST, NATIVE, REFUSED, CoverageRow
from oxinp._core.documentation import ON_THE_HOST, appended

KINDS = {
    NATIVE: "Runs on the device, or looks at nothing but shapes and dtypes.",
    COMPOSED: "Made of operations that run on the device.",
    HOST: ON_THE_HOST,
    REFUSED: "Raises NotImplementedError:",
}

_SUMS = "Sums are in another order than NumPy's, at least as accurate as its pairwise ones, and the same on every run."
_SCANS = (
    "Cumulative sums of floats are rounded once per element, from a sum that keeps the errors; NumPy adds in order and "
    "rounds every time."
)
_PARTS = "The elements around those asked for are in another order than NumPy's, which leaves it open."
_UNBUFFERED = (
    "Sums of floats are in the order of the elements; those of bins with thousands of them in parts that are then "
    "joined, whose last bits may differ from NumPy's."
)
_HALVES = "Those of float16 are found in float32 and float64, those of float32 around an exact mean."
_TRANSFORMS = "Errs less than pocketfft, but for multiples of primes from 29 to about 90; the last bits differ."
_RANGES = "A product that leaves the range on the way and comes back is the true one; NumPy's stays beyond it."
_LARGEST = "Of complex numbers with NaN among them the result is one of those; NumPy's is the first."
_INDICES = (
    "An index out of bounds in an array that is on the device alone raises when the host next waits for the device; "
    "`oxinp.config.synchronous = True` raises it at once."
)
_SPECTRA = "Computed in the precision of the operands, where newer versions of SciPy compute float32 in float64."
_ITERATIONS = (
    "Partly on the host, and counted as that: the reduction to Hessenberg form and the products that make vectors run "
    "on the device, balancing and QR iterations are LAPACK's. Stacks are NumPy's or SciPy's."
)
_FOURIER = ("fft", "ifft", "rfft", "irfft")
_COPIES = "Arrays of NumPy's are copied, where NumPy would return its argument."

DIFFERENCES: dict[str, str] = {
    **dict.fromkeys(
        ("sum", "mean", "nansum", "nanmean", "dot", "inner", "tensordot", "vdot", "trace", "average"), _SUMS
    ),
    **dict.fromkeys(("cumsum", "cumprod", "nancumsum", "nancumprod", "cumulative_sum", "cumulative_prod"), _SCANS),
    **dict.fromkeys(("var", "std", "nanvar", "nanstd"), _HALVES),
    **dict.fromkeys(("partition", "argpartition"), _PARTS),
    **dict.fromkeys(("prod", "nanprod"), _RANGES),
    **dict.fromkeys(("max", "min", "amax", "amin"), _LARGEST),
    **dict.fromkeys(("take", "put", "take_along_axis", "put_along_axis"), _INDICES),
    **dict.fromkeys(
        [
            f"scipy.signal.{name}"
            for name in ("welch", "csd", "coherence", "periodogram", "spectrogram", "stft", "istft")
        ],
        _SPECTRA,
    ),
    **dict.fromkeys(
        [f"scipy.linalg.{name}" for name in ("sqrtm", "signm")],
        "Where the iteration does not converge, or its residual is more than rounding makes, as for square roots of "
        "matrices with eigenvalues on the negative real axis, SciPy computes on the host, and the call is counted.",
    ),
    **dict.fromkeys(
        ["scipy.linalg.eig_banded", "scipy.linalg.eigvals_banded"],
        "Of the matrix as a dense one, which takes as much memory.",
    ),
    **dict.fromkeys(
        ["linalg.eig", "linalg.eigvals", *(f"scipy.linalg.{name}" for name in ("eig", "eigvals", "schur"))],
        _ITERATIONS,
    ),
    **dict.fromkeys(
        [f"scipy.linalg.{name}" for name in ("solve_banded", "solveh_banded", "cho_solve_banded")],
        "Partly on the host, and counted as that: LAPACK factors the band, which goes row by row; systems with 32 and "
        "more right-hand sides, and at most 16 elements beside the diagonals of their factors, are the device's.",
    ),
    "scipy.linalg.qr": "Of stacks QR with pivoting is SciPy's, on the host and counted.",
    **dict.fromkeys(
        [f"scipy.sparse.linalg.{name}" for name in ("splu", "spilu", "factorized")],
        "Analysis and factors are SciPy's, on the host and counted; systems with 32 and more right-hand sides are "
        "solved on the device.",
    ),
    "scipy.sparse.csgraph.connected_components": "Strong components are numbered by their first vertices.",
    "scipy.sparse.csgraph.minimum_spanning_tree": "Of edges of one weight the tree has the one stored first.",
    **dict.fromkeys(
        [f"scipy.sparse.csgraph.{name}" for name in ("dijkstra", "bellman_ford", "shortest_path")],
        "Of several predecessors on shortest paths the result is the nearest to the start, then the first.",
    ),
    "scipy.signal.convolve": "Results that are not finite give no warning.",
    **dict.fromkeys(("bincount", "histogram", "histogram2d", "histogramdd"), _UNBUFFERED),
    **dict.fromkeys(("asarray", "asanyarray"), _COPIES),
    "einsum": "Three or more operands are contracted in pairs also without `optimize`: the last bits differ, and an "
    "intermediate result may overflow that NumPy's does not have.",
    "unique_values": "The values are sorted, which NumPy leaves open.",
    "frombuffer": "The elements stay on the host for good, where others see them; device work copies them each time.",
    **dict.fromkeys(
        [f"{module}.{name}{n}" for module in ("fft", "scipy.fft") for name in _FOURIER for n in ("", "2", "n")]
        + [f"{module}.hfft" for module in ("fft", "scipy.fft")]
        + [f"scipy.fft.{name}{n}" for name in ("dct", "idct", "dst", "idst") for n in ("", "n")],
        _TRANSFORMS,
    ),
}
"""What a program can notice of a function, by its dotted name below ``oxinp``; docs/differences.md has all of it."""


def sentences(row: CoverageRow) -> tuple[str, ...]:
    """Return what is said of a row of the coverage table."""
    kind = KINDS.get(row.kind, "")
    told = (f"{kind} {row.reason}." if row.kind == REFUSED else kind, DIFFERENCES.get(row.name, ""))
    return tuple(filter(None, told))


def add(front: Any, theirs: Any, row: CoverageRow) -> None:
    """Give a function of ours the documentation of theirs, and what is to be said of ours."""
    if isinstance(front, FunctionType):
        front.__doc__ = appended(theirs.__doc__, *sentences(row))
