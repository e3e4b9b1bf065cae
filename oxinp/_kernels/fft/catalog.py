"""Which Specs of Fourier, cosine and sine transforms ship: those that planning chooses for representative problems.

See `oxinp._kernels.catalog`.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp._kernels.fft import bluestein, chirp, kernel, pairs, slabs
from oxinp._kernels.fft.axes import COMPLEX, HALF, REAL, Array, Problem, plan_axes
from oxinp._kernels.fft.bluestein import TablesSpec
from oxinp._kernels.fft.chirp import ChirpSpec
from oxinp._kernels.fft.codelets import multiply
from oxinp._kernels.fft.cosine_plan import plan_cosine
from oxinp._kernels.fft.filters import Filter, plan_filter
from oxinp._kernels.fft.pairs import PairsSpec
from oxinp._kernels.fft.sides import Chained
from oxinp._kernels.fft.slabs import SlabsSpec
from oxinp._kernels.fft.spec import TRIGONOMETRIC, TransformSpec
from oxinp._kernels.plan import Argument, Launch
from oxinp._kernels.problem import Instr
from oxinp._ptx.kernel import traced_with
from oxinp._ptx.types import c64, c128

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oxinp._kernels.choice import Choice, Device
    from oxinp._kernels.plan import Plan
    from oxinp._ptx import Builder
    from oxinp._ptx.types import Type
    from oxinp._ptx.value import Value

FAMILIES: dict[type, Any] = {
    TransformSpec: kernel,
    TablesSpec: bluestein,
    PairsSpec: pairs,
    ChirpSpec: chirp,
    SlabsSpec: slabs,
}

TYPES = (c64, c128)
# Kind, shape and axes of what is transformed.
PROBLEMS: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...] = (
    *((COMPLEX, (1 << 24,), (0,)), (COMPLEX, (1 << 26,), (0,)), (COMPLEX, (8192, 8192), (0, 1))),
    *((COMPLEX, (1000, n), (1,)) for n in (13, 16, 31, 64, 100, 360, 1024, 4095, 4096, 6561, 8192, 10000)),
    *((COMPLEX, (1000, n), (1,)) for n in (31, 37, 61, 101, 113, 1009, 4099, 10007)),
    *((COMPLEX, (101, 1000), (0,)), (REAL, (1000, 61), (1,)), (REAL, (1000, 241), (1,)), (HALF, (1000, 97), (1,))),
    *((COMPLEX, (1000, n), (1,)) for n in (592, 1961, 37 * 32768)),
    *((COMPLEX, (1961, 1000), (0,)), (REAL, (1000, 999), (1,))),
    *((COMPLEX, (n, 1000), (0,)) for n in (16, 31, 512, 1000, 1009)),
    *((kind, (1000, n), (1,)) for kind in (REAL, HALF) for n in (20, 99, 2048, 3375, 4098)),
    *((kind, (675, 1000), (0,)) for kind in (REAL, HALF)),
    *((kind, (1 << 25,), (0,)) for kind in (REAL, HALF)),
)
# Of those that are fused with a product before, or with squares of absolute values after.
FUSED: tuple[tuple[str, tuple[int, ...], int], ...] = (
    *((COMPLEX, (1 << 24,), 0), (COMPLEX, (1000, 4096), 1), (COMPLEX, (1000, 64), 1), (COMPLEX, (1000, 9), 1)),
    (COMPLEX, (1000, 61), 1),
    *((COMPLEX, (1000, 1009), 1), (COMPLEX, (512, 1000), 0), (REAL, (1000, 4096), 1), (HALF, (1000, 4096), 1)),
)
# Of those that are fused with a product, and with the transform back.
FILTERED: tuple[tuple[str, tuple[int, ...], int], ...] = (
    *((COMPLEX, (1 << 26,), 0), (COMPLEX, (1 << 20,), 0), (COMPLEX, (1000, 4096), 1), (COMPLEX, (1000, 1000), 1)),
    *((COMPLEX, (512, 1000), 0), (COMPLEX, (16, 1000), 0)),
    *((REAL, (1000, 4096), 1), (REAL, (1000, 2000), 1), (REAL, (1000, 100), 1), (REAL, (1000, 1000), 0)),
)
LONG = 1 << 25  # of real sequences whose pairs are apart: fused with what is on the complex side
# Types, lengths and axes of cosine and sine transforms.
COSINES = ((c64, 60, 1), (c64, 8192, 0), (c64, 8192, 1), (c128, 60, 1), (c128, 4096, 0))


def _steps(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def _arrays(type_: Type, kind: str, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Source and target."""
    half, real = (*shape[:-1], shape[-1] // 2 + 1), type_.parts[0]
    given, made = half if kind == HALF else shape, half if kind == REAL else shape
    return (
        Array(Argument("in0"), real if kind == REAL else type_, given, _steps(given), 256),
        Array(Argument("out0"), real if kind == HALF else type_, made, _steps(made), 256),
    )


def _product(k: Builder, a: Value, b: Value) -> Value:
    if not a.type.is_complex:
        return a * b
    product: Value = k.compound(a.type, *multiply(k, a.parts, b.parts))  # type: ignore[arg-type]
    return product


def _power(k: Builder, a: Value) -> Value:
    if not a.type.is_complex:
        return a * a
    real, imag = a.parts
    power: Value = k.fma(real, real, imag * imag)
    return power


def _before(source: Array, axis: int) -> Array:
    """The source times an array along the axis."""
    chain = Chained(
        (source.type, source.type),
        (Argument("in0"), Argument("in1")),
        (True, True),
        (Instr(_product, source.type, (0, 1)),),
        2,
        source.type,
    )
    along = tuple(int(i == axis) for i in range(len(source.shape)))
    return source._replace(chain=chain, others=(source.steps, along))


def _after(target: Array, real: Type) -> Array:
    """The squares of results."""
    return target._replace(chain=Chained((), (), (), (Instr(_power, real, (0,)),), 1, real))


class _Older(NamedTuple):
    """A device as another one, but for clusters."""

    num_sms: int
    max_shared_nbytes: int
    cc: tuple[int, int] = (8, 0)

    def tuned(self, choice: Choice, /) -> None:
        """Nothing was measured."""


def _plans(device: Device) -> Iterator[Plan | None]:
    older = _Older(device.num_sms, device.max_shared_nbytes)
    for each, type_, (kind, shape, axes) in itertools.product((device, older), TYPES, PROBLEMS):
        source, target = _arrays(type_, kind, shape)
        yield plan_axes(source, target, type_, Problem(kind, axes, shape[axes[-1]]), each)
    for type_, n in itertools.product(TYPES, (16, 60, 4096, 1 << 20)):
        source, target = _arrays(type_, COMPLEX, (1000, n))
        yield plan_axes(source, target, type_, Problem(COMPLEX, (1,), n, rotated=(1,)), device)
        yield plan_axes(source, target, type_, Problem(COMPLEX, (1,), n, given_rotated=(1,)), device)
    for type_, (kind, shape, axis) in itertools.product(TYPES, FUSED):
        source, target = _arrays(type_, kind, shape)
        problem = Problem(kind, (axis,), shape[axis])
        yield plan_axes(_before(source, axis), target, type_, problem, device)
        yield plan_axes(source, _after(target, type_.parts[0]), type_, problem, device)
    for type_, (kind, shape, axis) in itertools.product(TYPES, FILTERED):
        source, _ = _arrays(type_, kind, shape)
        target = source._replace(buffer=Argument("out0"))
        chain = Chained((type_,), (Argument("in1"),), (True,), (Instr(_product, type_, (0, 1)),), 2, type_)
        kinds = ((kind, True), (HALF if kind == REAL else COMPLEX, False))
        there, back = (Problem(each, (axis,), shape[axis], is_forward) for each, is_forward in kinds)
        half = tuple(n // 2 + 1 if kind == REAL and i == axis else n for i, n in enumerate(shape))
        wanted = Filter(there, back, chain, (_steps(half),))
        yield plan_filter(source, target, type_, wanted, device)
    for type_, kind in itertools.product(TYPES, (REAL, HALF)):
        source, target = _arrays(type_, kind, (LONG,))
        ends = (source, _after(target, type_.parts[0])) if kind == REAL else (_before(source, 0), target)
        yield plan_axes(*ends, type_, Problem(kind, (0,), LONG), device)
    for part, (type_, n, axis) in itertools.product(TRIGONOMETRIC, COSINES):
        shape = (n, 1000) if axis == 0 else (1000, n)
        source = Array(Argument("in0"), type_.parts[0], shape, _steps(shape), 256)
        yield plan_cosine(source, source._replace(buffer=Argument("out0")), type_, part, axis, (1.0, 1.0), device)


def specs(device: Device) -> list[Any]:
    """Return all shipped Specs."""
    found: dict[Any, None] = {}
    for plan in _plans(device):
        assert plan is not None
        for step in plan.steps:
            assert isinstance(step, Launch)
            (spec,) = traced_with(step.kernel)
            found[spec] = None
    return list(found)


__all__ = ["FAMILIES", "specs"]
