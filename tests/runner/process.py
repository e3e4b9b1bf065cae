"""Programs run in fresh processes, by the runner and by plain Python."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OXINP = (sys.executable, "-m", "oxinp")
PYTHON = (sys.executable,)


def environment(folder, **variables):
    """Return the environment of a program in a folder, with ``lib`` beside it on the path."""
    path = os.pathsep.join([str(ROOT), str(folder.parent / "lib")])
    return {**os.environ, "PYTHONPATH": path, "OXINP_BACKEND": "host", **variables}


def run(command, folder, **variables):
    """Run a command in a folder; return what `subprocess.run` does."""
    variables = environment(folder, **variables)
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=variables)


def both(folder, *arguments):
    """Run the same arguments by the runner and by Python; return both ends."""
    ours, pythons = (run([*command, *arguments], folder) for command in (OXINP, PYTHON))
    return ours, pythons


def assert_same_run(folder, *arguments):
    """Run the same arguments by both, assert the same end and output, and return the runner's."""
    ours, pythons = both(folder, *arguments)
    assert (ours.returncode, ours.stdout, ours.stderr) == (pythons.returncode, pythons.stdout, pythons.stderr)
    return ours


def write(folder, **texts):
    """Write files ``name.py``; ``__`` in a name stands for a folder."""
    for name, text in texts.items():
        path = folder / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
