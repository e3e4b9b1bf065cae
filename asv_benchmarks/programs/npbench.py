"""The programs of NPBench, from a checkout of it: https://github.com/spcl/npbench.

    python -m asv_benchmarks.programs.turns small --npbench ../npbench --jobs 8

They are run as they are there, written for NumPy, from what their own `initialize` makes; small, medium and large are
what they call S, M and L.
"""

import json
from pathlib import Path
from types import SimpleNamespace

from asv_benchmarks.programs import measure

PRESETS = {"small": "S", "medium": "M", "large": "L"}


class Checkout:
    """What `measure` is to the suite: finds programs, loads them, and makes what they start from.

    Parameters
    ----------
    root : path-like
        The folder with `bench_info` and `npbench`.
    """

    def __init__(self, root):
        self.root = Path(root)

    def names(self):
        """Return the names of the programs."""
        return sorted(path.stem for path in (self.root / "bench_info").glob("*.json"))

    def _described(self, name):
        text = (self.root / "bench_info" / f"{name}.json").read_text(encoding="utf-8")
        return SimpleNamespace(**json.loads(text)["benchmark"])

    def _module(self, found, ending, side):
        folder = self.root / "npbench" / "benchmarks" / found.relative_path
        return measure.loaded(f"{found.module_name}{ending}", folder / f"{found.module_name}{ending}.py", side)

    def load(self, name, side=None):
        """Return a program, whose `run` returns all that it computes: what it returns, and arguments it writes to."""
        found = self._described(name)
        compute = getattr(self._module(found, "_numpy", side), found.func_name)
        places = [found.input_args.index(each) for each in found.output_args if each in found.input_args]

        def run(*given):
            returned = compute(*given)
            return (*([] if returned is None else measure.results(returned)), *[given[place] for place in places])

        return SimpleNamespace(run=run)

    def start(self, side, name, size):
        """Return what a program starts from, see `measure.start`."""
        found = self._described(name)
        values = dict(found.parameters[PRESETS[size]])
        made_by = getattr(found, "init", None)
        if made_by:
            initialize = getattr(self._module(found, "", side if side.name == "oxinp" else None), made_by["func_name"])
            made = initialize(*[values[each] for each in made_by["input_args"]])
            values.update(zip(made_by["output_args"], measure.results(made), strict=True))
        return measure.brought(side, [values[each] for each in found.input_args])
