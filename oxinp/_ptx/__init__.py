"""The kernel language: plain Python that traces into PTX.

Python ``if`` and ``for`` run while the kernel is being built, `k.when` and `k.range` on the device. A value never
changes; only `k.var` may be assigned. Operators are the IEEE round-to-nearest (or integer) instruction and are never
contracted; anything else is spelled (`k.fma`, `k.ex2_approx`). Nothing is cast silently.

The whole language by example::

    from oxinp._ptx import Builder, block_reduce, warp_reduce
    from oxinp._ptx.types import c64, compound, f32, f64, i64, pred, u8, u32

    k = Builder("example", block=256, target="sm_80")     # min_blocks=, max_registers=, cluster= too

    # parameters, in this order
    out = k.pointer("out", f32, "w")          # global pointer; "r", "w" or "rw"
    x = k.pointer("x", f32, "r")
    mask = k.pointer("mask", pred, "r")       # one byte per element in memory, a predicate in registers
    a = k.scalar("a", f32)                    # by value
    n = k.scalar("n", u32)
    tensor_map = k.parameter_block("map")     # 128 bytes by value, 64-byte aligned; its generic address

    # coordinates (u32): k.tid k.ntid k.ctaid k.nctaid, each with .y and .z; k.lane, k.warp
    i = k.ctaid * k.ntid + k.tid

    # values: + - * / % & | ^ << >> ~ comparisons; Python numbers take the other side's type
    y = a * 2.0 + 1.0
    p = (y > 0) & (i < n)                                  # comparisons give pred
    y = k.fma(y, y, 1.0)                                   # every row of oxinp._ptx.isa is a method
    y = k.where(p, y, k.sqrt(k.abs(y)))
    y = k.max_nan(y, 0.0)                                  # numpy.maximum; k.max is the number if one is NaN
    z = k.cast(y, f64)                                     # NumPy's casts, bit for bit; k.cvt(y, i32, "rzi") is PTX's
    bits = k.bitcast(y, u32)                               # free
    zero = k.const(0, f32)
    w = k.compound(c64, y, zero)                           # complex: w.real, w.imag, + - * / == <, abs(w), k.cast
    pair = k.compound(compound(f32, i64), y, 7)            # any tuple: pair.parts; loads, k.var, k.where, shuffles too

    # control flow
    with k.when(p):
        out[i] = y
    with k.otherwise():
        out[i] = zero
    acc = k.var(zero)                                      # or k.var(0, f32); acc.set(v), acc += v, acc.get()
    with k.range(0, n, 32) as j:                           # index has the type of the bounds
        acc += x[j]
        k.continue_if(acc < 0)
        k.break_if(acc > 100)
    with k.loop():                                         # until k.break_if
        k.break_if(acc <= 1)
        acc *= 0.5
    with k.grid_stride(n) as j:                            # every index < n that is this thread's
        out[j] = x[j] + acc

    # memory: indices are int, u32, i32, u64, i64; int offsets go into the instruction
    four = x.load(i * 4, width=4, cache="nc.L1::no_allocate")   # tuple of 4 values, one 16-byte load
    out.store(i * 4, four, cache="cs")
    row = x.at(i * 4)                                      # moved pointer; row[0], row[1] need no arithmetic
    byte = x.offset_bytes(4)                               # .view(type) changes the element type
    flag = k.pointer("flag", u32)
    flag[0]                                                # plain
    flag.load(0, order="acquire.gpu"); flag.store(0, [k.const(1, u32)], order="release.gpu")
    old = flag.atomic("add", 0, 1)                         # min max and or xor exch, cas with compare=

    # shared memory, barriers, warps
    tile = k.shared(f32, (32, 33))                         # tile[r, c] or tile[flat]
    big = k.dynamic_shared(f32, 1024)                      # Kernel.shared_nbytes is what the launch has to give
    tile[k.tid >> 5, k.tid & 31] = y
    k.barrier()                                            # k.barrier(number, count) is a named one
    k.fence("gpu")
    other = k.shfl_bfly(y, 16)                             # _up _down _idx; any type
    word = k.ballot(p)                                     # k.any, k.all, k.redux("add", v)
    total = warp_reduce(k, y, lambda a, b: a + b)          # fixed tree, every lane gets it
    total = block_reduce(k, y, lambda a, b: a + b)         # likewise over the block

    kernel = k.build()                                     # Kernel: ptx, params, param_format, block, shared_nbytes

The same with a signature for the parameters::

    @kernel(block=256)
    def axpy(k, x: In[f32], y: InOut[f32], a: f32, n: u32):
        with k.grid_stride(n) as i:
            y[i] = k.fma(a, x[i], y[i])

and on the emulator::

    memory = emulate.Memory()
    x, y = memory.allocate(4 * n), memory.allocate(4 * n)     # memory.write(x, array), memory.read(y, nbytes)
    emulate.run(axpy, memory, grid=4, param_bytes=struct.pack(axpy.param_format, x, y, 2.0, n))

Elementary functions are `oxinp._ptx.math`: ``math.exp(k, x)``.

Modules: `types`, `isa` (THE INSTRUCTION TABLE), `reference` (what instructions mean), `value`, `compound`, `complex`,
`builder`, `control`, `memory`, `warp`, `block`, `synchronize`, `cast`, `operations`, `tracer`, `kernel`, `signature`;
`async_copy`, `mma`, and for Hopper, on a GPU only, `mbarrier` (rings of buffers), `tma`, `tile`, `wgmma`; the
emulator is `emulate`, and inside `emulator`.
"""

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oxinp._ptx.block import reduce as block_reduce  # noqa: TC004 - see `_SOURCES`
    from oxinp._ptx.builder import Builder  # noqa: TC004
    from oxinp._ptx.kernel import Kernel  # noqa: TC004
    from oxinp._ptx.signature import In, InOut, Out, kernel  # noqa: TC004
    from oxinp._ptx.warp import reduce as warp_reduce  # noqa: TC004

__all__ = ["Builder", "In", "InOut", "Kernel", "Out", "block_reduce", "kernel", "warp_reduce"]

# Where each name is from. Imported when first used: who looks at types alone does not pay for the rest.
_SOURCES = {
    "Builder": ("builder", "Builder"),
    "In": ("signature", "In"),
    "InOut": ("signature", "InOut"),
    "Kernel": ("kernel", "Kernel"),
    "Out": ("signature", "Out"),
    "block_reduce": ("block", "reduce"),
    "warp_reduce": ("warp", "reduce"),
}


class _Language(ModuleType):
    """The package, whose `kernel` is the decorator whether the module of that name has been imported or not."""

    def __getattr__(self, name: str) -> Any:
        if name not in _SOURCES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module, source = _SOURCES[name]
        value = getattr(importlib.import_module(f"{__name__}.{module}"), source)
        setattr(self, name, value)
        return value

    @property
    def kernel(self) -> Any:
        """The decorator; see `oxinp._ptx.signature`."""
        return importlib.import_module(f"{__name__}.signature").kernel

    @kernel.setter
    def kernel(self, module: Any) -> None:
        """Take no notice of the import system, which enters the module here."""


sys.modules[__name__].__class__ = _Language
