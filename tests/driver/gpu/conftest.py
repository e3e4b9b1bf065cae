"""Objects on the GPU that the tests of this folder use."""

import shutil
import subprocess
from pathlib import Path

import pytest

from oxinp._driver.context import Context
from oxinp._driver.device import Device
from oxinp._driver.memory import DeviceMemory
from tests.driver.ptx_samples import PTX


@pytest.fixture(scope="module")
def context():
    return Context(Device(0))


@pytest.fixture(scope="module")
def memory(context):
    return DeviceMemory(context)


@pytest.fixture
def counter(memory):
    """Memory of 16 numbers, all 0."""
    ptr = memory.allocate(64)
    memory.fill32_async(ptr, 0, 16, 0)
    yield ptr
    memory.free(ptr)


@pytest.fixture(scope="module")
def c_program(tmp_path_factory):
    """What a C program reaches: it is compiled here, and run each time it is called."""
    compiler = shutil.which("gcc") or shutil.which("cc") or shutil.which("nvcc")
    if compiler is None:
        pytest.fail("this comparison needs a C compiler")
    folder = tmp_path_factory.mktemp("c")
    command = [compiler, "-O2", "-o", str(folder / "peer"), str(Path(__file__).parents[1] / "peer.c"), "-ldl"]
    subprocess.run(command, check=True)
    (folder / "kernels.ptx").write_text(PTX)

    def run():
        done = subprocess.run([folder / "peer", folder / "kernels.ptx"], capture_output=True, text=True, check=True)
        return {name: float(value) for name, value in (line.split() for line in done.stdout.splitlines())}

    return run
