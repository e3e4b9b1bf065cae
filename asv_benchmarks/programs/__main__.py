"""Run the suite with several libraries and compare: ratios by program, geometric means, and who is slower than NumPy.

    python -m asv_benchmarks.programs --sizes small,large --peers numpy,cupy --filter jacobi

Each library has a process of its own, so that one that does not end is stopped (``--limit``) and goes on with the next
program. Exit status 1 where a result of oxinp's differs from NumPy's, or a program fails or is not done.
"""

import argparse
import importlib
import json
import math
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np

from asv_benchmarks.programs import measure
from oxinp._terminal import columns
from oxinp._terminal import table as draw

TOLERANCE = 1e-9


def run(library, size, names, folder, limit):
    """Return rows by program, from processes that are stopped where one program takes longer than `limit` seconds.

    Each is told of on standard error when it is done.
    """
    rows, left = {}, list(names)
    while left:
        command = [sys.executable, "-m", "asv_benchmarks.programs.measure", library, size, *left, "--save", str(folder)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            while left:
                watch = threading.Timer(limit, process.kill)
                watch.start()
                line = process.stdout.readline()
                watch.cancel()
                if not line:
                    break
                row = json.loads(line)
                name = row.pop("name")
                rows[name] = row
                left.remove(name)
                print(library, size, name, row.get("seconds", row.get("error")), file=sys.stderr, flush=True)
            process.wait()
        if left:
            ended = process.returncode
            rows[left.pop(0)] = {"error": f"not done after {limit:g} s" if ended < 0 else f"exit status {ended}"}
    return rows


def difference(name, folder, other):
    """Say by how much the results of a program differ from NumPy's beyond its tolerance; None if they do not."""
    bound = getattr(measure.load(name), "TOLERANCE", TOLERANCE)
    with np.load(folder / f"{name}.npz") as ours, np.load(other / f"{name}.npz") as numpys:
        if ours.files != numpys.files:
            return f"{len(ours.files)} results, NumPy's are {len(numpys.files)}"
        for key in numpys.files:
            mine, expected = ours[key], numpys[key]
            if mine.shape != expected.shape or mine.dtype != expected.dtype:
                return f"{key}: {mine.dtype} {mine.shape}, NumPy's {expected.dtype} {expected.shape}"
            if expected.dtype.kind in "fc":
                scale = float(np.abs(expected).max(initial=0, where=np.isfinite(expected)))
                if not np.allclose(mine, expected, rtol=0, atol=bound * scale, equal_nan=True):
                    return f"{key}: off by {np.nanmax(np.abs(mine - expected)) / (scale or 1):.1e} of the largest value"
            elif (mine != expected).any():
                return f"{key}: {np.count_nonzero(mine != expected)} of {mine.size} elements differ"
    return None


def geometric_mean(values):
    """Return the geometric mean of some values, NaN of none."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def table(found, libraries, size):
    """Yield the lines of a table: seconds of each library, and the peers' over oxinp's."""
    peers = [library for library in libraries if library != "oxinp"]
    drawn = [[size, *(f"{library} ms" for library in libraries), *(f"{peer}/oxinp" for peer in peers), "fetched"]]
    ratios = {peer: [] for peer in peers}
    for name, rows in found.items():
        seconds = [rows[library].get("seconds") for library in libraries]
        cells = [name, *("-" if each is None else format(1e3 * each, ".4g") for each in seconds)]
        ours = rows["oxinp"].get("seconds")
        for peer in peers:
            theirs = rows[peer].get("seconds")
            if ours and theirs:
                ratios[peer].append(theirs / ours)
            cells.append(f"{theirs / ours:.3g}" if ours and theirs else "-")
        nbytes = rows["oxinp"].get("fetched")
        drawn.append([*cells, "" if nbytes is None else f"{nbytes / 1e6:.4g} MB"])
    yield draw(drawn, width=columns(), right=range(1, len(drawn[0])), text=[])
    for peer, values in ratios.items():
        if values:
            slower = sum(value < 1 for value in values)
            yield (
                f"{peer}: geometric mean {geometric_mean(values):.3g}, worst {min(values):.3g}, "
                f"oxinp slower in {slower} of {len(values)}"
            )


def main(argv=None):
    """Run, compare and print; see the module."""
    parser = argparse.ArgumentParser(
        prog="python -m asv_benchmarks.programs", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sizes", default="small")
    parser.add_argument("--peers", default="numpy,cupy", help="numpy is always among them")
    parser.add_argument("--filter", default="", help="regular expression: which programs")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for all runs of one program")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(argv)
    names = [name for name in measure.names() if re.search(options.filter, name)]
    libraries = ["oxinp", "numpy", *[peer for peer in options.peers.split(",") if peer and peer != "numpy"]]
    libraries = [library for library in libraries if library != "cupy" or importlib.util.find_spec("cupy")]
    every, has_failed = {}, False
    for size in options.sizes.split(","):
        found = {name: {} for name in names}
        with tempfile.TemporaryDirectory() as folder:
            folders = {library: Path(folder) / library for library in libraries}
            for library in reversed(libraries):
                folders[library].mkdir()
                for name, row in run(library, size, names, folders[library], options.limit).items():
                    found[name][library] = row
            for name, rows in found.items():
                for library in libraries:
                    if library != "numpy" and "seconds" in rows[library] and "seconds" in rows["numpy"]:
                        wrong = difference(name, folders[library], folders["numpy"])
                        if wrong:
                            rows[library] = {"error": wrong}
        for line in table(found, libraries, size):
            print(line, flush=True)
        for name, rows in found.items():
            for library, row in rows.items():
                if "error" in row:
                    has_failed |= library == "oxinp"
                    print(f"{name}, {library}: {row['error']}")
        every[size] = found
    if options.json is not None:
        options.json.write_text(json.dumps(every, indent=1), encoding="utf-8")
    return int(has_failed)


if __name__ == "__main__":
    sys.exit(main())
