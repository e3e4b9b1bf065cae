"""Low-discrepancy points: Sobol' and Halton, as SciPy has them.

Data layout: points are rows of a matrix of f64 without gaps, in C order Sobol' points, in Fortran order Halton points.
Who owns what: of Sobol' points, a thread has one coordinate of every point whose number is its own plus multiples of a
power of two, so that neighbours in a row are neighbours in a warp; going on by that power changes two bits of the Gray
code, each a direction number that all threads of a point share. Of Halton points, a thread has elements that are as
many apart as there are threads. Bytes per element: itself, once. Work per element: about 12 instructions for Sobol',
30 per digit for Halton.

Source: S. Joe, F. Kuo, "Constructing Sobol sequences with better two-dimensional projections" (2008); A. Owen, "A
randomized Halton algorithm in R" (2017); SciPy's stats/_qmc_cy.pyx and _sobol.pyx.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.plan import Launch, Plan, inputs, outputs
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import f64, i64, u32, u64

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device

BLOCK = 256
THREADS_PER_SM = 2048


class SobolSpec(Frozen):
    """The kernel of Sobol' points.

    Attributes
    ----------
    is_wide : bool
        Direction numbers have 64 bits; else 32.
    """

    is_wide: bool


class HaltonSpec(Frozen):
    """The kernel of Halton points.

    Attributes
    ----------
    is_scrambled : bool
        Digits are permuted.
    """

    is_scrambled: bool


def sobol_plan(num_points: int, dimension: int, device: Device, *, is_wide: bool) -> Plan:
    """Return the plan of points.

    The inputs are direction numbers, a row of `dimension` for each bit, the shift of each coordinate, the number of the
    first point as i64 and the scale as f64. The numbers of points have to be below ``2**32``.
    """
    wanted = -(-THREADS_PER_SM * device.num_sms // dimension)
    log_step = max(1, min(wanted, num_points).bit_length() - 1)
    blocks = -(-(dimension << log_step) // BLOCK)
    kernel = make(SobolSpec(is_wide))
    return Plan((Launch(kernel, (blocks, 1, 1), (*outputs(1), *inputs(4)), (num_points, dimension, log_step)),))


def halton_plan(num_points: int, dimension: int, device: Device, *, num_digits: int, is_scrambled: bool) -> Plan:
    """Return the plan of points.

    The inputs are the bases; weights of digits, `num_digits` for each; if scrambled, where the permutations of each
    coordinate begin, and these as u32; the number of the first point as i64. A weight of 0 ends the digits. The numbers
    of points have to be below ``2**32``.
    """
    size = num_points * dimension
    blocks = min(-(-size // BLOCK), device.num_sms * (THREADS_PER_SM // BLOCK))
    arguments = (*outputs(1), *inputs(3 + 2 * is_scrambled))
    kernel = make(HaltonSpec(is_scrambled))
    return Plan((Launch(kernel, (blocks, 1, 1), arguments, (size, num_points, num_digits)),))


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: SobolSpec | HaltonSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return _sobol(spec) if isinstance(spec, SobolSpec) else _halton(spec)


def _sobol(spec: SobolSpec) -> Kernel:
    k = Builder("sobol", block=BLOCK)
    word = u64 if spec.is_wide else u32
    out = k.pointer("out", f64, "w")
    directions, shifts = k.pointer("directions", word, "r"), k.pointer("shifts", word, "r")
    start, scale = k.scalar("start", i64), k.scalar("scale", f64)
    num_points, dimension, log_step = k.scalar("num_points", i64), k.scalar("dimension", u32), k.scalar("log_step", u32)
    thread = k.ctaid * BLOCK + k.tid
    own, coordinate = thread / dimension, thread % dimension
    column = directions.at(coordinate)
    end = start + num_points
    with k.when((own >> log_step) == 0):
        turn = k.var(k.cast(start, u32) >> log_step)
        point = k.var(k.cast((turn << log_step) | own, i64))
        number = k.cast(point.get(), u32)
        gray = k.var(number ^ (number >> 1))
        value = k.var(shifts[coordinate])
        with k.loop():
            k.break_if(gray == 0)
            bit = k.bfind(gray)
            value.set(value ^ column[bit * dimension])
            gray.set(gray ^ (k.const(1, u32) << bit))
        always = column[(log_step - 1) * dimension]
        with k.loop():
            k.break_if(point >= end)
            with k.when(point >= start):
                out[(point - start) * k.cast(dimension, i64) + k.cast(coordinate, i64)] = k.cvt(value, f64) * scale
            point.set(point + (k.const(1, i64) << log_step))
            k.break_if(point >= end)
            turn.set(turn + 1)
            lowest = k.bfind(turn & (k.const(0, u32) - turn))
            value.set(value ^ always ^ column[(log_step + lowest) * dimension])
    return k.build()


def _halton(spec: HaltonSpec) -> Kernel:
    k = Builder("halton", block=BLOCK)
    out = k.pointer("out", f64, "w")
    bases, weights = k.pointer("bases", u32, "r"), k.pointer("weights", f64, "r")
    if spec.is_scrambled:
        begins, permutations = k.pointer("begins", u32, "r"), k.pointer("permutations", u32, "r")
    start, size = k.scalar("start", i64), k.scalar("size", i64)
    num_points, num_digits = k.scalar("num_points", i64), k.scalar("num_digits", u32)
    with k.grid_stride(size) as element:
        place = element / num_points
        point, coordinate = element - place * num_points, k.cast(place, u32)
        base = bases[coordinate]
        rest, total = k.var(k.cast(start + point, u32)), k.var(0.0, f64)
        own = weights.at(coordinate * num_digits)
        if spec.is_scrambled:
            permuted = k.var(begins[coordinate])
        with k.range(k.const(0, u32), num_digits) as number:
            if not spec.is_scrambled:
                k.break_if(rest == 0)  # what follows is nothing
            weight = own[number]
            k.break_if(weight == 0.0)
            following = rest / base
            digit = rest - following * base
            if spec.is_scrambled:
                digit = permutations[permuted + digit]
                permuted.set(permuted + base)
            total.set(total + k.cvt(digit, f64) * weight)
            rest.set(following)
        out[element] = total
    return k.build()


__all__ = ["HaltonSpec", "SobolSpec", "halton_plan", "make", "sobol_plan"]
