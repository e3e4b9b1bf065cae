"""Run the programs of the suite with two libraries in turn, and compare each run with the next one.

    python -m asv_benchmarks.programs.turns small --jobs 8

On a host whose processors change their speed from one second to the next, as those of virtual machines do, both meet
the same: what is told is the median of the ratios of runs that followed one another, once the first few of a program
are over. Each program has a process of its own, as those of users do: nothing is learned from another. With ``--jobs``
so many run at a time, and share the processors. CuPy's large programs, which take it minutes, had better have a process
to themselves, see `asv_benchmarks.programs`. With ``--npbench`` it is the programs of a checkout of NPBench.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from asv_benchmarks import sides
from asv_benchmarks.programs import measure, npbench
from oxinp._terminal import columns
from oxinp._terminal import table as draw

FIRST, MOST, SECONDS = 2, 14, 1.5
"""Runs of ours before the peer's first, and until when, by their number or what both have taken, there are more."""


def run(programs, side, program, name, size):
    """Return the seconds of one run."""
    given = programs.start(side, name, size)
    side.synchronize()
    began = time.perf_counter()
    found = measure.results(program.run(*given))
    if side.materialise is not None:
        side.materialise(*[value for value in found if isinstance(value, side.xp.ndarray)])
    side.synchronize()
    return time.perf_counter() - began


def in_turn(programs, name, size, peer):
    """Return what there is to say of a program: the seconds of ours and the peer's runs, in their order."""
    own = sides.load("oxinp")
    mine, theirs = ((programs, side, programs.load(name, side), name, size) for side in (own, sides.load(peer)))
    ours, peers = [run(*mine) for _ in range(FIRST)], []
    while len(peers) < 3 or (len(ours) < MOST and sum(ours[FIRST:] + peers) < SECONDS):
        ours.append(run(*mine))
        peers.append(run(*theirs))
    return {"name": name, "ours": ours, "peers": peers}


def ratio(row):
    """Return the median of the peer's seconds over ours."""
    pairs = zip(row["peers"], row["ours"][FIRST:], strict=True)
    return statistics.median(theirs / mine for theirs, mine in pairs)


def table(rows, size, peer):
    """Yield the lines of a table, and what they come to."""
    drawn = [[size, "oxinp ms", f"{peer} ms", "ratio", "first ms"]]
    rows = sorted(rows, key=ratio)
    for row in rows:
        seconds = statistics.median(row["ours"][FIRST:]), statistics.median(row["peers"])
        milliseconds = [format(1e3 * each, ".4g") for each in (*seconds, row["ours"][0])]
        drawn.append([row["name"], *milliseconds[:2], f"{ratio(row):.3g}", milliseconds[2]])
    yield draw(drawn, width=columns(), right=range(1, len(drawn[0])), text=[])
    ratios = [ratio(row) for row in rows]
    yield (
        f"{peer} over oxinp: geometric mean {statistics.geometric_mean(ratios):.3g}, worst {min(ratios):.3g}, "
        f"oxinp slower in {sum(each < 1 for each in ratios)} of {len(ratios)}"
    )


def shared(names, options):
    """Yield the rows of programs, of which so many run at a time, each in a process and on processors of its own."""
    num_jobs = options.jobs
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    each = max(len(cores) // num_jobs, 1)
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": str(each)}
    shares = [cores[i * each : (i + 1) * each] for i in range(num_jobs)]

    def take_a_share():
        if own := shares.pop():
            os.sched_setaffinity(0, own)  # of this thread, and of the processes that it starts

    def row_of(name):
        command = [sys.executable, "-m", __spec__.name, options.size, name, "--peer", options.peer, "--row"]
        command += [] if options.npbench is None else ["--npbench", options.npbench]
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, check=False).stdout

    with ThreadPoolExecutor(num_jobs, initializer=take_a_share) as jobs:
        for row in jobs.map(row_of, names):
            if row:  # else what kept it from running has been said
                yield json.loads(row)


def main(argv=None):
    """Run, compare and print; see the module."""
    parser = argparse.ArgumentParser(
        prog="python -m asv_benchmarks.programs.turns",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("size", choices=("tiny", "small", "medium", "large"))
    parser.add_argument("names", nargs="*", help="all unless given")
    parser.add_argument("--peer", default="numpy", choices=("numpy", "cupy"))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--npbench", metavar="PATH", help="a checkout whose programs are run instead of the suite's")
    parser.add_argument("--row", action="store_true", help="run one program here, and print its seconds as JSON")
    options = parser.parse_args(argv)
    programs = measure if options.npbench is None else npbench.Checkout(options.npbench)
    names = options.names or programs.names()
    if options.row:
        try:
            print(json.dumps(in_turn(programs, names[0], options.size, options.peer)), flush=True)
        except Exception as error:  # noqa: BLE001 - whatever keeps a library from running it is its result
            print(names[0], f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return
    rows = []
    for row in shared(names, options):
        rows.append(row)
        print(options.size, row["name"], f"{ratio(row):.3g}", file=sys.stderr, flush=True)
    for line in table(rows, options.size, options.peer):
        print(line, flush=True)


if __name__ == "__main__":
    main()
