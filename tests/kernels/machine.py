"""Where planned kernels run in these tests: the emulator, or with OXINP_REQUIRE_GPU=1 the GPU through the driver."""

import functools
import importlib
import os
import struct
from types import SimpleNamespace

import numpy as np

from oxinp._kernels.elementwise import plan as elementwise
from oxinp._kernels.problem import MAX_ALIGNMENT, Operand, ScalarOperand
from oxinp._kernels.reduce import plan as reduce
from oxinp._kernels.scan import plan as scan
from oxinp._ptx import emulate
from oxinp._ptx.types import from_dtype
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

    def launch(self, launch, arguments):
        packed = struct.pack(launch.kernel.param_format, *arguments, *launch.constants)
        emulate.run(launch.kernel, self.memory, launch.grid, packed)

    def free(self, address):
        self.memory.free(address)


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
        """Return operands and launch arguments of arrays and NumPy scalars."""
        operands = [
            self.operand(x) if isinstance(x, np.ndarray) else ScalarOperand(from_dtype(x.dtype)) for x in inputs
        ]
        arguments = [(self.pointer(x),) if isinstance(x, np.ndarray) else parts_of(x.item()) for x in inputs]
        return operands, [part for parts in arguments for part in parts]

    def elementwise(self, shape, inputs, instrs, outputs):
        """Run a problem; `outputs` are (value number, view). The views' arrays are updated."""
        operands, arguments = self.inputs(inputs)
        targets = [elementwise.Output(value, self.operand(view)) for value, view in outputs]
        launch = elementwise.plan(shape, operands, instrs, targets, self.device)
        self.machine.launch(launch, [self.pointer(view) for _, view in outputs] + arguments)
        self.fetch(view for _, view in outputs)
        return launch

    def reduce(self, shape, axes, inputs, instrs, value, op, output):
        """Run a reduction into `output`, a view over the kept dimensions."""
        operands, arguments = self.inputs(inputs)
        plan = reduce.plan(shape, axes, operands, instrs, value, op, self.operand(output), self.device)
        target = self.pointer(output)
        if plan.scratch_nbytes:
            scratch = self.machine.allocate(plan.scratch_nbytes)
            first, second = plan.launches
            self.machine.launch(first, [target, scratch, *arguments])
            self.machine.launch(second, [target, scratch])
            self.machine.free(scratch)
        else:
            for launch in plan.launches:
                self.machine.launch(launch, [target, *arguments])
        self.fetch([output])
        return plan

    def scan(self, shape, axis, inputs, instrs, value, op, output):
        """Run a scan into `output`, a view of the same shape."""
        operands, arguments = self.inputs(inputs)
        plan = scan.plan(shape, axis, operands, instrs, value, op, self.operand(output), self.device)
        target = self.pointer(output)
        if plan.scratch_nbytes:
            scratch = self.machine.allocate(plan.scratch_nbytes)
            first, second = plan.launches
            self.machine.launch(first, [scratch, *arguments])
            self.machine.launch(second, [target, scratch, *arguments])
            self.machine.free(scratch)
        else:
            for launch in plan.launches:
                self.machine.launch(launch, [target, *arguments])
        self.fetch([output])
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
