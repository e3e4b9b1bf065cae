"""What ``--profile`` costs on the example programs: ``python -m tests.runner.profile_cost [--repeat N] [program ...]``.

Each program runs as it is and profiled, in turn, in fresh processes; the shortest times are compared.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.runner.process import OXINP, ROOT, run

LIMIT = 1.10


def seconds(path, arguments, folder, backend):
    """Return how long a program runs."""
    began = time.perf_counter()
    done = run([*OXINP, *arguments, str(path)], Path(folder), OXINP_BACKEND=backend)
    if done.returncode:
        sys.exit(done.stderr)
    return time.perf_counter() - began


def main():
    """Print the ratios; exit with 1 where one is beyond the limit."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("programs", nargs="*", help="default: all examples that run by themselves")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--backend", default="auto")
    options = parser.parse_args()
    examples = [path for path in sorted((ROOT / "examples").glob("*.py")) if "__main__" in path.read_text("utf-8")]
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for path in [Path(name).resolve() for name in options.programs] or examples:
            plain, profiled = [], []
            for _ in range(options.repeat):
                plain.append(seconds(path, [], folder, options.backend))
                profiled.append(seconds(path, ["--profile=profile.json"], folder, options.backend))
            ratio = min(profiled) / min(plain)
            worst = max(worst, ratio)
            times = f"{min(plain):7.2f} s  profiled {min(profiled):7.2f} s"
            sys.stdout.write(f"{path.name:<22} {times}  {ratio:.3f}\n")
    sys.exit(worst > LIMIT)


if __name__ == "__main__":
    main()
