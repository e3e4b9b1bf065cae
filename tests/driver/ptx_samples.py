"""Kernels in PTX for tests of the driver layer, and what to launch them with."""

from oxinp._driver.launch import Launcher
from oxinp._driver.module import Module

HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"

# counts[i] += 1 by every thread, i its number in the grid: blocks along x first, threads of a block along x first.
COUNT = """
.visible .entry count(.param .u64 counts)
{
    .reg .b32 %r<24>;
    .reg .b64 %d<4>;
    ld.param.u64 %d1, [counts];
    mov.u32 %r1, %ctaid.z;
    mov.u32 %r2, %nctaid.y;
    mov.u32 %r3, %ctaid.y;
    mad.lo.u32 %r4, %r1, %r2, %r3;
    mov.u32 %r5, %nctaid.x;
    mov.u32 %r6, %ctaid.x;
    mad.lo.u32 %r7, %r4, %r5, %r6;
    mov.u32 %r8, %tid.z;
    mov.u32 %r9, %ntid.y;
    mov.u32 %r10, %tid.y;
    mad.lo.u32 %r11, %r8, %r9, %r10;
    mov.u32 %r12, %ntid.x;
    mov.u32 %r13, %tid.x;
    mad.lo.u32 %r14, %r11, %r12, %r13;
    mov.u32 %r15, %ntid.z;
    mul.lo.u32 %r16, %r9, %r12;
    mul.lo.u32 %r17, %r16, %r15;
    mad.lo.u32 %r18, %r7, %r17, %r14;
    mul.wide.u32 %d2, %r18, 4;
    add.u64 %d3, %d1, %d2;
    atom.global.add.u32 %r19, [%d3], 1;
    ret;
}
"""

# counter[0] += amount by every thread.
ADD = """
.visible .entry add(.param .u64 counter, .param .u32 amount)
{
    .reg .b32 %r<3>;
    .reg .b64 %d<2>;
    ld.param.u64 %d1, [counter];
    ld.param.u32 %r1, [amount];
    atom.global.add.u32 %r2, [%d1], %r1;
    ret;
}
"""

# out[i] = a[i] + b[i] for i < n.
VADD = """
.visible .entry vadd(.param .u64 out, .param .u64 a, .param .u64 b, .param .u32 n)
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
    mad.lo.u32 %r2, %r2, %r3, %r4;
    setp.ge.u32 %p, %r2, %r1;
    @%p bra DONE;
    mul.wide.u32 %d4, %r2, 4;
    add.u64 %d5, %d2, %d4;
    add.u64 %d6, %d3, %d4;
    add.u64 %d7, %d1, %d4;
    ld.global.f32 %f1, [%d5];
    ld.global.f32 %f2, [%d6];
    add.rn.f32 %f3, %f1, %f2;
    st.global.f32 [%d7], %f3;
DONE:
    ret;
}
"""

# Keeps a multiprocessor busy for so many of its cycles.
SPIN = """
.visible .entry spin(.param .u64 cycles)
{
    .reg .pred %p;
    .reg .b64 %d<5>;
    ld.param.u64 %d1, [cycles];
    mov.u64 %d2, %clock64;
AGAIN:
    mov.u64 %d3, %clock64;
    sub.u64 %d4, %d3, %d2;
    setp.lt.u64 %p, %d4, %d1;
    @%p bra AGAIN;
    ret;
}
"""

# Writes where it is told.
POKE = """
.visible .entry poke(.param .u64 where)
{
    .reg .b32 %r1;
    .reg .b64 %d1;
    ld.param.u64 %d1, [where];
    mov.u32 %r1, 1;
    st.global.u32 [%d1], %r1;
    ret;
}
"""

# Ends with a trap, as a failed assertion of a kernel does.
TRAP = """
.visible .entry trap(.param .u64 unused)
{
    trap;
    ret;
}
"""

# All blocks meet at a counter: hangs unless all run at once. counter[1] is how many left the meeting.
MEET = """
.visible .entry meet(.param .u64 counter, .param .u32 num_blocks)
{
    .reg .pred %p;
    .reg .b32 %r<5>;
    .reg .b64 %d1;
    ld.param.u64 %d1, [counter];
    ld.param.u32 %r1, [num_blocks];
    atom.global.add.u32 %r2, [%d1], 1;
WAIT:
    ld.volatile.global.u32 %r3, [%d1];
    setp.lt.u32 %p, %r3, %r1;
    @%p bra WAIT;
    atom.global.add.u32 %r4, [%d1+4], 1;
    ret;
}
"""

# Waits for the kernel before it, where it was launched before that one's end, and doubles value[0].
FOLLOW = """
.visible .entry follow(.param .u64 value)
{
    .reg .b32 %r<3>;
    .reg .b64 %d1;
    griddepcontrol.wait;
    ld.param.u64 %d1, [value];
    ld.volatile.global.u32 %r1, [%d1];
    add.u32 %r2, %r1, %r1;
    st.volatile.global.u32 [%d1], %r2;
    ret;
}
"""

PTX = HEADER + COUNT + ADD + VADD + SPIN + POKE + TRAP + MEET
HOPPER_PTX = HEADER.replace("sm_80", "sm_90") + FOLLOW

# struct formats of the parameters.
FORMATS = {
    "count": "<Q",
    "add": "<QI",
    "vadd": "<QQQI",
    "spin": "<Q",
    "poke": "<Q",
    "trap": "<Q",
    "meet": "<QI",
    "follow": "<Q",
}


def load(context, name):
    """Return one of the kernels, loaded."""
    return Module.from_ptx(context, HOPPER_PTX if name == "follow" else PTX).function(name)


def make_launcher(context, name, grid=(1, 1, 1), block=(1, 1, 1), **options):
    """Return a launcher of one of the kernels, which takes all its parameters at each launch."""
    param_format = FORMATS[name]
    return Launcher(load(context, name), grid, block, 0, param_format, len(param_format) - 1, (), **options)
