"""Sorts of rows against NumPy's stable sort, bit for bit, by every way there is."""

import numpy as np
import pytest

from oxinp._kernels.sort import plan
from oxinp._kernels.sort.rank import BALLOT, MATCH
from oxinp._ptx.types import from_dtype
from tests.kernels.machine import TINY_DEVICE, Session, machine
from tests.thinned import thinned

DTYPES = [
    np.dtype(name) for name in ("?", "i1", "u1", "i2", "u2", "f2", "i4", "u4", "f4", "i8", "u8", "f8", "c8", "c16")
]
SMALL = plan.Tile(256, 2, 1)


@pytest.fixture
def session():
    session = Session(machine())
    yield session
    session.close()


def values_of(rng, shape, dtype):
    """Return values with many equal ones, of all sizes, and the special ones of floats."""
    if dtype.kind in "biu":
        bits = rng.integers(0, 256, (*shape, dtype.itemsize), np.uint8) & (1 if dtype.kind == "b" else 255)
        x = np.ascontiguousarray(bits).view(dtype)[..., 0]
        x[..., : shape[-1] // 2] &= dtype.type(3) if dtype.kind != "b" else True
        return x
    real = np.dtype(f"f{dtype.itemsize // (2 if dtype.kind == 'c' else 1)}")
    x = (rng.standard_normal(shape) * 10.0 ** rng.integers(-4, 5, shape)).astype(real)
    specials = np.array([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1, 1, np.finfo(real).tiny / 4], real)
    x = np.where(rng.random(shape) < 0.4, rng.choice(specials, shape), x)
    if dtype.kind == "f":
        return x
    z = np.empty(shape, dtype)
    z.real, z.imag = x, rng.choice([*specials, 2, 3], shape)
    return z


def descending_order(x):
    """Return where the elements of rows are, the greatest first, equal ones in their order, NaNs last."""
    if x.dtype.kind == "c":
        return np.stack([np.lexsort((-row.imag, -row.real, isnan(row.imag), isnan(row.real))) for row in x])
    ranks = np.stack([np.unique(row, return_inverse=True)[1] for row in x])
    return np.argsort(np.where(isnan(x), x.shape[1], -ranks), axis=1, kind="stable")


def isnan(x):
    return np.isnan(x) if x.dtype.kind == "f" else np.zeros(x.shape, bool)


def check(session, x, tile=None):
    made = check_order(session, x, tile, np.argsort(x, axis=1, kind="stable"))
    check_order(session, x, tile, descending_order(x), is_descending=True)
    return made


def check_order(session, x, tile, order, **given):
    num_rows, length = x.shape
    elements, places = np.empty_like(x), np.empty(x.shape, np.int64)
    for make, output, expected in (
        (plan.sort, elements, np.take_along_axis(x, order, 1)),
        (plan.argsort, places, order),
    ):
        made = make(num_rows, length, from_dtype(x.dtype), TINY_DEVICE, tile, **given)
        session.run(made, [output], [session.pointer(x)])
        assert output.tobytes() == expected.tobytes()
    return made


@pytest.mark.parametrize(("dtype", "length"), thinned(DTYPES, [1, 2, 7, 32, 100]), ids=str)
def test_network(session, dtype, length):
    rng = np.random.default_rng([length, dtype.num])
    made = check(session, values_of(rng, (5, length), dtype))
    assert made.launch.kernel.name == "sort_network"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_block(session, dtype):
    rng = np.random.default_rng(dtype.num)
    made = check(session, values_of(rng, (2, 300), dtype))
    assert made.launch.kernel.name == "sort_block"


@pytest.mark.parametrize(("code", "length"), [("f4", 300), ("i4", 512), ("f4", 513), ("u4", 1500), ("f4", 4097)])
def test_bitonic(session, code, length):
    rng = np.random.default_rng(length)
    x = values_of(rng, (1 if length > 2000 else 4, length), np.dtype(code))
    if code == "f4":  # a row that is not left to the stable sort: zeros have one sign, NaNs the hardware's bits
        x[0] = np.where(x[0] == 0, np.float32(-0.0), np.where(np.isnan(x[0]), np.float32(np.nan), x[0]))
    output = np.empty_like(x)
    made = plan.sort(*x.shape, from_dtype(x.dtype), TINY_DEVICE)
    session.run(made, [output], [session.pointer(x)])
    assert output.tobytes() == np.sort(x, axis=1, kind="stable").tobytes()
    assert made.steps[0].kernel.name == "sort_bitonic"


@pytest.mark.parametrize(("code", "length", "shared"), [("u2", 1025, 48), ("u2", 4097, 48), ("f8", 5000, 96)])
def test_larger_blocks(monkeypatch, session, code, length, shared):
    monkeypatch.setattr(TINY_DEVICE, "max_shared_nbytes", shared * 1024)
    rng = np.random.default_rng(length)
    made = check(session, values_of(rng, (1, length), np.dtype(code)))
    assert made.launch.kernel.name == "sort_block"


@pytest.mark.parametrize(
    "dtype", [pytest.param(dtype, marks=[pytest.mark.slow] * (dtype.char not in "BefldD")) for dtype in DTYPES], ids=str
)
def test_radix_of_several_tiles(session, dtype):
    rng = np.random.default_rng(dtype.num)
    length = 3000 if dtype.itemsize <= 4 else 1100
    check(session, values_of(rng, (1, length), dtype), SMALL)


@pytest.mark.parametrize("tile", [plan.Tile(256, 3, 1, BALLOT), plan.Tile(384, 1, 1, MATCH)])
def test_tiles_of_other_kinds(session, tile):
    check(session, values_of(np.random.default_rng(1), (1, 1700), np.dtype("f4")), tile)


@pytest.mark.parametrize("shape", [(3, 1100), (1, 512), (1, 1), (2, 513)])
def test_radix_of_rows(session, shape):
    check(session, values_of(np.random.default_rng(shape), shape, np.dtype("f4")), SMALL)


@pytest.mark.parametrize("values", [[7], [1, 2], [256, 512], [1 << 24, 0], [0x01010101, 0x02020202]])
def test_radix_leaves_out_digits_that_all_share(session, values):
    x = np.random.default_rng(3).choice(np.array(values, np.int32), (2, 1300))
    x[1] = 5
    check(session, x, SMALL)


def test_rows_too_long_for_a_block_go_by_radix(session):
    x = values_of(np.random.default_rng(4), (1, 9000), np.dtype("u2"))
    check(session, x)
