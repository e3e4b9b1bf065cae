"""Worker processes of `multiprocessing` and `concurrent.futures`: the program there is bound as it is in the parent."""

import sys

import pytest

from tests.runner.process import OXINP, assert_same_run, run, write

METHODS = ["spawn"] if sys.platform == "win32" else ["fork", "forkserver", "spawn"]

PROGRAM = """
import concurrent.futures, multiprocessing, sys
import numpy as np, beside
from oxinp import config

class Defined:
    value = 2

def work(x):
    total = float((np.ones(4) * x * Defined().value).sum())
    return np.__name__, beside.np.__name__, total, config.fallback, type(x)

def fail(x):
    raise ValueError(f"worker {x}")

if __name__ == "__main__":
    context = multiprocessing.get_context(METHOD)
    with context.Pool(2) as pool:
        print(pool.map(work, [np.float64(1), 2.0]))
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as executor:
        print(list(executor.map(work, [3])))
        try:
            executor.submit(fail, 4).result()
        except ValueError as error:
            print(error)
        print(type(executor.submit(np.ones, 3).result()) is np.ndarray)
"""


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("arguments", [["program.py"], ["-m", "program"]], ids=["script", "module"])
def test_bound_in_workers(tmp_path, method, arguments):
    write(tmp_path, program__program=PROGRAM.replace("METHOD", repr(method)), program__beside="import numpy as np\n")
    done = run([*OXINP, "--strict", *arguments], tmp_path / "program")
    ours = "'oxinp', 'oxinp'"
    assert done.stdout.splitlines() == [
        f"[({ours}, 8.0, 'error', <class 'numpy.float64'>), ({ours}, 16.0, 'error', <class 'float'>)]",
        f"[({ours}, 24.0, 'error', <class 'int'>)]",
        "worker 4",
        "True",
    ], done.stderr


def test_workers_of_workers(tmp_path):
    text = """
import multiprocessing
import numpy as np
def inner(queue):
    queue.put(np.__name__)
def outer(queue):
    process = multiprocessing.get_context("spawn").Process(target=inner, args=(queue,))
    process.start()
    process.join()
if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=outer, args=(queue,))
    process.start()
    print(queue.get())
    process.join()
    print(process.exitcode)
"""
    write(tmp_path, program__nested=text)
    assert run([*OXINP, "nested.py"], tmp_path / "program").stdout.splitlines() == ["oxinp", "0"]


def test_exit_of_a_worker(tmp_path):
    text = """
import multiprocessing, sys
def leave():
    sys.exit(7)
if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=leave)
    process.start()
    process.join()
    sys.exit(process.exitcode)
"""
    write(tmp_path, program__leaves=text)
    assert assert_same_run(tmp_path / "program", "leaves.py").returncode == 7
