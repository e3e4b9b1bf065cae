"""Products of 128 bits, against Python's integers."""

import numpy as np

from oxinp._ptx import Builder
from oxinp._ptx.types import u32, u64
from oxinp._ptx.wide import multiply_add_128
from tests.kernels.assembled import check_assembled
from tests.ptx.launch import launch

MASK = (1 << 64) - 1
KNOWN = 0xFFFFFFFF_00000001_FFFFFFFE_80000000


def kernel():
    k = Builder("product", block=32)
    out, a, b, c = (k.pointer(name, u64, access) for name, access in (("out", "w"), ("a", "r"), ("b", "r"), ("c", "r")))
    words = [pointer.load(k.tid * 2, 2) for pointer in (a, b, c)]
    product = multiply_add_128(k, words[0], (*k.unpack(words[1][0]), *k.unpack(words[1][1])), words[2])
    limbs = tuple(KNOWN >> shift & 0xFFFFFFFF for shift in (0, 32, 64, 96))
    out.store(k.tid * 2, multiply_add_128(k, product, limbs, (k.cast(k.const(7, u32), u64), k.const(0, u64))))
    return k.build()


def test_products_are_pythons():
    rng = np.random.default_rng(3)
    edges = np.array([0, 1, MASK, 1 << 63, (1 << 32) - 1, 1 << 32], np.uint64)
    a, b, c = (rng.choice(np.append(edges, rng.integers(0, MASK, 6, np.uint64)), 64) for _ in "abc")
    out = np.zeros(64, np.uint64)
    launch(kernel(), out, a, b, c)
    for i in range(0, 64, 2):
        x, y, z = (int(words[i]) | int(words[i + 1]) << 64 for words in (a, b, c))
        expected = ((x * y + z) * KNOWN + 7) % (1 << 128)
        assert int(out[i]) | int(out[i + 1]) << 64 == expected


def test_ptxas_takes_them():
    check_assembled([kernel()])
