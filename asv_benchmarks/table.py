"""Write the measured table into docs/performance.md from a file that `compare --json` made.

python -m asv_benchmarks.table asv_benchmarks/baseline/h200.json
"""

import argparse
import json
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "performance.md"
BEGIN = "<!-- written by asv_benchmarks.table: begin -->"
END = "<!-- end -->"
VERDICT = {True: "yes", False: "**no**", None: "not judged"}


def cell(measured, unit):
    """Return a figure with its unit, and the host time to enqueue where that is another figure."""
    if measured is None:
        return ""
    host = "" if unit == "us" or measured["host_us"] is None else f" (+{measured['host_us']:.1f} us)"
    return f"{measured['value']:.4g} {unit}{host}"


def lines(result):
    """Return the table, and what it was measured on, as lines of Markdown."""
    meta = result["meta"]
    peers = [name for name in meta["versions"] if name != "oxinp"]
    versions = ", ".join(f"{name} {version}" for name, version in meta["versions"].items())
    yield f"{meta['device']}, Python {meta['python']}, {versions}. Copy bandwidth {meta['copy_GB_per_s']:.0f} GB/s."
    yield ""
    yield (
        "| " + " | ".join(["case", "oxinp", *peers, *(f"{p}/oxinp" for p in peers), "share", "must", "reached"]) + " |"
    )
    yield "|" + "---|" * (5 + 2 * len(peers))
    for name, case in result["cases"].items():
        sides, ratios = case["sides"], case["ratios"]
        share = "" if case["share"] is None else f"{100 * case['share']:.0f} %"
        ours = "fails" if "oxinp" in case["errors"] else cell(sides.get("oxinp"), case["unit"])
        cells = [f"`{name}`", ours, *(cell(sides.get(peer), case["unit"]) for peer in peers)]
        cells += [f"{ratios[peer]:.2f}" if peer in ratios else "" for peer in peers]
        cells += [share, "; ".join(must["text"] for must in case["requirements"])]
        cells.append("; ".join(VERDICT[must["holds"]] for must in case["requirements"]))
        yield "| " + " | ".join(cells) + " |"


def render(page, result):
    """Return the page with its table replaced by the one that `result` gives."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return before + "\n".join([BEGIN, "", *lines(result), "", END]) + after


def main(argv=None):
    """Rewrite the page, or another with the same markers."""
    parser = argparse.ArgumentParser(prog="python -m asv_benchmarks.table", description=__doc__.split("\n", 1)[0])
    parser.add_argument("measured", type=Path)
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args(argv)
    result = json.loads(options.measured.read_text(encoding="utf-8"))
    options.page.write_text(render(options.page.read_text(encoding="utf-8"), result), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
