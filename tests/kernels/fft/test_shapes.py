"""How few kernels serve batches of any size."""

from types import SimpleNamespace

import pytest

from oxinp._kernels.fft.plan import Transform, plan
from oxinp._kernels.fft.sides import Loop, Side
from oxinp._kernels.plan import Argument
from oxinp._ptx.types import c64, c128

DEVICE = SimpleNamespace(num_sms=132, cc=(9, 0), max_shared_nbytes=227 * 1024, tuned=lambda _: None)


def kernels_of(n, rows, type_):
    loops = (Loop(rows, n, n),)
    sides = Side(Argument("in0"), 1, 256), Side(Argument("out0"), 1, 256)
    made = plan(Transform(n, type_, type_, type_, *sides, loops, num_valid=n), DEVICE)
    return [step.kernel for step in made.steps]


@pytest.mark.parametrize("type_", [c64, c128])
@pytest.mark.parametrize("n", [13, 16, 17, 64, 97, 100, 243, 257, 1000, 1009, 2000, 2039, 4096])
def test_rows_of_a_length_have_two_kernels_at_most(n, type_):
    """Whatever their number is, one among them; with the tables of a convolution beside."""
    few, many = kernels_of(n, 1, type_), kernels_of(n, 100_000, type_)
    for rows in (2, 3, 7, 50, 131, 132, 133, 1000, 4096, 20_000):
        assert kernels_of(n, rows, type_) in (few, many)


@pytest.mark.parametrize("n", [64, 257, 1000])
def test_few_rows_are_spread(n):
    made = plan(
        Transform(
            n, c64, c64, c64, Side(Argument("in0"), 1), Side(Argument("out0"), 1), (Loop(200, n, n),), num_valid=n
        ),
        DEVICE,
    )
    block, grid = made.launch.kernel.block[0], made.launch.grid[0]
    assert block <= 128
    assert grid * block >= 200 * 4
