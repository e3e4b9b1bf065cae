"""Products of other extents than one that has been planned: which kernel computes them, where it has been made.

A product is planned by `select` once. What is chosen for those that lie alike, by the very same measurements and
models, depends on extents alone, and their launches are arithmetic. So a loop over ever new sizes plans one product.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._kernels.choice import nominal
from oxinp._kernels.gemm.fp16x2 import plan as fp16x2
from oxinp._kernels.gemm.multistage import kernel as multistage
from oxinp._kernels.gemm.multistage.choose import config_of, configured, multistage_spec
from oxinp._kernels.gemm.operand import Matrices, both_majors, sources, widest_copy
from oxinp._kernels.gemm.ozaki import plan as ozaki
from oxinp._kernels.gemm.sm90_mma import plan as sm90_mma
from oxinp._ptx.types import Type, c64, c128, f32, f64

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._kernels.choice import Device
    from oxinp._kernels.plan import Resized

_EMULATED = {f64: ozaki.MIN_EXTENT, c128: ozaki.MIN_EXTENT, f32: fp16x2.MIN_EXTENT, c64: fp16x2.MIN_EXTENT}
"""Extents from which `select` asks whether a product is to be emulated, of real numbers for f32 and c64."""


class Nearby:
    """How products are launched that lie like one of two matrices, and the rows of whose results end alike.

    Parameters
    ----------
    shape, depth, a, b, acc, out, device
        Of that product, as for `select.plan`.
    setting : str
        ``config.matmul``.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        depth: int,
        a: Matrices,
        b: Matrices,
        acc: Type,
        out: Type,
        device: Device,
        setting: str,
    ) -> None:
        self.depth, self.device, self.types = depth, device, (a.type, acc, out)
        (a_major, a_stride), (b_major, b_stride) = both_majors(shape, depth, a, b)
        self.majors, self.strides = (a_major, b_major), (a_stride, b_stride)
        self.copies = widest_copy(a, (a_stride,)), widest_copy(b, (b_stride,))
        self.emulated = _EMULATED[a.type] // (len(a.type.parts) if a.type is c64 else 1)
        seen = sources(shape, depth, a, b)[0]
        ways = (False,) if setting == "native" or a.type in (f64, c128) else (True, False)
        found = [sm90_mma.problem(*seen, device, in_bf16x3=in_bf16x3) for in_bf16x3 in ways]
        self.problems = [problem for problem in found if problem is not None]
        self.is_native = setting == "native"

    @staticmethod
    def serves(a: Type, b: Type, setting: str) -> bool:
        """Whether products of these types are found by it."""
        return a is b and a in _EMULATED and not (a is f32 and setting == "tf32")

    def __call__(self, m: int, n: int) -> Callable[[int, int], Resized] | None:
        """Return how products that are nominally of these extents are launched; None where one has to be planned."""
        nominally = nominal(m), nominal(n)
        if not self.is_native and min(*nominally, self.depth) >= self.emulated:
            return None
        for problem in self.problems:
            config = problem.nominal(m, 2 * n if problem.is_complex else n).decided()
            if config is not None:
                return None if problem.is_complex else problem.resized(config)
        spec = multistage_spec(*self.types, self.majors, self.copies, (1, m, n, self.depth), self.device)
        chosen = config_of(spec, (1, *nominally, self.depth), self.device)
        if chosen.split_k > 1:
            return None
        made = configured(spec, chosen, self.types[2], 0)
        return multistage.RESIZED.get((made, self.depth, *self.strides))


__all__ = ["Nearby"]
