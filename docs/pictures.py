"""Make the pictures of docs/examples.md by running the programs on NumPy: ``python docs/pictures.py``."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "pictures"

PROGRAMS = {
    "mandelbrot": ("--size", "400"),
    "heat_equation": ("--size", "128", "--steps", "2000"),
    "heat_sink": ("--size", "128", "--steps", "2000"),
    "nbody": ("--size", "500", "--steps", "20"),
    "kmeans": ("--size", "20000", "--dimensions", "2"),
    "photograph": (),
}
"""Arguments of each program, beside the picture's name."""


def names():
    """Return the names of the pictures."""
    return {f"{program}.png" for program in PROGRAMS} | {"photograph_edges.png"}


def write():
    """Make the pictures that are not there."""
    FOLDER.mkdir(exist_ok=True)
    for program, arguments in PROGRAMS.items():
        picture = FOLDER / f"{program}.png"
        if not picture.exists():
            script = ROOT / "examples" / f"{program}.py"
            command = [sys.executable, str(script), *arguments, "--picture", str(picture)]
            environment = {**os.environ, "PYTHONPATH": str(ROOT), "OXINP_BACKEND": "host"}
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)  # noqa: S603
            if done.returncode:
                raise RuntimeError(f"{script} failed:\n{done.stderr}")


if __name__ == "__main__":
    write()
