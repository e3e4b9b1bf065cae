"""Run the benchmarks on several libraries side by side, in one process on the same inputs, without asv.

    python -m asv_benchmarks.compare --peers cupy,torch,jax,numpy --filter hot_path --json h200.json

Prints per case oxinp's value, each peer's, the ratio peer/ours (above 1 oxinp is faster), the share of the physical
limit (bytes that must move over this run's own copy bandwidth), and whether the case reaches what it must. A dash
stands for what a library does not have; what it says itself follows below. Exit status 1 when a case of oxinp's failed
to run, or when ``--against`` finds a ratio worse than ``--fail-above`` allows.
"""

import argparse
import contextlib
import dataclasses
import importlib
import itertools
import json
import math
import pathlib
import pkgutil
import platform
import re
import sys

import numpy as np

import asv_benchmarks
from asv_benchmarks import sides
from asv_benchmarks.case import Case, DeviceCase, Measurement, median, random_array
from asv_benchmarks.sides import NotApplicableError
from oxinp._terminal import Columns, closing_quietly, columns

FIRST = "hot_path"
COPY_NBYTES = 512 << 20


@dataclasses.dataclass
class Row:
    """One case with its parameters, and what every side did on it."""

    name: str
    unit: str
    ours: Measurement | None = None
    peers: dict = dataclasses.field(default_factory=dict)
    share: float | None = None
    errors: dict = dataclasses.field(default_factory=dict)
    left_out: dict = dataclasses.field(default_factory=dict)
    judged: list = dataclasses.field(default_factory=list)

    def note(self, side, error):
        """Enter what a side raised: an error, or that its library cannot do this."""
        lacking = side.lacks(error)
        if lacking is None:
            self.errors[side.name] = f"{type(error).__name__}: {error}"
        else:
            self.left_out[side.name] = lacking

    @property
    def ratios(self):
        """Peer's value over ours, by peer."""
        if self.ours is None:
            return {}
        return {name: peer.value / self.ours.value for name, peer in self.peers.items() if self.ours.value}


def discover(*, quick=False):
    """Return (name, case, params) for every case of every area, the hot path first."""
    areas = sorted((m.name for m in pkgutil.iter_modules(asv_benchmarks.__path__)), key=lambda n: (n != FIRST, n))
    found = []
    for area in areas:
        module = importlib.import_module(f"asv_benchmarks.{area}")
        for cls in vars(module).values():
            if not (isinstance(cls, type) and issubclass(cls, Case) and cls.__module__ == module.__name__):
                continue
            if cls.__abstractmethods__:
                continue
            case = cls()
            lists = case.quick_params if quick and case.quick_params is not None else case.params
            for params in itertools.product(*lists):
                inside = ", ".join(f"{n}={v}" for n, v in zip(case.param_names, params, strict=True))
                found.append((f"{area}.{cls.__name__}[{inside}]", case, params))
    return found


def copy_bandwidth(running, *, quick=False):
    """Return the bytes per second, reads plus writes, of the fastest large copy of any side on a device."""
    nbytes = 1 << 16 if quick else COPY_NBYTES
    host = random_array(nbytes // 4, "float32")
    best = 0.0
    for side in running:
        if side.backend == "host" and any(other.backend != "host" for other in running):
            continue
        source, target = side.asarray(host), side.asarray(host)
        times = []
        for _ in range(12):
            side.synchronize()
            start = side.record()
            for _ in range(4):
                side.copy_into(target, source)
            stop = side.record()
            side.synchronize()
            times.append(side.elapsed_ms(start, stop) / 4)
        best = max(best, 2 * nbytes / (1e-3 * sorted(times[2:])[len(times[2:]) // 2]))
        del source, target
        side.release()
    return best


def run_case(name, case, params, running, bandwidth, *, rounds=None, verify=False):
    """Measure one case on every side that it speaks of, a round of each in turn."""
    row = Row(name, case.unit)
    measures, samples = {}, {}
    for side in running:
        if side.name != "oxinp" and side.name not in case.peers:
            continue
        try:
            if verify:
                case.verify(side, *params)
            measures[side.name] = case.prepare(side, *params)
        except NotApplicableError as reason:
            row.left_out[side.name] = str(reason)
        except Exception as error:  # noqa: BLE001 a case that fails on one side is a result, not the end of the run
            row.note(side, error)
    measured = [side for side in running if side.name in measures]
    for _, side in itertools.product(range(rounds or case.rounds), measured):
        if side.name in row.errors or side.name in row.left_out:
            continue
        try:
            samples.setdefault(side.name, []).append(measures[side.name]())
        except Exception as error:  # noqa: BLE001 as above
            row.note(side, error)
    measures.clear()
    for side in running:
        side.release()
    results = {n: median(s) for n, s in samples.items() if n not in row.errors and n not in row.left_out}
    row.ours = results.pop("oxinp", None)
    row.peers = results
    if row.ours is not None:
        nbytes = case.nbytes_moved(*params)
        on_gpu = any(side.name == "oxinp" and side.backend == "cuda" for side in running)
        if nbytes is not None and isinstance(case, DeviceCase) and on_gpu:
            row.share = nbytes / bandwidth / (1e-3 * row.ours.value)
        for must in case.requirements(*params):
            holds = None if must.needs_gpu and not on_gpu else must.holds(row)
            row.judged.append((must.text, holds if holds is None else bool(holds)))
    return row


def describe(running, bandwidth):
    """Return what the figures depend on: machine, versions, copy bandwidth."""
    ours = next((side for side in running if side.name == "oxinp"), None)
    capability = getattr(getattr(ours, "runtime", None), "capability", None)
    return {
        "device": getattr(capability, "device_name", None) or "host",
        "backend": ours.backend if ours else None,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "versions": {side.name: side.version for side in running},
        "copy_GB_per_s": bandwidth / 1e9,
    }


def as_json(row):
    """Return a row as plain data."""
    every = dict(row.peers) if row.ours is None else {"oxinp": row.ours, **row.peers}
    return {
        "unit": row.unit,
        "sides": {name: dataclasses.asdict(m) for name, m in every.items()},
        "ratios": row.ratios,
        "share": row.share,
        "errors": row.errors,
        "left_out": row.left_out,
        "requirements": [{"text": text, "holds": holds} for text, holds in row.judged],
    }


def regressions(cases, meta, baseline, fail_above):
    """Return a sentence per case whose ratio to a peer, or own value without one, is worse than in the baseline."""
    worse = []
    for name, before in baseline["cases"].items():
        now = cases.get(name)
        if now is None:
            continue
        if "oxinp" in before["sides"] and "oxinp" not in now["sides"]:
            worse.append(f"{name}: ran in the baseline, fails now")
            continue
        shared = [peer for peer in before["ratios"] if now["ratios"].get(peer)]
        slowdowns = {f"{peer}/ours": before["ratios"][peer] / now["ratios"][peer] for peer in shared}
        if not shared and "oxinp" in before["sides"] and baseline["meta"]["device"] == meta["device"]:
            old = before["sides"]["oxinp"]["value"]
            slowdowns = {"ours": now["sides"]["oxinp"]["value"] / old} if old else {}
        worse += [f"{name}: {what} worse by {s:.3f}x" for what, s in slowdowns.items() if s > fail_above]
    return worse


def means(cases):
    """Return a sentence per area: the geometric mean, over its cases, of the time of the fastest peer over ours."""
    ratios = {}
    for name, case in cases.items():
        if case["ratios"]:
            ratios.setdefault(name.split(".")[0], []).append(min(case["ratios"].values()))
    return [
        f"{area}: {math.exp(sum(map(math.log, of)) / len(of)):.2f}x the fastest peer, geometric mean of {len(of)} cases"
        for area, of in ratios.items()
    ]


def head(peers, *, quick=False):
    """Return the heads of the table's columns."""
    measured = [*(f"{peer}/ours" for peer in peers), "share", "must"]
    return ["case", "oxinp", *peers, *([] if quick else measured)]


def drawing(names, peers, *, quick=False):
    """Return the columns of the table, which is printed case by case; `names` are those of all cases."""
    heads = head(peers, quick=quick)
    cell = len("error") if quick else len("12.34 ms (+1234.5 us)")
    widths = [max(map(len, [*names, "case"])), *(max(len(name), cell) for name in ("oxinp", *peers))]
    rest = [] if quick else [*(max(len(name), 10) for name in heads[len(widths) : -2]), 8, 40]
    return Columns([*widths, *rest], width=columns(), right=range(1, len(heads) - (not quick)))


def line(row, peers, *, quick=False):
    """Return the cells of one line of the table; of toy sizes (`quick`) only who ran."""

    def cell(name, m):
        if name in row.errors:
            return "error"
        if m is None:
            return "-"
        if quick:
            return "runs"
        host = "" if m.host_us is None or row.unit == "us" else f" (+{m.host_us:.1f} us)"
        return f"{m.value:.4g} {row.unit}{host}"

    verdict = {True: "pass", False: "MISS", None: "not judged"}
    cells = [row.name, cell("oxinp", row.ours), *(cell(peer, row.peers.get(peer)) for peer in peers)]
    if quick:
        return cells
    cells += [f"{row.ratios[peer]:.2f}" if peer in row.ratios else "-" for peer in peers]
    cells.append(f"{100 * row.share:.1f} %" if row.share is not None else "-")
    cells.append("; ".join(f"{text}: {verdict[holds]}" for text, holds in row.judged))
    return cells


def load_all(names):
    """Return the sides that can run here, and say which and why not the others."""
    running = []
    for name in names:
        try:
            side = sides.load(name)
        except sides.MissingError as reason:
            print(f"left out: {reason}")
            continue
        running.append(side)
        print(f"{name} {side.version} on {side.backend}")
    return running


def pattern(text):
    """Return a compiled regular expression, for `argparse`."""
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {error}") from None


def parse(argv):
    """Return the command line's options."""
    parser = argparse.ArgumentParser(prog="python -m asv_benchmarks.compare", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--peers", default="cupy,torch,jax,numpy", help="libraries beside oxinp (default: %(default)s)")
    parser.add_argument("--filter", default="", type=pattern, metavar="REGEX", help="cases whose name matches")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write everything measured")
    parser.add_argument("--against", type=pathlib.Path, metavar="FILE", help="a baseline written by --json")
    parser.add_argument("--fail-above", type=float, default=1.05, help="worst allowed slowdown (default: %(default)s)")
    parser.add_argument("--rounds", type=int, help="rounds per side instead of the case's own")
    parser.add_argument("--verify", action="store_true", help="also compare results with NumPy's (--quick always does)")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that everything runs, measures nothing")
    return parser.parse_args(argv)


def main(argv=None):
    """Run the cases, print the table, and return the exit status."""
    options = parse(argv)
    baseline = json.loads(options.against.read_text()) if options.against else None
    names = ["oxinp", *(name for name in options.peers.split(",") if name)]
    if unknown := set(names) - set(sides.SIDES):
        sys.exit(f"unknown library {', '.join(sorted(unknown))}; known: {', '.join(sides.SIDES)}")
    running = load_all(names)
    if not any(side.name == "oxinp" for side in running):
        return 1
    bandwidth = copy_bandwidth(running, quick=options.quick)
    meta = describe(running, bandwidth)
    what = f"copy bandwidth {meta['copy_GB_per_s']:.0f} GB/s (reads plus writes)"
    what = "toy sizes, which show that everything runs and measure nothing" if options.quick else what
    print(f"device {meta['device']}; {what}\n", flush=True)

    peers = [side.name for side in running if side.name != "oxinp"]
    chosen = [(name, *rest) for name, *rest in discover(quick=options.quick) if options.filter.search(name)]
    if not chosen:
        sys.exit(f"no case matches {options.filter.pattern!r}")
    drawn = drawing([name for name, *_ in chosen], peers, quick=options.quick)
    print(drawn.draw(head(peers, quick=options.quick)))
    cases, failed = {}, False
    for name, case, params in chosen:
        rounds = 1 if options.quick else options.rounds
        verify = options.verify or options.quick
        with contextlib.ExitStack() as stack:
            for side in running:
                stack.enter_context(side.measuring())
            row = run_case(name, case, params, running, bandwidth, rounds=rounds, verify=verify)
        print(drawn.draw(line(row, peers, quick=options.quick)), flush=True)
        for side_name, error in (row.errors | row.left_out).items():
            print(f"    {side_name}: {error}", flush=True)
        failed = failed or "oxinp" in row.errors
        cases[name] = as_json(row)
    if not options.quick:
        print("", *means(cases), sep="\n")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({"meta": meta, "cases": cases}, indent=1) + "\n")
    if baseline is not None:
        worse = regressions(cases, meta, baseline, options.fail_above)
        print("\n".join(worse) if worse else f"no case is worse than {options.against} by more than the gate")
        failed = failed or bool(worse)
    return int(failed)


if __name__ == "__main__":
    with closing_quietly():
        status = main()
    sys.exit(status)
