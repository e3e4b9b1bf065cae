"""The steps of multishift QR iterations on a Hessenberg matrix in the device's memory: sweeps, and windows.

A sweep chases shifts through the active block, a window at a time, see `bulge_chase`; a window that the host has
transformed, such as that of an aggressive early deflation, takes the place of what was there. Both multiply what lies
outside, see `two_sided`.

Inputs are H and Z, numbers and what is told of rows; outputs new H and Z, of sweeps also the diagonal of H and what is
below it, a row each. Where eigenvalues alone are wanted, Z is one element.

`bounds` has eight numbers, int32: the first and the last row of the active block, how many bulges there are, the first
row and the last column that are transformed, the first row of a window, and how many it has.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from oxinp._kernels.lapack import bulge_chase, two_sided
from oxinp._kernels.lapack.bulge_chase import SPACING, ChaseSpec
from oxinp._kernels.lapack.two_sided import LANES, TwoSidedSpec
from oxinp._kernels.plan import Argument, Copy, Launch, Plan, Scratch, Work
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i64

if TYPE_CHECKING:
    from oxinp._kernels.choice import Limits
    from oxinp._kernels.plan import Step

BLOCK = 256
CHAINS = ((16, 48), (10, 34), (8, 24), (4, 12))  # bulges, and columns that they move, as shared memory allows
ACTIVE, FIXED, WINDOW = 0, 3 * 4, 5 * 4  # bytes into `bounds`


def chain(type: Type, limits: Limits) -> ChaseSpec:
    """Return how many bulges a device chases at a time, and how far."""
    for bulges, steps in CHAINS:
        spec = ChaseSpec(type, bulges, steps)
        if spec.shared_nbytes <= limits.max_shared_nbytes:
            return spec
    msg = "a device with less shared memory than any has"
    raise AssertionError(msg)


@cache
@retraceable
def make_band(type: Type) -> Kernel:
    """The kernel that writes the diagonal of a matrix, and what is below it, behind a zero."""
    k = Builder("hessenberg_band", block=BLOCK, target="sm_80")
    band, h = k.pointer("band", type, "w"), k.pointer("h", type, "r")
    order = k.scalar("order", i64)
    with k.grid_stride(order) as row:
        band[row] = h[row * order + row]
        below = k.var(k.const(0, type))
        with k.when(row > 0):
            below.set(h[row * order + row - 1])
        band[order + row] = below.get()
    return k.build()


def num_hops(rows: int, bulges: int, spec: ChaseSpec) -> int:
    """Return how many windows a sweep through an active block has."""
    return -(-(rows - 1 + SPACING * (bulges - 1)) // spec.steps)


def _multiply(spec: ChaseSpec, order: int, *, has_vectors: bool, **places: Argument) -> Launch:
    """Return the launch that multiplies what lies outside a window."""
    kernel = two_sided.make(TwoSidedSpec(spec.type, spec.size))
    tiles = -(-order // LANES)
    arguments = tuple(places[param.name] for param in kernel.params if param.is_pointer)
    parts = 3 if has_vectors else 2
    work = Work(nbytes=parts * order * spec.size * spec.type.nbytes)
    return Launch(kernel, (parts * tiles, 1, 1), arguments, (order, tiles), work)


def _copies(order: int, spec: ChaseSpec, *, has_vectors: bool) -> list[Step]:
    nbytes = order * order * spec.type.nbytes
    return [Copy(Argument(f"out{i}"), Argument(f"in{i}"), nbytes) for i in range(1 + has_vectors)]


def plan_sweep(order: int, hops: int, spec: ChaseSpec, *, has_vectors: bool) -> Plan:
    """Return the launches of a sweep: inputs are H, Z, shifts, (bulges, 2, 2) in real and imaginary parts, `bounds`."""
    scratch, (h, z, band), bounds = Scratch(), (Argument(f"out{i}") for i in range(3)), Argument("in3")
    u, span = scratch.take(spec.size * spec.size * spec.type.nbytes), scratch.take(2 * 4)
    steps = _copies(order, spec, has_vectors=has_vectors)
    chase = bulge_chase.make(spec)
    outside = _multiply(spec, order, has_vectors=has_vectors, h=h, z=z, u=u, span=span, bounds=bounds.at(FIXED))
    for hop in range(hops):
        steps += [Launch(chase, (1, 1, 1), (h, u, span, Argument("in2"), bounds), (order, hop)), outside]
    steps.append(Launch(make_band(spec.type), (-(-order // BLOCK), 1, 1), (band, h), (order,)))
    return scratch.plan(steps)


def plan_window(order: int, spec: ChaseSpec, *, has_vectors: bool) -> Plan:
    """Return the launches that put a window in its place: inputs are H, Z, U with the window behind, `bounds`."""
    (h, z), given, bounds = (Argument(f"out{i}") for i in range(2)), Argument("in2"), Argument("in3")
    window = given.at(spec.size * spec.size * spec.type.nbytes)
    span = bounds.at(WINDOW)
    steps = _copies(order, spec, has_vectors=has_vectors)
    steps.append(Launch(two_sided.make_window(spec.type, spec.size), (1, 1, 1), (h, window, span), (order,)))
    steps.append(_multiply(spec, order, has_vectors=has_vectors, h=h, z=z, u=given, span=span, bounds=bounds.at(FIXED)))
    return Plan(tuple(steps))


def plan_step(order: int, hops: int, spec: ChaseSpec, *, has_vectors: bool) -> Plan:
    """Return the launches of a sweep of some windows, or, of none, of what puts one in its place."""
    if hops:
        return plan_sweep(order, hops, spec, has_vectors=has_vectors)
    return plan_window(order, spec, has_vectors=has_vectors)


__all__ = ["chain", "make_band", "num_hops", "plan_step", "plan_sweep", "plan_window"]
