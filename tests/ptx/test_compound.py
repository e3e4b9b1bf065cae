"""Compound values: tuples of registers, complex numbers among them, wherever a kernel has values."""

import operator

import numpy as np
import pytest

from oxinp._kernels.elementwise.access import contiguous_strides
from oxinp._kernels.problem import Operand, ReduceOp
from oxinp._kernels.reduce import plan as reduce
from oxinp._ptx import Builder, In, Out, block_reduce, kernel, warp_reduce
from oxinp._ptx.types import c64, c128, compound, f32, f64, i64, pred, u8, u32
from tests.comparator import assert_same
from tests.kernels.machine import TINY_DEVICE, execute, machine
from tests.ptx.launch import launch

PAIR = compound(f32, i64)
TRIPLE = compound(f64, f64, f64)
COMPLEX = [c64, c128]
NUM_LANES = 256
PARTS = (0.0, -0.0, 1.0, -1.0, 0.5, 3.0, np.inf, -np.inf, np.nan, 1e-30, 1e30)


def specials(type_):
    """Every pair of parts, in a whole number of blocks."""
    real, imag = np.meshgrid(PARTS, PARTS)
    z = np.empty(2 * NUM_LANES, type_.dtype)
    z.real, z.imag = np.resize(real, z.size), np.resize(imag, z.size)
    return z


def random_complex(type_, size, seed=0):
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.integers(-12, 12, (2, size))
    real, imag = rng.standard_normal((2, size)) * scale
    return (real + 1j * imag).astype(type_.dtype)


def full_range(type_, size=8192):
    """Numbers of every magnitude, their parts near each other in half of them."""
    rng = np.random.default_rng(2)
    info = np.finfo(type_.dtype)
    real, imag = 2.0 ** rng.uniform(info.minexp - 20, info.maxexp - 1, (2, size)) * rng.choice([-1, 1], (2, size))
    z = np.empty(size, type_.dtype)
    with np.errstate(over="ignore"):
        real[::2] = imag[::2] * rng.uniform(0.1, 10, size // 2)
        z.real, z.imag = real, imag
    return z


def apply(operation, type_, *arrays, result=None):
    """Run one operation over arrays of one length."""
    k = Builder("apply", block=NUM_LANES)
    result = result or type_
    out = k.pointer("out", result, "w")
    pointers = [k.pointer(f"x{i}", type_, "r") for i in range(len(arrays))]
    i = k.ctaid * NUM_LANES + k.tid
    out[i] = operation(k, *[pointer[i] for pointer in pointers])
    given = np.zeros(arrays[0].shape, result.dtype)
    launch(k.build(), given, *arrays, grid=arrays[0].size // NUM_LANES)
    return given


# -- what a type is


def test_types_are_the_same_object_every_time():
    assert compound(f32, i64) is PAIR
    assert compound(f32, f32) is not c64


def test_memory_layout_is_that_of_c():
    assert (c64.nbytes, c64.offsets, c128.nbytes, c128.offsets) == (8, (0, 4), 16, (0, 8))
    assert (PAIR.nbytes, PAIR.offsets) == (16, (0, 8))
    assert (TRIPLE.nbytes, TRIPLE.offsets) == (24, (0, 8, 16))
    assert compound(u8, f64, u8).offsets == (0, 8, 16)


# -- loads and stores


@pytest.mark.parametrize("type_", [c64, c128, PAIR, TRIPLE, compound(pred, f32)], ids=repr)
@pytest.mark.parametrize("width", [1, 2, 4])
def test_vectors(type_, width):
    k = Builder("copy", block=16)
    out, x = k.pointer("out", type_, "w"), k.pointer("x", type_, "r")
    out.store(k.tid * width, reversed(x.load(k.tid * width, width)))
    source = np.zeros(16 * width, type_.dtype)
    for name in type_.dtype.names or ():
        source[name] = np.arange(source.size) % 2 if source[name].dtype == bool else np.arange(source.size)
    if type_.is_complex:
        source[:] = np.arange(source.size) * (1 - 2j)
    result = np.zeros_like(source)
    launch(k.build(), result, source)
    assert_same(result, source.reshape(16, width)[:, ::-1].reshape(-1))


def test_complex_numbers_take_one_access():
    for type_, width, access in [(c64, 1, "v2.f32"), (c64, 2, "v4.f32"), (c128, 1, "v2.f64")]:
        k = Builder("copy")
        out, x = k.pointer("out", type_, "w"), k.pointer("x", type_, "r")
        out.store(0, x.load(0, width))
        text = k.build().ptx
        assert text.count("ld.global") == text.count("st.global") == 1
        assert f"ld.global.{access}" in text


def test_parameters_by_value():
    @kernel(block=1)
    def give(k, z: Out[c64], t: Out[PAIR], a: c64, p: PAIR, b: c128):
        z[0] = a + k.cast(b, c64)
        t[0] = p

    z, t = np.zeros(1, np.complex64), np.zeros(1, PAIR.dtype)
    launch(give, z, t, 1 + 2j, (3.5, -(2**40)), 10 + 20j)
    assert z[0] == 11 + 22j
    assert t[0].item() == (3.5, -(2**40))
    assert give.param_format == "<QQfff4xqdd"


def test_shared_arrays_shuffles_and_trees():
    @kernel(block=64)
    def total(k, x: In[c64], out: Out[c64], best: Out[PAIR]):
        z = x[k.tid]
        tile = k.shared(c64, 64)
        tile[63 - k.tid] = z
        k.barrier()
        out[k.tid] = tile[k.tid]
        out[64 + k.tid] = k.shfl_bfly(z, 1)
        out[128 + k.tid] = warp_reduce(k, z, operator.add)
        out[192 + k.tid] = block_reduce(k, z, operator.add)
        pair = k.compound(PAIR, z.real, k.cast(k.tid, i64))
        best[k.tid] = block_reduce(k, pair, lambda a, b: k.where(a.parts[0] > b.parts[0], a, b))

    x = (np.random.default_rng(0).permutation(64) + 2j).astype(np.complex64)
    out, best = np.zeros(256, np.complex64), np.zeros(64, PAIR.dtype)
    launch(total, x, out, best)
    assert_same(out[:64], x[::-1])
    assert_same(out[64:128], x.reshape(-1, 2)[:, ::-1].reshape(-1))
    assert_same(out[128:192], np.repeat(x.reshape(2, 32).sum(1), 32))
    assert (out[192:] == x.sum()).all()
    assert (best["part0"] == 63).all()
    assert (best["part1"] == np.argmax(x.real)).all()


# -- variables, constants, choices


def test_variables():
    @kernel(block=32)
    def turn(k, out: Out[c64], powers: Out[c64]):
        z = k.var(1.0, c64)
        pair = k.var((1, 2), compound(u32, u32))
        before = z.get()
        with k.range(k.tid) as _:
            z *= 1j
            a, b = pair.parts
            pair.set(k.compound(pair.type, b, a))
        out[k.tid] = k.compound(c64, *[k.cast(part, f32) for part in pair.parts]) + before
        powers[k.tid] = z

    out, powers = np.zeros(32, np.complex64), np.zeros(32, np.complex64)
    launch(turn, out, powers)
    assert out.tolist() == [3 + 1j if i % 2 else 2 + 2j for i in range(32)]
    assert powers.tolist() == [(1, 1j, -1, -1j)[i % 4] for i in range(32)]


@pytest.mark.parametrize("type_", COMPLEX, ids=repr)
def test_choices_and_constants(type_):
    z = specials(type_)
    chosen = apply(lambda k, a: k.where(a.real > 0, a, 2 - 3j), type_, z)
    assert_same(chosen, np.where(z.real > 0, z, z.dtype.type(2 - 3j)))


def test_what_is_refused():
    k = Builder("refused")
    z, x = k.scalar("z", c64), k.scalar("x", f32)
    for wrong in (lambda: z + x, lambda: x + z, lambda: k.sqrt(k.scalar("w", c128)) + z, lambda: z < x):
        with pytest.raises(TypeError):
            wrong()
    pair = k.scalar("pair", PAIR)
    with pytest.raises(TypeError, match="no instruction add for f32_i64"):
        pair + pair
    with pytest.raises(TypeError, match="no cast from f32_i64 to f32"):
        k.cast(pair, f32)
    with pytest.raises(TypeError, match="1 parts do not make a c64"):
        k.compound(c64, x)
    with k.when(x > 0):
        inner = k.compound(c64, x + 1, x)
    with pytest.raises(TypeError, match=r"k\.var"):
        inner + z


# -- complex arithmetic


def product(a, b):
    """NumPy's product where its loop has FMA: each part has one product that is not rounded."""
    wide = np.longdouble
    ar, br, bi = (part.astype(wide) for part in (a.real, b.real, b.imag))
    result = np.empty_like(a)
    result.real = ar * br - (a.imag * b.imag).astype(wide)
    result.imag = ar * bi + (a.imag * b.real).astype(wide)
    return result


@pytest.mark.parametrize("values", [specials, lambda t: random_complex(t, 8192)], ids=["specials", "random"])
@pytest.mark.parametrize("type_", COMPLEX, ids=repr)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "lt", "le", "gt", "ge", "eq", "ne"])
def test_binary(name, type_, values):
    function = getattr(operator, name)
    a = values(type_)
    b = np.random.default_rng(1).permutation(a)
    if name not in {"add", "sub", "mul", "truediv"}:
        a[::3] = b[::3]
        a.imag[1::3], a.real[2::3] = b.imag[1::3], b.real[2::3]
    compares = name in {"lt", "le", "gt", "ge", "eq", "ne"}
    given = apply(lambda _, x, y: function(x, y), type_, a, b, result=pred if compares else type_)
    with np.errstate(all="ignore"):
        wanted = product(a, b) if name == "mul" else function(a, b)
    finite = np.isfinite(given.astype(type_.dtype))
    if name == "mul" and type_ is c128:  # longdouble rounds twice
        assert_same(given[finite], wanted[finite], ulp=1)
        given, wanted = given[~finite], wanted[~finite]
    assert_same(given, wanted)


@pytest.mark.parametrize("type_", COMPLEX, ids=repr)
def test_products_are_near_numpys_whatever_its_loop(type_):
    a, b = random_complex(type_, 8192), random_complex(type_, 8192, seed=1)
    given = apply(lambda _, x, y: x * y, type_, a, b)
    with np.errstate(all="ignore"):
        wanted = a * b
    bound = 2 * np.finfo(type_.dtype).eps * np.abs(wanted) + 2 * np.finfo(type_.dtype).smallest_subnormal
    with np.errstate(invalid="ignore"):
        assert ((np.abs(given - wanted) <= bound) | ~np.isfinite(wanted)).all()


@pytest.mark.parametrize("type_", COMPLEX, ids=repr)
def test_unary(type_):
    for z in (specials(type_), random_complex(type_, 512)):
        assert_same(apply(lambda _, a: -a, type_, z), -z)
        assert_same(apply(lambda k, a: k.isnan(a), type_, z, result=pred), np.isnan(z))
        part = type_.parts[0]
        assert_same(apply(lambda _, a: abs(a), type_, z, result=part), np.abs(z), ulp=2)  # NumPy's own error


@pytest.mark.parametrize("type_", COMPLEX, ids=repr)
def test_square_roots(type_):
    """Special values are NumPy's; others are held against twice the precision, over the whole range of exponents."""
    z = specials(type_)
    given = apply(lambda k, a: k.sqrt(a), type_, z)
    with np.errstate(all="ignore"):
        assert_same(given, np.sqrt(z), ulp=2)
    z = full_range(type_)
    with np.errstate(all="ignore"):
        wide = np.sqrt(z.astype(np.clongdouble)).astype(z.dtype)
    assert_same(apply(lambda k, a: k.sqrt(a), type_, z), wide, ulp=1)


@pytest.mark.parametrize("type_", COMPLEX, ids=repr)
@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_extrema(type_, name):
    a = specials(type_)
    b = np.random.default_rng(1).permutation(a)
    given = apply(lambda k, x, y: (k.max_nan if name == "maximum" else k.min_nan)(x, y), type_, a, b)
    assert_same(given, getattr(np, name)(a, b))


@pytest.mark.parametrize("type_", COMPLEX, ids=repr)
def test_absolute_values_to_an_ulp(type_):
    """Over the whole range of exponents, the smallest ones too."""
    z = full_range(type_)
    given = apply(lambda k, a: k.abs(a), type_, z, result=type_.parts[0])
    with np.errstate(over="ignore"):
        wanted = np.hypot(z.real.astype(np.longdouble), z.imag.astype(np.longdouble))
        assert_same(given, wanted.astype(given.dtype), ulp=1)


def test_python_numbers_take_the_type():
    z = specials(c64)
    one, two = np.complex64(1), np.complex64(2j)
    with np.errstate(all="ignore"):
        assert_same(apply(lambda _, a: 2j - a + 1, c64, z), two - z + one)
        assert_same(apply(lambda _, a: 1 / a, c64, z), one / z)


# -- as accumulators and elements of the kernel families


def greater(k, a, b):
    """Of (value, index) pairs, the larger value and, of equal ones, the smaller index."""
    is_first = (a.parts[0] > b.parts[0]) | (k.compare("eq", a.parts[0], b.parts[0]) & (a.parts[1] < b.parts[1]))
    return k.where(is_first, a, b)


@pytest.mark.parametrize(("shape", "axes"), [((200_000,), (0,)), ((300, 40), (0,)), ((30, 700), (1,))])
def test_reductions_carry_tuples_along(shape, axes):
    """A split reduction leaves its tuples in scratch memory, and the second pass reads them there."""
    pair = compound(f32, i64)
    op = ReduceOp("argmax", pair, (-np.inf, 2**62), greater)
    rng = np.random.default_rng(0)
    source = np.zeros(shape, pair.dtype)
    source["part0"] = rng.integers(0, 1000, shape)
    source["part1"] = np.arange(source.size).reshape(shape)
    kept = tuple(n for d, n in enumerate(shape) if d not in axes)
    out = np.zeros(kept, pair.dtype)
    here = machine()
    x, target = here.upload(source), here.upload(out)
    operand = Operand(pair, contiguous_strides(shape))
    plan = reduce.plan(shape, axes, [operand], [], 0, op, Operand(pair, contiguous_strides(kept)), TINY_DEVICE)
    execute(here, plan, [target], [x])
    out.reshape(-1).view(np.uint8)[:] = here.download(target, out.nbytes)
    for address in (x, target):
        here.free(address)
    assert len(plan.steps) == (2 if shape[0] == 200_000 else len(plan.steps))
    assert_same(out["part0"], np.asarray(source["part0"].max(axes)))
    first = np.take_along_axis(source["part1"], source["part0"].argmax(axes[0], keepdims=True), axes[0])
    assert_same(out["part1"], first.reshape(kept))


# -- machine code


def test_assembles(assembled):
    """Everything a complex kernel may hold, in one kernel per type and target."""
    for target in ("sm_80", "sm_90"):
        assembled([_everything(type_, target) for type_ in (*COMPLEX, PAIR, TRIPLE)])


def _everything(type_, target):
    k = Builder(f"everything_{type_.name}", block=NUM_LANES, target=target)
    out, x = k.pointer("out", type_, "w"), k.pointer("x", type_, "r")
    a, b = x.load(k.tid * 2, 2)
    given = k.scalar("given", type_)
    if type_.is_complex:
        value = k.var((a + b) * (a - b) / given)
        value *= k.cast(abs(b), type_)
        other = k.where((a < b) | (a == given), -value, k.max_nan(a, b))
        value.set(block_reduce(k, other, operator.add))
    else:
        value = k.var(k.where(a.parts[0] < b.parts[0], a, b))
        value.set(block_reduce(k, value.get(), lambda x, y: k.where(x.parts[0] < y.parts[0], x, y)))
    out.store(k.tid * 2, [value, given])
    return k.build()
