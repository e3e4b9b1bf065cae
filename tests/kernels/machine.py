"""Where planned kernels run in these tests: the emulator, or with OXINP_REQUIRE_GPU=1 the GPU through the driver."""

import functools
import importlib
import os
import struct
from types import SimpleNamespace

import numpy as np

from oxinp._kernels.elementwise import plan as elementwise
from oxinp._kernels.plan import Copy, Fill, Launch, Read, in_order
from oxinp._kernels.problem import MAX_ALIGNMENT, Operand, ScalarOperand
from oxinp._kernels.reduce import plan as reduce
from oxinp._kernels.scan import plan as scan
from oxinp._ptx import emulate
from oxinp._ptx.types import from_dtype
from oxinp._runtime.backend import MARKS_NBYTES, NUM_FLAGS
from tests.ptx.launch import parts_of

REQUIRE_GPU = os.environ.get("OXINP_REQUIRE_GPU", "") == "1"
# So few multiprocessors that small problems take the paths of large ones.
TINY_DEVICE = SimpleNamespace(num_sms=2, cc=(8, 0), max_shared_nbytes=48 * 1024, tuned=lambda _: None)


class Emulated:
    """The emulator."""

    def __init__(self):
        self.memory = emulate.Memory()

    def upload(self, array):
        address = self.memory.allocate(array.nbytes)
        self.memory.write(address, array)
        return address

    def download(self, address, nbytes):
        return self.memory.read(address, nbytes)

    def allocate(self, nbytes):
        return self.memory.allocate(nbytes)

    def write(self, address, array):
        self.memory.write(address, array)

    def launch(self, launch, parameters):
        packed = struct.pack(launch.kernel.param_format, *parameters, *launch.constants)
        emulate.run(launch.kernel, self.memory, launch.grid, packed)

    def free(self, address):
        self.memory.free(address)


def execute(machine, plan, outputs=(), inputs=(), scratch=None, stand_in=None, flags=None):
    """Run a plan on a machine, and what it plans once words have been read; return these.

    Parameters
    ----------
    machine : Emulated or Driven
    plan : Plan
    outputs, inputs : sequences
        Addresses; of inputs that are scalars their values, those of a complex one as a tuple.
    scratch : int, optional
        Address of the workspace, where somebody wants to look at it; else it is full of rubbish.
    stand_in : callable, optional
        ``stand_in(launch)`` does what launches of kernels for wgmma do, which the emulator cannot run.
    flags : int, optional
        Address of flags and marks, as plans before have left them; else they are new.
    """
    buffers = {f"out{i}": value for i, value in enumerate(outputs)} | {f"in{i}": x for i, x in enumerate(inputs)}
    held = []
    if scratch is None and plan.scratch_nbytes:
        held.append(machine.upload(np.full(plan.scratch_nbytes, 0xA5, np.uint8)))
        scratch = held[0]
    buffers["scratch"] = scratch
    launches = [step for step in plan.steps if isinstance(step, Launch)]
    if any(argument.buffer == "flags" for launch in launches for argument in launch.arguments):
        buffers["flags"] = new_flags(machine) if flags is None else flags
        held += [buffers["flags"]] if flags is None else []
    words = []
    for step in in_order(plan.steps):
        if isinstance(step, Launch):
            if stand_in is not None and step.kernel.target == "sm_90a":
                stand_in(step)
            else:
                machine.launch(step, list(parameters(machine, step, buffers)))
        elif isinstance(step, Fill):
            machine.write(_address(step.target, buffers), np.full(step.nbytes, step.byte, np.uint8))
        elif isinstance(step, Copy):
            copied = machine.download(_address(step.source, buffers), step.nbytes)
            machine.write(_address(step.target, buffers), copied)
        elif isinstance(step, Read):
            words += machine.download(_address(step.source, buffers), 8 * step.count).view(np.int64).tolist()
    if plan.then is not None:
        words += execute(machine, plan.then(tuple(words)), outputs, inputs, scratch, stand_in, flags)
    if "flags" in buffers:
        assert not machine.download(buffers["flags"], 4 * NUM_FLAGS).any(), "flags are not zeros again"
    for address in held:
        machine.free(address)
    return words


def new_flags(machine):
    """Return the address of flags and marks that nobody has used."""
    return machine.upload(np.zeros(4 * NUM_FLAGS + MARKS_NBYTES, np.uint8))


def parameters(machine, launch, buffers):
    """Yield the values of a launch's arguments; `buffers` are addresses and values by name."""
    for argument in launch.arguments:
        value = buffers[argument.buffer]
        if isinstance(value, tuple):
            yield from value
        elif argument.map is not None:
            yield machine.tensor_map(argument.map, _address(argument, buffers))
        else:
            yield _address(argument, buffers)


def _address(argument, buffers):
    value = buffers[argument.buffer]
    return value + argument.offset if argument.offset else value


def root_of(view):
    """Return the array that owns a view's memory."""
    while isinstance(view.base, np.ndarray):
        view = view.base
    return view


class Session:
    """Arrays of one test on a machine: uploads what views look at, runs problems, brings the memory back."""

    def __init__(self, machine, device=TINY_DEVICE):
        self.machine = machine
        self.device = device
        self.addresses = {}
        self.flags = None  # new for each plan

    def pointer(self, view):
        root = root_of(view)
        assert root.flags.c_contiguous
        if id(root) not in self.addresses:
            self.addresses[id(root)] = (self.machine.upload(root), root)
        return self.addresses[id(root)][0] + view.ctypes.data - root.ctypes.data

    def operand(self, view):
        pointer = self.pointer(view)
        strides = tuple(step // view.itemsize for step in view.strides)
        return Operand(from_dtype(view.dtype), strides, min(MAX_ALIGNMENT, pointer & -pointer))

    def inputs(self, inputs):
        """Return operands and values of arrays and NumPy scalars."""
        operands = [
            self.operand(x) if isinstance(x, np.ndarray) else ScalarOperand(from_dtype(x.dtype)) for x in inputs
        ]
        return operands, [self.pointer(x) if isinstance(x, np.ndarray) else tuple(parts_of(x.item())) for x in inputs]

    def elementwise(self, shape, inputs, instrs, outputs):
        """Run a problem; `outputs` are (value number, view). The views' arrays are updated."""
        operands, values = self.inputs(inputs)
        targets = [elementwise.Output(value, self.operand(view)) for value, view in outputs]
        plan = elementwise.plan(shape, operands, instrs, targets, self.device)
        return self.run(plan, [view for _, view in outputs], values)

    def reduce(self, shape, axes, inputs, instrs, value, op, output, *, has_flags=False):
        """Run a reduction into `output`, a view over the kept dimensions."""
        operands, values = self.inputs(inputs)
        target = self.operand(output)
        plan = reduce.plan(shape, axes, operands, instrs, value, op, target, self.device, has_flags=has_flags)
        return self.run(plan, [output], values)

    def scan(self, shape, axis, inputs, instrs, value, op, output):
        """Run a scan into `output`, a view of the same shape."""
        operands, values = self.inputs(inputs)
        plan = scan.plan(shape, axis, operands, instrs, value, op, self.operand(output), self.device)
        return self.run(plan, [output], values)

    def run(self, plan, outputs, values):
        """Run a plan into views, whose arrays are updated."""
        execute(self.machine, plan, [self.pointer(view) for view in outputs], values, flags=self.flags)
        self.fetch(outputs)
        return plan

    def fetch(self, views):
        """Copy the arrays that views belong to back into them."""
        for view in views:
            address, root = self.addresses[id(root_of(view))]
            if root.nbytes:
                root.reshape(-1).view(np.uint8)[:] = self.machine.download(address, root.nbytes)

    def close(self):
        for address, _ in self.addresses.values():
            self.machine.free(address)
        self.addresses.clear()


@functools.cache
def machine():
    """Return the machine of this run."""
    if REQUIRE_GPU:
        return importlib.import_module("tests.kernels.driven").Driven()
    return Emulated()
