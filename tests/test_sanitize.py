"""The programs that run under compute-sanitizer are right themselves; the long ones run on a GPU only."""

import subprocess
import sys

import numpy  # noqa: ICN001 - `np` is either, in a program
import pytest

from tests.sanitize import programs

LONG = {
    "sorts",
    "counts",
    "functions_bi",
    "functions_u",
    "functions_f",
    "functions_c",
    "products",
    "reductions",
    "rows",
    "tensor_products",
    "stored_products",
    "native_products",
    "split_products",
    "residue_products",
    "triangular",
    "factorisations",
    "spectra",
}


@pytest.mark.parametrize(
    "family",
    [
        pytest.param(family, id=family.__name__, marks=[pytest.mark.gpu] if family.__name__ in LONG else [])
        for family in programs.FAMILIES
    ],
)
def test_programs(family):
    assert programs.check(family) >= 3


def test_a_wrong_result_is_an_error():
    def family(np):
        yield np.ones(1000) * (3 if np is numpy else 2)

    with pytest.raises(AssertionError, match="family, result 0"):
        programs.check(family)


def test_families_that_nobody_has_run_are_named():
    """A process of its own: elsewhere earlier tests have left plans whose kernels are there already."""
    command = [sys.executable, "-m", "tests.sanitize", "--inside", "scans"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    reached = done.stdout.split("reached: ")[1].split()
    assert "oxinp._kernels.scan.rows" in reached
    assert "oxinp._kernels.gemm.sm90_wgmma.kernel" not in reached
