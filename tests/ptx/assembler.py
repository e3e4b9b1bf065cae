"""Assembling PTX with ptxas: many kernels per module, each module once (cached by what went in)."""

import functools
import hashlib
import os
import random
import re
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path

import pytest

HEADER = re.compile(r"^\.(version|target|address_size).*\n", re.MULTILINE)
EXTERN = re.compile(r"^\.extern .*\n", re.MULTILINE)


SHARE = 24  # one of so many
CACHE = (
    Path(tempfile.gettempdir()) / "oxinp-assembled"
)  # what ptxas said of modules that assembled, in earlier runs, too


def is_every_spec():
    """Whether all Specs are to be assembled, which takes minutes."""
    return os.environ.get("OXINP_EVERY_SPEC", "") == "1"


def sampled(specs):
    """A share of some Specs, the same each time; all of them with OXINP_EVERY_SPEC=1."""
    specs = list(specs)
    if is_every_spec():
        return specs
    return random.Random(0).sample(specs, -(-len(specs) // SHARE))


@functools.cache
def find_ptxas():
    """Path of ptxas: on PATH, in the nvidia-cuda-nvcc package, or in a CUDA toolkit; None if there is none."""
    installed = Path(sysconfig.get_path("purelib"), "nvidia").glob("*/bin/ptxas*")
    toolkit = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin", "ptxas")
    candidates = [shutil.which("ptxas"), *installed, toolkit]
    return next((str(path) for path in candidates if path and Path(path).is_file()), None)


@functools.cache
def ptxas_version(ptxas):
    """What the assembler says it is: part of the cache key."""
    return subprocess.run([ptxas, "--version"], capture_output=True, text=True, check=True).stdout


def version_of(kernel):
    """PTX version a kernel asks for."""
    return tuple(int(x) for x in re.search(r"\.version (\d+)\.(\d+)", kernel.ptx).groups())


def join(kernels):
    """One module holding kernels of one target."""
    (target,) = {kernel.target for kernel in kernels}
    major, minor = max(version_of(kernel) for kernel in kernels)
    externs = sorted({line for kernel in kernels for line in EXTERN.findall(kernel.ptx)})
    bodies = [EXTERN.sub("", HEADER.sub("", kernel.ptx)) for kernel in kernels]
    return f".version {major}.{minor}\n.target {target}\n.address_size 64\n{''.join(externs)}{''.join(bodies)}"


def assemble(kernels):
    """Assemble kernels of one target as one module, and return what ptxas -v says.

    Parameters
    ----------
    kernels : list of Kernel
        With distinct names.

    Raises
    ------
    AssertionError
        ptxas refuses the module; its messages and the offending lines are in the message.
    """
    ptxas = find_ptxas()
    if ptxas is None:
        pytest.skip("no ptxas: the test extra installs one (nvidia-cuda-nvcc)")
    text = join(kernels)
    key = hashlib.sha256(f"{ptxas_version(ptxas)}{text}".encode()).hexdigest()
    said = CACHE / f"{key}.txt"
    if said.exists():
        return said.read_text()
    command = [ptxas, "-v", f"-arch={kernels[0].target}", "-o", os.devnull, "-"]
    result = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert result.returncode == 0, _explain(result.stdout + result.stderr, text)
    CACHE.mkdir(parents=True, exist_ok=True)
    part = CACHE / f"{key}.{os.getpid()}"  # other processes read the folder
    part.write_text(result.stdout + result.stderr)
    part.replace(said)
    return result.stdout + result.stderr


def _explain(message, text):
    lines = text.splitlines()
    numbers = [int(n) for n in re.findall(r"line (\d+)", message)]
    return message[:4000] + "".join(f"\n{n}: {lines[n - 1]}" for n in numbers[:20])
