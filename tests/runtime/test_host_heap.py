"""What the host's heap keeps."""

import os
import subprocess
import sys

import pytest

import oxinp
from oxinp import config
from oxinp._runtime import host_heap

PAGES = """
import resource
import sys
import numpy
import oxinp
made = oxinp.asarray([1.0])  # arrays follow the setting from the first on
n = int(sys.argv[1])
x, y = numpy.ones((2, n, n))

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def work(times):
    for _ in range(times):
        x[:] = numpy.minimum(x, numpy.add.outer(x[:, 0], y[0]))

work(20)
before = faults()
work(100)
print(faults() - before)
"""
needs_glibc = pytest.mark.skipif(
    host_heap._mallopt() is None, reason="limits are set by glibc's variables, or it is not glibc"
)


def faults_of(n=300, **environment):
    done = subprocess.run(
        [sys.executable, "-c", PAGES, str(n)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )
    return int(done.stdout)


@needs_glibc
@pytest.mark.parametrize("n", [300, 1000])
def test_temporaries_take_no_new_pages(n):
    assert faults_of(n) < 2000  # 100 times two of 176 pages, or of 1953


@needs_glibc
def test_glibcs_variables_count():
    assert faults_of(MALLOC_MMAP_THRESHOLD_="4096", MALLOC_TRIM_THRESHOLD_="4096") > 20_000


@pytest.fixture
def asked(monkeypatch):
    oxinp.asarray([1.0])  # arrays follow the setting from the first on
    asked = []
    monkeypatch.setattr(host_heap, "_mallopt", lambda: lambda *pair: asked.append(pair))
    return asked


@pytest.mark.parametrize(
    ("kept", "trim", "mmap"),
    [
        (0, 128 << 10, 128 << 10),
        (1 << 20, 1 << 20, 1 << 20),
        (1 << 30, 1 << 30, 32 << 20),
        (1 << 40, 2**31 - 1, 32 << 20),
    ],
)
def test_setting(asked, kept, trim, mmap):
    with config.override(host_memory_kept=kept):
        assert asked == [(-3, mmap), (-1, trim)]
    assert asked[2:] == [(-3, 32 << 20), (-1, 512 << 20)]


def test_elsewhere_nothing_is_set(monkeypatch):
    monkeypatch.setattr(host_heap, "_mallopt", lambda: None)
    with config.override(host_memory_kept=5):
        pass


@pytest.mark.parametrize("variable", host_heap._OWN)
def test_limits_of_ones_own_stay(monkeypatch, variable):
    host_heap._mallopt.cache_clear()
    monkeypatch.setenv(variable, "1")
    assert host_heap._mallopt() is None
    host_heap._mallopt.cache_clear()


def test_no_other_system_has_it(monkeypatch):
    host_heap._mallopt.cache_clear()
    monkeypatch.setattr(sys, "platform", "darwin")
    assert host_heap._mallopt() is None
    host_heap._mallopt.cache_clear()
