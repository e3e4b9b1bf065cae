"""How few kernels serve batches of any size."""

from types import SimpleNamespace

import pytest

from oxinp._kernels.fft import radices
from oxinp._kernels.fft.axes import HALF, REAL, Array, Problem, plan_axes
from oxinp._kernels.fft.batch import Batch
from oxinp._kernels.fft.plan import Transform, plan
from oxinp._kernels.fft.radices import cut
from oxinp._kernels.fft.sides import Loop, Side
from oxinp._kernels.fft.spec import BANK_WIDTH, COLUMNS, ROWS, WARP, conflicts
from oxinp._kernels.plan import Argument
from oxinp._ptx.types import c64, c128, f32

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


@pytest.mark.parametrize("type_", [c64, c128])
@pytest.mark.parametrize("n", [64, 256])
def test_rows_that_are_stored_as_columns_have_no_bank_conflicts(n, type_):
    """In the exchange before which threads go along rows, and behind which they go along columns."""
    rows = Side(Argument("in0"), 1, 256)
    columns = Side(Argument("out0"), 1024, 256)
    spec = Batch(n, type_, type_, type_, rows, columns, (Loop(1024, n, 1),)).fit(DEVICE).spec
    assert (spec.loads, spec.stores) == (ROWS, COLUMNS)
    lanes = min(4 * WARP, spec.threads * spec.columns)
    accesses = sum(spec.radices[:-1]) + sum(spec.radices[1:])
    assert conflicts(spec) <= accesses * lanes * type_.nbytes // BANK_WIDTH


@pytest.mark.parametrize("nbytes", [8, 16])
@pytest.mark.parametrize("n", [103, 331, 1499, 2039, 4099])
def test_the_cheapest_convolution_is_found_among_few(n, nbytes, monkeypatch):
    """The lengths that cannot cost less are left out, and the others are compared."""
    most, asked = DEVICE.max_shared_nbytes * 8 // 9 // nbytes, []

    def noted(m, nbytes, **how):
        asked.append(m)
        return cut(m, nbytes, **how)

    monkeypatch.setattr(radices, "cut", noted)
    found = radices.convolution_length.__wrapped__(n, nbytes, most)
    few = len(asked)
    monkeypatch.setattr(radices, "_fewest_stages", lambda m, nbytes: 0)  # noqa: ARG005
    assert radices.convolution_length.__wrapped__(n, nbytes, most) == found
    assert not found or few < (len(asked) - few) / 2


@pytest.mark.parametrize("n", [53, 59, 61, 122, 1369, 1849, 1961, 3721])
def test_large_primes_take_little_code(n):
    """A compiler takes about as long as there are lines; a codelet of 61 elements has 5000."""
    assert all(kernel.ptx.count("\n") < 3000 for kernel in kernels_of(n, 100_000, c64))


@pytest.mark.parametrize("kind", [REAL, HALF])
@pytest.mark.parametrize("n", [53, 61, 1849])
def test_large_primes_of_real_sequences_take_little_code(n, kind):
    shape, half = (100_000, n), (100_000, n // 2 + 1)
    sides = [("in0", half if kind == HALF else shape), ("out0", half if kind == REAL else shape)]
    types = (f32, c64) if kind == REAL else (c64, f32)
    source, target = (
        Array(Argument(name), type_, own, (own[1], 1), 256) for (name, own), type_ in zip(sides, types, strict=True)
    )
    made = plan_axes(source, target, c64, Problem(kind, (1,), n), DEVICE)
    assert all(step.kernel.ptx.count("\n") < 3500 for step in made.steps)


@pytest.mark.parametrize("n", [4096, 8192, 9216])
def test_places_in_shared_memory_take_little_code(n):
    """An exchange computes a few addresses, and not one per element."""
    (kernel,) = kernels_of(n, 100_000, c64)
    of_integers = sum(kernel.ptx.count(f"{name}.u32") for name in ("add", "mul.lo", "mad.lo", "shr"))
    accesses = kernel.ptx.count("ld.shared") + kernel.ptx.count("st.shared")
    assert of_integers < accesses
