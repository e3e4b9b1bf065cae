"""Panels of LU and QR on a GPU, by the shapes of the clusters that factor them.

``python -m asv_benchmarks.kernels.panels [--dtype f8] [--columns N]`` prints a line per number of rows and shape: the
median of device-event times of one launch, of panels of full width or of fewer columns, to tell what columns
take. Ends with status 1 if factors of different shapes are not those of the smallest.
"""

import argparse
import sys

import numpy as np

from asv_benchmarks.kernels.lapack import Bound
from asv_benchmarks.kernels.plans import milliseconds, write
from oxinp._kernels.lapack import lu_cluster, qr_cluster
from oxinp._kernels.lapack.lu_cluster import ClusterSpec
from oxinp._kernels.lapack.lu_panel import Panel
from oxinp._kernels.lapack.panel_kernel import WIDTHS
from oxinp._kernels.lapack.qr_cluster import QrClusterSpec
from oxinp._kernels.lapack.qr_panel import QrPanel
from oxinp._kernels.plan import Fill, Plan, outputs
from oxinp._ptx.types import from_dtype
from oxinp._runtime.cuda import open_backend

ROWS = (1000, 2000, 4096, 8192)
SHAPES = ((128, 8), (256, 8), (128, 16), (256, 16), (512, 8), (512, 16))
TOLERANCE = 1e4  # in units of the last place, of sums in another order


def lu_plan(shape, rows, width, type_):
    """One panel of LU; outputs are the panel, its pivots, exchanges and the status."""
    panel = Panel(type_, (rows, width), 0, rows, 0, width)
    places = outputs(4)
    return Plan((Fill(places[3], 8, 0xFF), lu_cluster.launch(ClusterSpec(type_, *shape), panel, places)))


def qr_plan(shape, rows, width, type_):
    """One panel of QR; outputs are the panel, V, M and tau."""
    panel = QrPanel(type_, (rows, width), 0, (width, 0), (width, 0), (width, 0), width, 1, 0)
    return Plan((qr_cluster.launch(QrClusterSpec(type_, *shape), panel, outputs(4)),))


def main(arguments):
    """Check, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtype", default="f8")
    parser.add_argument("--columns", type=int, help="of a panel")
    options = parser.parse_args(arguments)
    dtype = np.dtype(options.dtype)
    backend, rng, is_right = open_backend(), np.random.default_rng(), True
    type_ = from_dtype(dtype)
    width = options.columns or WIDTHS[dtype.itemsize]
    for name, planned in (("lu", lu_plan), ("qr", qr_plan)):
        for rows in ROWS:
            a, first = (rng.random((rows, width)) - 0.5).astype(dtype), None
            for shape in SHAPES:
                if shape[0] * shape[1] < rows or shape[0] * shape[1] > 4 * rows:
                    continue
                held = [backend.allocate(max(a.nbytes, 4096)) for _ in range(4)]
                bound = Bound(backend, planned(shape, rows, width, type_), [x.ptr for x in held])
                backend.upload(held[0].ptr, a)
                bound()
                backend.synchronize()
                found = np.empty_like(a)
                backend.download(found, held[0].ptr)
                first = found if first is None else first
                error = np.max(np.abs(found - first)) / (np.finfo(dtype).eps * np.max(np.abs(first)))
                is_right &= bool(error <= TOLERANCE)
                time = milliseconds(backend, bound, 7)
                write(f"{name} {dtype} {rows}x{width} {shape}: {time * 1e3:8.1f} us, difference {error:.3g}")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
