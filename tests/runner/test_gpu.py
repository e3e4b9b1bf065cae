"""The runner on a GPU: workers, the profile and the verification, with the driver itself."""

import json
import sys

import pytest

from tests.runner.process import OXINP, run, write
from tests.runner.test_verify import PROGRAM

pytestmark = pytest.mark.gpu

WORKERS = """
import multiprocessing, sys
import numpy as np
import oxinp.cuda

def work(n):
    x = np.ones(n) * 2
    total = float(x.sum())
    return total, oxinp.cuda.stats().launches > 0

if __name__ == "__main__":
    if "first" in sys.argv:
        work(100_000)
    with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
        try:
            print(pool.apply(work, (100_000,)))
        except Exception as error:
            print(type(error).__name__, error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
@pytest.mark.parametrize("parent", ["first", "not"])
def test_workers(tmp_path, method, parent):
    """A forked worker may use the GPU where its parent has not, and is told what to do where it has."""
    write(tmp_path, workers=WORKERS)
    done = run([*OXINP, "workers.py", method, parent], tmp_path, OXINP_BACKEND="auto")
    assert done.returncode == 0, done.stderr
    if method == "fork" and parent == "first":
        assert "multiprocessing.get_context('spawn')" in done.stdout
    else:
        assert done.stdout == "(200000.0, True)\n", done.stderr


@pytest.mark.parametrize("threshold", ["0", "65536"])
def test_verified(tmp_path, threshold):
    write(tmp_path, program=PROGRAM, beside="import numpy as np\ndef double(x):\n    return x * 2\n")
    variables = {"OXINP_OFFLOAD_THRESHOLD": threshold}
    done = run([*OXINP, "--backend", "cuda", "--verify", "program.py"], tmp_path, **variables)
    assert done.returncode == 0, done.stderr


def test_profiled(tmp_path):
    text = "import numpy as np\nx = np.ones(1_000_000)\nfor _ in range(50):\n    y = x * 2\n    y += 1\nprint(y[0])\n"
    write(tmp_path, program=text)
    done = run([*OXINP, "--backend=cuda", "--profile=profile.json", "program.py"], tmp_path)
    assert (done.returncode, done.stdout) == (0, "3.0\n"), done.stderr
    profile = json.loads((tmp_path / "profile.json").read_text(encoding="utf-8"))
    lines = {line["source"]: line for line in profile["lines"]}
    assert lines["print(y[0])"]["d2h_bytes"] == 8
    assert lines["y += 1"]["launches"] >= 1
    assert sum(line["launches"] for line in lines.values()) == profile["total"]["launches"]
