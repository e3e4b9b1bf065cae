"""Fourier transforms: what `numpy.fft` and `scipy.fft` compute, as one operation."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from oxinp._config import config
from oxinp._core.errors.frames import call_as_user
from oxinp._core.lazy.building import attempt
from oxinp._core.lazy.calls import Pending
from oxinp._core.lazy.chains import arrays, input_types, inputs, instructions, operand
from oxinp._core.lazy.expr import Graph, Unsupported
from oxinp._core.lazy.handle import Handle
from oxinp._core.lazy.op import SPARE, BoundOp, Op
from oxinp._core.lazy.placement import device, takes_to_host
from oxinp._core.lazy.results import wrap_host, wrap_pending, wrap_result
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.memory.layout import Layout
from oxinp._core.ops.fft_request import COMPLEX, Request, Resolved, resolve, result_dtype, scale_of, unscaled
from oxinp._core.ops.overwriting import bind_overwriting, defer_like, perform_overwriting
from oxinp._core.ops.perform import perform_on_device
from oxinp._kernels.plan import Argument, Launch, Plan, Scratch
from oxinp._kernels.plan import inputs as plan_inputs
from oxinp._kernels.problem import Operand

FEWEST = 1 << 30  # bytes of operand and result from which on it is asked whether memory holds them
HOST_SHARE = 4.0  # times as many bytes are the host's as of other operations
SPARE_PARTS = 16  # of transforms whose workspace has no room at once
MAX_OPERANDS, MAX_INSTRS = 3, 12  # of a chain in the kernel of a transform, whose registers it shares


def _resolved(layout: Layout, parameters: Any) -> Resolved:
    return resolve(Request(*parameters), layout.shape, layout.dtype)


def _infer(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:
    found = _resolved(layouts[0], parameters)
    return (Layout.of(found.dtype, found.shape),)


def array_of(name: str, layout: Layout) -> Any:
    """An array as the planner takes it."""
    axes = importlib.import_module("oxinp._kernels.fft.axes")
    type_, steps = DEVICE_TYPES[layout.dtype], layout.element_strides
    return axes.Array(Argument(name), type_, layout.shape, steps, layout.alignment)


def chained(graph: Graph, place: int | None, first: int) -> Any:
    """A graph as what runs in the kernel of a transform; None where it does not.

    Parameters
    ----------
    graph : Graph
    place : int or None
        Its leaf that is the transform's result; None of a graph before the transform.
    first : int
        Number of the input that is its first leaf, of those that are none.
    """
    operands = inputs(graph)
    others = [x for i, x in enumerate(operands) if i != place]
    are_arrays = tuple([isinstance(x, Operand) for x in others])
    instrs = instructions(graph)
    if sum(are_arrays) > MAX_OPERANDS or len(instrs) > MAX_INSTRS or any(instr.wants_index for instr in instrs):
        return None
    result = graph.result
    if place is not None:
        # The transform's result is number 0.
        numbers = [*range(1, place + 1), 0, *range(place + 1, len(operands) + len(instrs))]
        instrs = tuple([instr.replace(args=tuple([numbers[a] for a in instr.args])) for instr in instrs])
        result = numbers[result]
    types = tuple([x.type for x in others])
    module = importlib.import_module("oxinp._kernels.fft.sides")
    arguments = plan_inputs(len(others), first)
    return module.Chained(types, arguments, are_arrays, instrs, result, DEVICE_TYPES[graph.dtype])


def strides_of(graph: Graph, place: int | None) -> tuple[tuple[int, ...], ...]:
    """Of a graph's arrays, without its leaf at a place."""
    return tuple([x.strides for i, x in enumerate(inputs(graph)) if i != place and isinstance(x, Operand)])


def reading(graph: Graph) -> Any:
    """The source of a transform that computes a graph on the way; None where its kernel cannot."""
    chain, strides = chained(graph, None, 0), strides_of(graph, None)
    if chain is None or not strides:
        return None
    largest = max(strides, key=lambda own: math.prod(n for n, step in zip(graph.shape, own, strict=True) if step))
    source = array_of("in0", graph.layout)
    return source._replace(type=chain.made, steps=largest, alignment=1, chain=chain, others=strides)


class _Compiling:
    """Compiles new kernels into the cache on disk, from which they are loaded then, while others are traced."""

    def __init__(self, loader: Any, pool: ThreadPoolExecutor) -> None:
        self.loader, self.pool = loader, pool
        self.kernels: dict[Any, Future[None] | None] = {}

    def trace(self, make: Callable[[], Any]) -> Any:
        """Trace a kernel, while the one before it compiles; a single one is compiled where it is loaded."""
        self.begin()
        kernel = make()
        self.kernels.setdefault(kernel, None)
        return kernel

    def begin(self) -> None:
        """Compile those that wait."""
        for kernel, future in self.kernels.items():
            self.kernels[kernel] = future or self.pool.submit(self.loader.compile, kernel)

    def end(self, plan: Plan) -> None:
        """Wait for all of a plan; those that were traced before and are not loaded are among them."""
        steps = [step.kernel for step in plan.steps if isinstance(step, Launch)]
        self.kernels |= dict.fromkeys(k for k in steps if k not in self.kernels and not self.loader.is_loaded(k))
        if len(self.kernels) > 1:
            self.begin()
        for future in self.kernels.values():
            if future is not None:
                future.result()


def compiled(make: Callable[[], Plan | None]) -> Plan | None:
    """Return what makes a plan makes; its new kernels, if there are several, are compiled side by side meanwhile."""
    loader = getattr(device(), "loader", None)
    if loader is None or not config.cache_dir:
        return make()
    traced = importlib.import_module("oxinp._kernels.fft.traced")
    with ThreadPoolExecutor() as pool:
        compiling = _Compiling(loader, pool)
        with traced.tracing(compiling.trace):
            plan = make()
        if plan is not None:
            compiling.end(plan)
    return plan


def _planned(bound: BoundOp, source: Any, target: Any, num_parts: int = 1) -> Plan | None:
    """The plan from a source to a target; None where no kernel takes their chains."""
    axes = importlib.import_module("oxinp._kernels.fft.axes")
    request = Request(*bound.parameters)
    found = _resolved(bound.graphs[0].layout, bound.parameters)
    computed = np.result_type(found.dtype, np.complex64)
    kind, is_forward = request.kind
    scale = scale_of(request, found.lengths, bound.graphs[0].dtype)
    problem = axes.Problem(kind, found.axes, found.lengths[-1], is_forward, scale)
    problem = problem._replace(rotated=request.rotated, given_rotated=request.given_rotated)
    given = source, target, DEVICE_TYPES[computed], problem, device().capability, num_parts
    return compiled(lambda: axes.plan_axes(*given))


def _plan(bound: BoundOp, num_parts: int = 1) -> Plan:
    (graph,), target = bound.graphs, array_of("out0", bound.layouts[0])
    if not graph.nodes:
        plan = _planned(bound, array_of("in0", graph.layout), target, num_parts)
        assert plan is not None
        return plan
    source = reading(graph)
    plan = None if source is None else _planned(bound, source, target, num_parts)
    return plan or _plan_apart(bound, graph, target)


def _plan_variant(bound: BoundOp, variant: Any) -> Plan:
    assert variant == SPARE
    return _plan(bound, SPARE_PARTS)


def _plan_apart(bound: BoundOp, graph: Graph, target: Any) -> Plan:
    """The plan that computes the chain before the transform, into the workspace."""
    module = importlib.import_module("oxinp._kernels.elementwise.plan")
    type_, scratch, between = DEVICE_TYPES[graph.dtype], Scratch(), Layout.of(graph.dtype, graph.shape)
    chain = module.Elementwise(input_types(graph.structure), instructions(graph), [(graph.result, type_)])
    before = chain.plan(graph.shape, [operand(between), *arrays(graph)], device().capability)
    place = scratch.take(between.nbytes)
    plan = _planned(bound, array_of("in0", between), target)
    assert plan is not None
    rest = scratch.take(plan.scratch_nbytes)
    return scratch.plan((*before.on(out0=place), *plan.on(in0=place, scratch=rest)))


def _fuse(bound: BoundOp, graph: Graph, place: int) -> Plan | None:
    """The plan of the transform and of what a graph makes of its result."""
    (given,) = bound.graphs
    source = reading(given) if given.nodes else array_of("in0", given.layout)
    chain = chained(graph, place, len(given.leaves))
    if source is None or chain is None or not graph.layout.is_contiguous:
        return None
    return _planned(
        bound,
        source,
        array_of("out0", bound.layouts[0])._replace(
            steps=graph.layout.element_strides,
            alignment=graph.layout.alignment,
            chain=chain,
            others=strides_of(graph, place),
        ),
    )


def _on_host(x: Any, *parameters: Any) -> Any:
    return Request(*parameters).on_host(x)


def _cost(layouts: tuple[Layout, ...], parameters: Any) -> float:
    return _cost_of(layouts[0].nbytes, _resolved(layouts[0], parameters))


def _cost_of(nbytes: int, found: Resolved) -> float:
    """What compares to other operations' bytes: 2^14 c64, 128 KB there and back, take SciPy less than the bus."""
    return max(nbytes, math.prod(found.shape) * found.dtype.itemsize) / HOST_SHARE


def transform_on_host(x: np.ndarray[Any, Any], request: Request) -> Any:
    """Return the transform of a NumPy array that placement leaves to the library; None for others."""
    found = resolve(request, x.shape, x.dtype)
    if not takes_to_host(FFT.name, _cost_of(x.nbytes, found), FFT.host_weight):
        return None
    return wrap_host(call_as_user(request.on_host, (x,), {}))


FFT = Op(
    "fft",
    _plan,
    _infer,
    host=_on_host,
    cost=_cost,
    host_weight=24.0 * HOST_SHARE,
    takes_chains=True,
    takes_views=True,
    fuse=_fuse,
    plan_variant=_plan_variant,
    has_spare=True,
    linear_in=(0,),
)


def shifted(x: Handle, axes: tuple[int, ...]) -> Any:
    """Return a transform, or a chain of it and numbers, with its axes shifted as its own kernel stores it.

    None where `x` is no such thing, where something has asked for the transform, or where its kernel cannot. What else
    is made of `x` is made of another transform.

    Parameters
    ----------
    x : Handle
    axes : tuple of int
        None negative.
    """
    held = None if x._view is not None else x._storage.value
    if held is None or held[0].structure.is_flagged:
        return None
    graph, entries, _ = held
    places = [place for place, layout in enumerate(graph.leaves) if isinstance(layout, Layout)]
    entry = entries[places[0]] if len(places) == 1 else None
    call = entry.call if type(entry) is Pending else None
    leaves = None if call is None else call.leaves
    if call is None or leaves is None or call.bound.op is not FFT or not call.is_from_here():
        return None
    bound = call.bound
    if not (graph.leaves[places[0]].same(bound.layouts[0]) and graph.layout.shape == bound.layouts[0].shape):
        return None
    request, found = Request(*bound.parameters), _resolved(bound.graphs[0].layout, bound.parameters)
    computed = DEVICE_TYPES[np.result_type(found.dtype, np.complex64)]
    rotates = importlib.import_module("oxinp._kernels.fft.plan").rotates
    if request.kind.kind != COMPLEX or not all(
        axis in found.axes
        and rotates(found.shape[axis], computed, device().capability, at_both_ends=axis in request.given_rotated)
        for axis in axes
    ):
        return None
    wanted = request._replace(rotated=tuple(sorted({*axes} ^ {*request.rotated})))
    again = bind_overwriting(FFT, bound.graphs[0], wanted)
    value = attempt(defer_like, call, again, leaves, leaves, call.mask)
    if value is None:
        return None
    made, (result,), mask = value
    if not graph.nodes:
        return wrap_result((made, (result,), mask), as_array=True)
    return wrap_pending((graph, (*entries[: places[0]], result, *entries[places[0] + 1 :]), mask), as_array=True)


def _infer_shift(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:  # noqa: ARG001
    return (Layout.of(layouts[0].dtype, layouts[0].shape),)


def _plan_shift(bound: BoundOp) -> Plan:
    """Copies of the parts that change places: one pass over memory."""
    (graph,), (axes,) = bound.graphs, bound.parameters
    layout = graph.layout
    type_ = DEVICE_TYPES[layout.dtype]
    module = importlib.import_module("oxinp._kernels.elementwise.plan")
    copies = module.Elementwise([(type_, True)], (), [(0, type_)])
    shape = tuple([n // 2 if axis in axes else n for axis, n in enumerate(layout.shape)])
    steps: list[Any] = []
    for number in range(1 << len(axes)):
        places = [0, 0]
        for i, axis in enumerate(axes):
            places[number >> i & 1] += shape[axis] * layout.strides[axis]
        parts = [operand(Layout.at(layout.dtype, shape, layout.strides, (at & -at or 256) % 256)) for at in places]
        made = copies.plan(shape, parts, device().capability)
        steps += made.on(out0=Argument("out0", places[0]), in0=Argument("in0", places[1]))
    return Plan(tuple(steps))


SHIFT = Op("shift", _plan_shift, _infer_shift)


def shift(x: Handle, axes: tuple[int, ...]) -> Any:
    """Return an array on the device with its axes shifted, as one operation; None where they are not of even lengths.

    A transform of it reads the array before it.
    """
    layout = x._layout
    if x._view is not None or x._storage.host is not None or x._storage.value is None or not layout.is_contiguous:
        return None
    if layout.dtype not in DEVICE_TYPES or not layout.size or any(layout.shape[axis] % 2 for axis in axes):
        return None
    return perform_on_device(SHIFT, (x,), (axes,))


def _of_shifted(x: Handle, request: Request) -> Any:
    """The transform of an array whose shift nothing has asked for, from the array before it; None where that is not."""
    value = None if x._view is not None else x._storage.value
    entry = None if value is None or value[0].nodes else value[1][0]
    call = entry.call if type(entry) is Pending else None
    leaves = None if call is None else call.leaves
    if value is None or call is None or leaves is None or call.bound.op is not SHIFT or not call.is_from_here():
        return None
    (axes,), layout = call.bound.parameters, x._layout
    found = resolve(request, layout.shape, layout.dtype)
    computed = DEVICE_TYPES[np.result_type(found.dtype, np.complex64)]
    rotates = importlib.import_module("oxinp._kernels.fft.plan").rotates
    lengths = dict(zip(found.axes, found.lengths, strict=True))
    is_whole = layout.same(call.bound.layouts[0]) and request.kind.kind == COMPLEX
    if not is_whole or not all(
        lengths.get(axis) == layout.shape[axis] and rotates(layout.shape[axis], computed, device().capability)
        for axis in axes
    ):
        return None
    bound = bind_overwriting(FFT, call.bound.graphs[0], request._replace(given_rotated=axes))
    made = attempt(defer_like, call, bound, leaves, leaves, call.mask)
    return None if made is None else wrap_result(made, as_array=True)


def transform(x: Handle, request: Request) -> Any:
    """Return the transform of an array.

    Parameters
    ----------
    x : Handle
    request : Request

    Raises
    ------
    Unsupported
        The device has no kernel, or the library refuses the arguments, which it is asked for then.
    """
    layout = x._layout
    if layout.dtype == np.float16:
        made = result_dtype(request.library, request.name, layout.dtype)
        scale = scale_of(request, resolve(request, layout.shape, np.dtype(np.float32)).lengths, layout.dtype)
        if not scale:
            raise Unsupported("a length that float16 does not hold, so that NumPy's factor is zero")
        if made == np.float16:
            own: Any = x  # NumPy computes in float32 what it gives as float16
            return (transform(own.astype(np.float32), unscaled(request)) * np.float32(scale)).astype(made)
    found = resolve(request, layout.shape, layout.dtype)
    if 0 in found.shape:
        return wrap_host(np.empty(found.shape, found.dtype))
    if layout.dtype not in DEVICE_TYPES or not layout.is_aligned:
        raise Unsupported(f"dtype {layout.dtype} has no kernels, or elements are not at multiples of their size")
    read = _of_shifted(x, request)
    return perform_overwriting(FFT, x, request) if read is None else read
