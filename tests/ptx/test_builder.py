"""Recording kernels: what is refused, and what the recorded kernel says about itself."""

import ctypes
import gc
import struct
import time

import numpy as np
import pytest

from oxinp._ptx import Builder, In, InOut, Out, kernel
from oxinp._ptx.kernel import param_layout
from oxinp._ptx.types import bf16, f16, f32, f64, i8, i32, i64, pred, u8, u32, u64
from oxinp._ptx.value import immediate
from tests.comparator import assert_same
from tests.ptx.launch import launch


@pytest.fixture
def k():
    return Builder("trial", block=32)


@pytest.fixture
def x(k):
    return k.scalar("x", f32)


# -- values are not Python values


def test_run_time_value_in_an_if(x):
    def body():
        return 1 if x > 0 else 2

    with pytest.raises(TypeError, match=r"k\.when\(p\), k\.where"):
        body()


def test_run_time_value_in_and(x):
    with pytest.raises(TypeError, match="no truth value"):
        _ = (x > 0) and (x < 1)


def test_run_time_value_in_range(k):
    n = k.scalar("n", u32)
    with pytest.raises(TypeError, match=r"k\.range"):
        range(n)


@pytest.mark.parametrize("convert", [int, float, list])
def test_run_time_value_is_not_converted(x, convert):
    with pytest.raises(TypeError, match=r"run-time value"):
        convert(x)


# -- operands


def test_mixed_types_are_not_cast_silently(k, x):
    n = k.scalar("n", u32)
    with pytest.raises(TypeError, match=r"operand is u32 where f32 is needed: use k\.cast"):
        x + n


def test_float_constant_for_an_integer(k):
    with pytest.raises(TypeError, match="not an integer"):
        k.scalar("n", u32) + 1.5


def test_constant_out_of_range(k):
    with pytest.raises(OverflowError):
        k.scalar("n", i32) + 2**31


def test_truth_value_wanted(k, x):
    with pytest.raises(TypeError, match="where pred is needed"), k.when(x):
        pass


def test_no_such_instruction(k, x):
    with pytest.raises(TypeError, match="no instruction popc for f32"):
        k.popc(x)
    with pytest.raises(AttributeError, match="no instruction 'frobnicate'"):
        k.frobnicate(x)
    with pytest.raises(TypeError, match="fma takes 3 operands, not 2"):
        k.fma(x, x)


def test_modulo_of_floats(x):
    with pytest.raises(TypeError, match="no instruction rem for f32"):
        x % 2.0


def test_value_of_another_kernel(x):
    other = Builder("other").scalar("y", f32)
    with pytest.raises(ValueError, match="another kernel"):
        x + other


def test_bitcast_between_widths(k, x):
    with pytest.raises(TypeError, match="widths differ"):
        k.bitcast(x, u64)
    with pytest.raises(TypeError, match="widths differ"):
        k.bitcast(k.cast(x, i8), f16)


# -- scopes


def test_value_used_after_its_block(k, x):
    with k.when(x > 0):
        y = x * 2
    with pytest.raises(TypeError, match=r"k\.var"):
        y + 1


def test_loop_index_used_after_its_loop(k):
    with k.range(4) as i:
        pass
    with pytest.raises(TypeError, match=r"closed"):
        i + 1


def test_variable_assigned_after_its_block(k, x):
    with k.when(x > 0):
        v = k.var(x)
    with pytest.raises(TypeError, match="closed"):
        v.set(x)


def test_variable_needs_a_type(k):
    with pytest.raises(TypeError, match=r"k\.var\(0, f32\)"):
        k.var(0)


def test_otherwise_needs_a_when(k, x):
    with pytest.raises(TypeError, match="follow"), k.otherwise():
        pass
    with k.when(x > 0):
        pass
    x + 1
    with pytest.raises(TypeError, match="follow"), k.otherwise():
        pass


def test_only_one_otherwise(k, x):
    with k.when(x > 0):
        pass
    with k.otherwise():
        pass
    with pytest.raises(TypeError, match="follow"), k.otherwise():
        pass


def test_break_outside_a_loop(k, x):
    with pytest.raises(TypeError, match="inside"):
        k.break_if(x > 0)


def test_range_with_step_zero(k):
    with pytest.raises(ValueError, match="step 0"), k.range(0, 4, 0):
        pass


def test_build_twice(k):
    k.build()
    with pytest.raises(ValueError, match="built already"):
        k.build()


# -- pointers


def test_access_is_declared(k):
    with pytest.raises(TypeError, match="write-only"):
        k.pointer("out", f32, "w")[0]
    with pytest.raises(TypeError, match="read-only"):
        k.pointer("in_", f32, "r")[0] = 1.0
    with pytest.raises(TypeError, match="rw"):
        k.pointer("in_2", u32, "r").atomic("add", 0, 1)
    with pytest.raises(ValueError, match="access"):
        k.pointer("y", f32, "x")
    with pytest.raises(ValueError, match="two parameters named"):
        k.pointer("out", f32)


def test_index_has_to_be_an_integer(k, x):
    with pytest.raises(TypeError, match="index"):
        k.pointer("p", f32)[x]
    with pytest.raises(IndexError, match="3 indices"):
        k.shared(f32, (4, 4))[0, 0, 0]


def test_access_options(k):
    p = k.pointer("p", f32)
    with pytest.raises(ValueError, match="cache operator 'fast'"):
        p.load(0, cache="fast")
    with pytest.raises(ValueError, match="order 'seq_cst'"):
        p.load(0, order="seq_cst")
    with pytest.raises(ValueError, match="power of two"):
        p.load(0, width=3)
    with pytest.raises(ValueError, match="only accesses to global"):
        k.shared(f32, 4).load(0, cache="nc")
    with pytest.raises(TypeError, match="atomic and has no f32 form"):
        p.atomic("and", 0, 1.0)


# -- targets


def test_instruction_of_a_newer_target(k):
    with pytest.raises(ValueError, match=r"fence_acq_rel_cluster needs sm_90, and kernel trial targets sm_80"):
        k.fence("cluster")
    Builder("new", target="sm_90").fence("cluster")


def test_ptx_version_is_the_lowest_that_does():
    k = Builder("plain")
    p = k.pointer("p", f32)
    p[0] = p[1]
    assert ".version 7.0\n.target sm_80\n" in k.build().ptx
    k = Builder("no_allocate")
    p = k.pointer("p", f32)
    p[0] = p.load(1, cache="L1::no_allocate")[0]
    assert ".version 7.4\n" in k.build().ptx
    assert ".version 8.0\n.target sm_90a\n" in Builder("wgmma", target="sm_90a").build().ptx


# -- what a kernel says about itself


class Struct(ctypes.Structure):
    """The same parameters as C lays them out."""

    _fields_ = (
        ("a", ctypes.c_uint8),
        ("b", ctypes.c_double),
        ("c", ctypes.c_int16),
        ("p", ctypes.c_void_p),
        ("d", ctypes.c_float),
        ("e", ctypes.c_int64),
        ("f", ctypes.c_uint8),
    )


def test_parameter_layout_is_that_of_c(k):
    k.scalar("a", u8)
    k.scalar("b", f64)
    k.scalar("c", f16)
    k.pointer("p", f32)
    k.scalar("d", f32)
    k.scalar("e", i64)
    k.scalar("f", pred)
    built = k.build()
    assert param_layout(built.params)[1] == tuple(getattr(Struct, name).offset for name, _ in Struct._fields_)
    packed = struct.pack(built.param_format, 1, 2.0, 3.0, 4, 5.0, -6, True)
    assert packed[Struct.d.offset :][:4] == struct.pack("<f", 5.0)


def test_parameter_block_is_aligned(k):
    k.scalar("n", u32)
    k.parameter_block("map")
    built = k.build()
    assert param_layout(built.params)[1] == (0, 64)
    assert struct.calcsize(built.param_format) == 192
    assert ".param .align 64 .b8 map[128]" in built.ptx


def test_same_program_same_text():
    def trace():
        k = Builder("same")
        out, x = k.pointer("out", f32, "w"), k.pointer("x", f32, "r")
        with k.grid_stride(k.scalar("n", u32)) as i, k.when(x[i] > 0):
            out[i] = k.fma(x[i], x[i], 1.0)
        return k.build().ptx

    assert trace() == trace()


def test_nothing_is_contracted(k, x):
    out = k.pointer("out", f32, "w")
    out[0] = x * x + x - x / x
    text = k.build().ptx
    assert [line.split()[0] for line in text.splitlines() if ".rn.f32" in line] == [
        "mul.rn.f32",
        "add.rn.f32",
        "div.rn.f32",
        "sub.rn.f32",
    ]


def test_launch_bounds():
    text = Builder("bounds", block=(32, 4), target="sm_90", min_blocks=2, max_registers=64, cluster=2).build().ptx
    for directive in (".reqntid 32, 4, 1", ".minnctapersm 2", ".maxnreg 64", ".reqnctapercluster 2, 1, 1"):
        assert directive in text


def test_shared_memory_is_accounted():
    k = Builder("shared")
    k.shared(f32, 3)
    k.shared(f64, (2, 2), align=128)
    k.dynamic_shared(f32, 101)
    k.dynamic_shared(f64, 10)
    built = k.build()
    assert built.shared_nbytes == 416 + 80
    assert built.static_shared_nbytes >= 128 + 32
    assert ".shared .align 128 .b8 shared_1[32];" in built.ptx


def test_a_simple_kernel_is_built_in_a_millisecond():
    def build():
        k = Builder("axpy")
        y, x = k.pointer("y", f32), k.pointer("x", f32, "r")
        a, n = k.scalar("a", f32), k.scalar("n", u32)
        with k.grid_stride(n) as i:
            y[i] = k.fma(a, x[i], y[i])
        k.build()

    build()
    durations = []
    for _ in range(20):
        start = time.thread_time()  # not of the clock on the wall: the machine may be busy
        build()
        durations.append(time.thread_time() - start)
    assert min(durations) < 1e-3


def nested_kernel():
    k = Builder("nested", block=32)
    x, tile = k.pointer("x", f32), k.shared(f32, 32)
    total = k.var(0, f32)
    with k.range(k.const(0, u32), 3) as i, k.when(k.tid < 16):
        k.continue_if(i == 1)
        tile[k.tid] = k.bitcast(k.tid + i, f32)
        k.barrier()
        total += tile[k.tid ^ 1]
    x[k.tid] = total
    return k.build()


def test_what_nobody_holds_leaves_nothing_to_the_garbage_collector():
    nested_kernel()
    gc.collect()
    gc.disable()
    try:
        kernel = nested_kernel()
        assert "bra" in kernel.ptx
        del kernel
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_constants_are_shared_but_for_the_signs_of_zeros():
    one, plus, minus = immediate(1.0, f32), immediate(0.0, f32), immediate(-0.0, f32)
    assert immediate(1.0, f32) is one
    assert immediate(1, f32).text == one.text
    assert plus.text == "0f00000000"
    assert minus.text == "0f80000000"
    assert immediate(1, i32) is not immediate(1, u32)
    assert immediate(float("nan"), f32).text == "0f7FC00000"
    with pytest.raises(TypeError):
        immediate(1.0, i32)


# -- the decorator


def test_signature_declares_the_parameters():
    @kernel(block=64, name="saxpy")
    def axpy(k, x: In[f32], y: InOut[f32], z: Out[f32], a: f32, n: u32):
        with k.grid_stride(n) as i:
            z[i] = k.fma(a, x[i], y[i])
            y[i] = 0

    assert axpy.name == "saxpy"
    assert axpy.block == (64, 1, 1)
    assert [(p.name, p.is_pointer, p.access) for p in axpy.params] == [
        ("x", True, "r"),
        ("y", True, "rw"),
        ("z", True, "w"),
        ("a", False, ""),
        ("n", False, ""),
    ]
    x, y, z = np.arange(100, dtype="f4"), np.ones(100, "f4"), np.zeros(100, "f4")
    launch(axpy, x, y, z, 2.0, 100, grid=1)
    assert_same(z, 2 * np.arange(100, dtype="f4") + 1)
    assert not y.any()


def test_signature_without_annotation():
    with pytest.raises(TypeError, match="'x' needs an annotation"):

        @kernel()
        def wrong(k, x):
            pass


def test_bf16_travels_as_bits(k):
    out = k.pointer("out", bf16, "w")
    out[k.tid] = k.scalar("x", bf16)
    bits = np.zeros(32, np.uint16)
    launch(k.build(), bits, 0x3F80)
    assert (bits == 0x3F80).all()
