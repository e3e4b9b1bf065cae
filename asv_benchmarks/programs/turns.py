"""Run the programs of the suite with two libraries in turn, in one process, and compare each run with the next one.

    python -m asv_benchmarks.programs.turns small --jobs 8

On a host whose processors change their speed from one second to the next, as those of virtual machines do, both meet
the same: what is told is the median of the ratios of runs that followed one another, once the first few of a program
are over. With ``--jobs`` so many processes share the programs, and the processors. CuPy's large programs, which take
it minutes, had better have a process of their own, see `asv_benchmarks.programs`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

from asv_benchmarks import sides
from asv_benchmarks.programs import measure
from oxinp._terminal import columns
from oxinp._terminal import table as draw

FIRST, MOST, SECONDS = 2, 14, 1.5
"""Runs of ours before the peer's first, and until when, by their number or what both have taken, there are more."""


def run(side, program, name, size):
    """Return the seconds of one run."""
    given = measure.start(side, name, size)
    side.synchronize()
    began = time.perf_counter()
    found = measure.results(program.run(*given))
    if side.materialise is not None:
        side.materialise(*[value for value in found if isinstance(value, side.xp.ndarray)])
    side.synchronize()
    return time.perf_counter() - began


def in_turn(name, size, peer):
    """Return what there is to say of a program: the seconds of ours and the peer's runs, in their order."""
    own = sides.load("oxinp")
    mine, theirs = ((side, measure.load(name, side), name, size) for side in (own, sides.load(peer)))
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


def shared(names, size, peer, num_jobs):
    """Return the rows of programs that several processes share; each has processors of its own, if the system can."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    each, processes = max(len(cores) // num_jobs, 1), []
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": str(each)}
    for i in range(num_jobs):
        own = cores[i * each : (i + 1) * each]
        command = [sys.executable, "-m", __spec__.name, size, *names[i::num_jobs], "--peer", peer, "--rows"]
        processes.append(
            subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                text=True,
                env=environment,
                preexec_fn=(lambda own=own: os.sched_setaffinity(0, own)) if own else None,  # noqa: PLW1509 - no threads
            )
        )
    lines = [line for process in processes for line in process.communicate()[0].splitlines()]
    return [json.loads(line) for line in lines]


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
    parser.add_argument("--rows", action="store_true", help="print the seconds of each program as a line of JSON")
    options = parser.parse_args(argv)
    names = options.names or measure.names()
    if options.jobs > 1:
        rows = shared(names, options.size, options.peer, options.jobs)
    else:
        rows = []
        for name in names:
            try:
                rows.append(in_turn(name, options.size, options.peer))
            except Exception as error:  # noqa: BLE001 - whatever keeps a library from running it is its result
                print(name, f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
                continue
            for library in ("oxinp", options.peer):
                sides.load(library).release()
            if options.rows:
                print(json.dumps(rows[-1]), flush=True)
        if options.rows:
            return
    for line in table(rows, options.size, options.peer):
        print(line, flush=True)


if __name__ == "__main__":
    main()
