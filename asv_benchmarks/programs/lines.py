"""What each line of a program costs the host: Python functions entered, and launches, each time that it runs.

    python -m asv_benchmarks.programs.lines large jacobi_2d kernel_matrix
    python -m asv_benchmarks.programs.lines large jacobi_2d --line 20

Functions are counted, not timed: no other load of the machine changes that, and where the device waits for the host it
is what there is to reduce. Launches are counted where there is a device (`OXINP_BACKEND`, the emulator too). Of lines
that take less than `--share` of a program's functions nothing is told. Of one `--line` the functions are listed in
the order in which they are entered, below those that call them. From Python 3.12 on.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path
from types import CodeType, FunctionType

from asv_benchmarks import sides
from asv_benchmarks.programs import measure
from oxinp._runtime.counters import stats
from oxinp._terminal import table as draw

RUNS_BEFORE = 3
"""After which what a program does more than once is known."""
PASSED_OVER = ("oxinp/_ptx/", "numpy/", "asv_benchmarks/")
"""Of what functions are not counted: the emulator does a kernel's work, and NumPy's are its own."""


class Lines:
    """Counts by line of a program; events are those of `sys.monitoring`.

    Attributes
    ----------
    times, functions, launches : Counter
    """

    def __init__(self, path, listed=0, turn=0):
        self.times, self.functions, self.launches = Counter(), Counter(), Counter()
        self.entered = []  # by the line that is listed, when it has run as often before
        self._path, self._listed, self._turn = path, listed, turn
        self._at = self._last = None
        self._entered = 0

    def enter(self, code, _):
        """Count a function."""
        if any(part in code.co_filename for part in PASSED_OVER):
            return sys.monitoring.DISABLE
        self._entered += 1
        if self._at == self._listed and self.times[self._at] == self._turn + 1:
            frame, depth = sys._getframe(1), 0
            caller = frame.f_back
            while frame is not None and frame.f_code.co_filename != self._path:
                frame, depth = frame.f_back, depth + 1
            place = "/".join(Path(code.co_filename).parts[-2:])
            self.entered += [f"{'  ' * depth}{place}:{code.co_firstlineno} {code.co_qualname} <- {caller.f_lineno}"]
        return None

    def reach(self, _, line):
        """Let what has been counted since the last line be its, and begin another."""
        now = self._entered, stats.launches
        if self._at is not None:
            self.functions[self._at] += now[0] - self._last[0]
            self.launches[self._at] += now[1] - self._last[1]
        self.times[line] += 1
        self._at, self._last = line, now

    def count(self, run, given, codes):
        """Run a program whose own code objects these are."""
        events, tool = sys.monitoring.events, sys.monitoring.PROFILER_ID
        sys.monitoring.use_tool_id(tool, "lines")
        sys.monitoring.register_callback(tool, events.PY_START, self.enter)
        sys.monitoring.register_callback(tool, events.LINE, self.reach)
        try:
            for code in codes:
                sys.monitoring.set_local_events(tool, code, events.LINE)
            sys.monitoring.set_events(tool, events.PY_START)
            run(*given)
        finally:
            sys.monitoring.set_events(tool, 0)
            for code in codes:
                sys.monitoring.set_local_events(tool, code, 0)
            sys.monitoring.free_tool_id(tool)
            sys.monitoring.restart_events()
        self.reach(None, None)


def codes_of(module):
    """Return the code objects of a module's own functions, and of what is defined in those."""
    found = [x.__code__ for x in vars(module).values() if type(x) is FunctionType and x.__module__ == module.__name__]
    for code in found:  # which grows
        found += [constant for constant in code.co_consts if type(constant) is CodeType]
    return found


def counted(name, size, listed=0, turn=0):
    """Return the counts of a program's lines, and its text; list what a line enters when it runs after some times."""
    side = sides.load("oxinp")
    program = measure.load(name, side)
    for _ in range(RUNS_BEFORE):
        program.run(*measure.start(side, name, size))
    lines = Lines(program.__file__, listed, turn)
    given = measure.start(side, name, size)
    lines.count(program.run, given, codes_of(program))
    return lines, Path(program.__file__).read_text(encoding="utf-8").splitlines()


def rows(lines, text, share):
    """Yield what the table has of each line that takes its share of the functions."""
    whole = sum(lines.functions.values()) or 1
    for line, functions in sorted(lines.functions.items()):
        if functions >= share * whole:
            times = lines.times[line]
            yield (
                *(str(line), str(times), f"{functions / times:.1f}", f"{lines.launches[line] / times:.2f}"),
                *(f"{100 * functions / whole:.0f} %", text[line - 1].strip()[:100]),
            )


def main(arguments=None):
    """Print a table for each program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", help="tiny, small, medium or large")
    parser.add_argument("names", nargs="+", help="programs of the suite")
    parser.add_argument("--share", type=float, default=0.02, help="of the functions that a line has to take")
    parser.add_argument("--line", type=int, default=0, help="to list the functions of, instead of the table")
    parser.add_argument("--turn", type=int, default=10, help="after how many runs of the line they are listed")
    options = parser.parse_args(arguments)
    if not hasattr(sys, "monitoring"):
        parser.error("counting takes Python 3.12 or later")
    for name in options.names:
        lines, text = counted(name, options.size, options.line, options.turn)
        if options.line:
            print(f"{name}:{options.line}: {text[options.line - 1].strip()}: {len(lines.entered)} functions")
            print("\n".join(lines.entered))
            continue
        total, launches = sum(lines.functions.values()), sum(lines.launches.values())
        print(f"{name}, {options.size}: {total} functions, {launches} launches")
        heads = "line", "times", "functions", "launches", "share", "text"
        print(draw([heads, *rows(lines, text, options.share)]))


if __name__ == "__main__":
    main()
