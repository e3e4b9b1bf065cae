"""The sum of two vectors by a kernel of one's own, twice: in PTX, and in the kernel language.

The PTX needs a GPU; the kernel of the language runs on the emulator where there is none.

    python examples/cuda/vector_add.py --size 10000000
"""

import argparse

import oxinp as np
from oxinp.cuda.kernel import In, Out, f32, jit, u32

PTX = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 out, .param .u64 a, .param .u64 b, .param .u32 n)
{
    .reg .pred %p;
    .reg .b32 %r<5>;
    .reg .b64 %d<8>;
    .reg .f32 %f<4>;
    ld.param.u64 %d1, [out];
    ld.param.u64 %d2, [a];
    ld.param.u64 %d3, [b];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r2, %r2, %r3, %r4;      // i, the number of the thread
    setp.ge.u32 %p, %r2, %r1;
    @%p ret;
    mul.wide.u32 %d4, %r2, 4;
    add.u64 %d5, %d2, %d4;
    add.u64 %d6, %d3, %d4;
    add.u64 %d7, %d1, %d4;
    ld.global.f32 %f1, [%d5];
    ld.global.f32 %f2, [%d6];
    add.rn.f32 %f3, %f1, %f2;
    st.global.f32 [%d7], %f3;           // out[i] = a[i] + b[i]
    ret;
}
"""


@jit(block=256)
def add(k, out: Out[f32], a: In[f32], b: In[f32], n: u32):
    """Write out[i] = a[i] + b[i]."""
    with k.grid_stride(n) as i:
        out[i] = a[i] + b[i]


def main():
    """Add, and compare with what `+` gives."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--size", type=int, default=1_000_000)
    size = parser.parse_args().size
    if not np.cuda.is_available():
        np.config.backend = "emulator"
    a, b = np.arange(size, dtype="f4"), np.linspace(0, 1, size, dtype="f4")

    out = np.empty(size, "f4")
    add[132](out, a, b, size)
    print("language:", "exact" if (out == a + b).all() else "WRONG")

    if np.cuda.is_available():
        out = np.empty(size, "f4")
        in_ptx = np.cuda.RawKernel(PTX)
        in_ptx(grid=-(-size // 256), block=256, args=(out, a, b, size))
        print("PTX:", "exact" if (out == a + b).all() else "WRONG")
        print(f"{in_ptx} uses {in_ptx.attribute('num_registers')} registers")
    else:
        print("PTX: needs a GPU")


if __name__ == "__main__":
    main()
