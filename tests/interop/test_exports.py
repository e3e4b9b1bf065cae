"""Our arrays' device memory in the hands of others, on the emulated device of a stand-in library."""

import gc
import os
import subprocess
import sys
import weakref

import numpy as np
import pytest

import oxinp
from oxinp import _runtime
from oxinp._core.interop import dlpack
from oxinp._core.interop import imports as interop
from tests.comparator import assert_same
from tests.patience import PATIENCE

N = 20_000  # doubles: above the threshold


@pytest.mark.usefixtures("device", "on_device")
class TestExports:
    def test_the_memory_is_the_arrays(self):
        x = oxinp.arange(float(N))
        tensor, owner = dlpack.consume(x[3:].__dlpack__(max_version=(1, 0)))
        assert tensor.device == (dlpack.CUDA, 0) == x.__dlpack_device__()
        assert tensor.shape == (N - 3,)
        assert tensor.strides == (1,)
        assert tensor.address == x.__cuda_array_interface__["data"][0] + 24
        assert tensor.flags == 0
        del owner

    def test_it_lives_as_long_as_the_consumer_wants(self):
        x = oxinp.arange(float(N)) + 1
        alive = weakref.ref(x._storage)
        capsule = x.__dlpack__()
        tensor, owner = dlpack.consume(capsule)
        del x, capsule
        gc.collect()
        assert alive() is not None
        found = np.empty(N)
        _runtime.current().download(found, tensor.address)
        assert_same(found, np.arange(float(N)) + 1)
        del owner
        gc.collect()
        assert alive() is None
        assert not dlpack._exports

    def test_what_a_finaliser_keeps_keeps_its_memory(self):
        """The garbage collector calls an owner's finaliser, too, before anything of a cycle goes."""
        kept = []

        class Cycle:
            def __init__(self, owner):
                self.own, self.owner = self, owner

            def __del__(self):
                kept.append(self.owner)

        for _ in range(3):
            Cycle(kept.pop() if kept else dlpack.consume(oxinp.ones(N).__dlpack__())[1])
            gc.collect()
            assert len(dlpack._exports) == 1
        kept.clear()
        assert not dlpack._exports

    def test_a_capsule_that_nobody_consumes(self):
        x = oxinp.ones(N)
        for _ in range(3):
            x.__dlpack__()
            x.__dlpack__(max_version=(1, 1))
        gc.collect()
        assert len(dlpack._exports) == 1  # until somebody looks
        dlpack.sweep()
        assert not dlpack._exports

    def test_a_capsule_that_somebody_holds(self):
        capsules = [oxinp.ones(N).__dlpack__(), oxinp.ones(N).__dlpack__(max_version=(1, 1))]
        dlpack.sweep()
        assert len(dlpack._exports) == 2
        owners = [dlpack.consume(capsule)[1] for capsule in capsules]
        del capsules
        dlpack.sweep()
        assert len(dlpack._exports) == 2
        assert not dlpack._capsules
        del owners
        assert not dlpack._exports

    def test_a_capsule_that_is_consumed_while_another_thread_looks(self, monkeypatch):
        capsules, owners, is_valid = [oxinp.ones(N).__dlpack__()], [], dlpack._is_valid

        def consumed_at_last(capsule, name):
            found = is_valid(capsule, name)
            if capsules:
                owners.append(dlpack.consume(capsules.pop())[1])
            return found

        monkeypatch.setattr(dlpack, "_is_valid", consumed_at_last)
        dlpack.sweep()
        monkeypatch.undo()
        assert len(dlpack._exports) == 1  # the consumer gives it back
        capsules.clear()
        owners.clear()
        dlpack.sweep()
        assert not dlpack._exports

    def test_a_consumer_that_raises(self):
        with pytest.raises((BufferError, RuntimeError), match="device"):
            np.from_dlpack(oxinp.ones(N))
        dlpack.sweep()
        assert not dlpack._exports

    def test_a_capsule_is_consumed_once(self):
        capsule = oxinp.ones(N).__dlpack__()
        dlpack.consume(capsule)
        with pytest.raises(BufferError, match="consumed"):
            dlpack.consume(capsule)
        with pytest.raises(BufferError, match="no DLPack capsule"):
            dlpack.consume(3)

    def test_our_own_address_is_our_own_storage(self):
        x = oxinp.arange(float(N))

        class Passed:
            __cuda_array_interface__ = x[5:].__cuda_array_interface__

            def __dlpack_device__(self):
                return x.__dlpack_device__()

            def __dlpack__(self, **keywords):
                return x[5:].__dlpack__(**keywords)

        for y in (oxinp.asarray(Passed()), oxinp.from_dlpack(Passed()), oxinp.from_dlpack(x)[5:]):
            assert y._storage is x._storage
            y[0] += 1
        assert x[5] == 8

    def test_what_is_pending_is_computed_first(self):
        x = oxinp.ones(N) * 3
        reader = x + 1
        described = x.__cuda_array_interface__
        _runtime.current().upload(described["data"][0], np.zeros(N))
        assert_same(reader, np.full(N, 4.0))
        assert_same(x, np.zeros(N))

    def test_writes_after_the_export(self):
        x = oxinp.ones(N)
        where = x.__cuda_array_interface__["data"][0]
        x += 1
        x[0] = 9
        x[1:3] = oxinp.zeros(2)
        found = np.empty(4)
        _runtime.current().download(found, where)
        assert found.tolist() == [9, 0, 0, 2]
        assert x.__cuda_array_interface__["data"][0] == where

    def test_layouts_and_flags(self):
        x = oxinp.ones((100, 200))
        assert x.T.__cuda_array_interface__["strides"] == (8, 1600)
        assert x.__cuda_array_interface__["strides"] is None
        assert x.__cuda_array_interface__["stream"] == 1
        x.flags.writeable = False
        assert x.__cuda_array_interface__["data"][1] is True
        with pytest.raises(BufferError, match="read-only"):
            x.__dlpack__()
        tensor, owner = dlpack.consume(x.T.__dlpack__(max_version=(1, 0)))
        assert tensor.flags == dlpack.READ_ONLY
        assert tensor.strides == (1, 200)
        tensor, owner = dlpack.consume(oxinp.ones(N).__dlpack__(max_version=(1, 0), copy=True))
        assert tensor.flags == dlpack.IS_COPIED
        del owner

    def test_streams(self, device, monkeypatch):
        waiting = []
        monkeypatch.setattr(device, "let_wait", waiting.append, raising=False)
        x = oxinp.ones(N)
        for stream in (None, 1, 2, 7 << 20, -1):
            x.__dlpack__(stream=stream)
        assert waiting == [1, 1, 2, 7 << 20]
        for stream in (0, -2, "1", True):
            with pytest.raises(ValueError, match="stream"):
                x.__dlpack__(stream=stream)

    def test_the_host_gets_a_copy(self):
        x = oxinp.arange(float(N))
        seen = np.from_dlpack(x, device="cpu")
        assert_same(seen, np.arange(float(N)))
        with pytest.raises(BufferError, match="cannot be avoided"):
            x.__dlpack__(dl_device=(dlpack.CPU, 0), copy=False)
        with pytest.raises(BufferError, match="cannot be exported"):
            x.__dlpack__(dl_device=(8, 0))

    def test_pinned_arrays_are_on_the_host(self):
        x = oxinp.ones(N)
        flat = x.flat
        assert x.__dlpack_device__() == (dlpack.CPU, 0)
        assert not hasattr(x, "__cuda_array_interface__")
        tensor, owner = dlpack.consume(x.__dlpack__(max_version=(1, 0), dl_device=(dlpack.CUDA, 0)))
        assert tensor.flags == dlpack.IS_COPIED
        with pytest.raises(BufferError, match="cannot be avoided"):
            x.__dlpack__(max_version=(1, 0), dl_device=(dlpack.CUDA, 0), copy=False)
        del owner, flat

    def test_dtypes_that_dlpack_has_not(self):
        x = oxinp.array(["2001-01-01"], "M8[D]")
        assert x.__dlpack_device__() == (dlpack.CPU, 0)
        with pytest.raises(BufferError):
            x.__dlpack__()


@pytest.mark.usefixtures("device")
def test_small_arrays_are_on_the_host():
    x = oxinp.ones(3)
    assert not hasattr(x, "__cuda_array_interface__")
    assert x.__dlpack_device__() == (dlpack.CPU, 0)
    tensor, owner = dlpack.consume(x.__dlpack__(dl_device=(dlpack.CUDA, 0)))
    assert tensor.device == (dlpack.CUDA, 0)
    x += 1
    found = np.empty(3)
    _runtime.current().download(found, tensor.address)
    assert found.tolist() == [2, 2, 2]
    del owner


def test_without_a_gpu_there_is_no_cuda_array_interface():
    if _runtime.current().name == "emulator":
        assert not hasattr(oxinp.ones(N), "__cuda_array_interface__")
        assert oxinp.ones(N).__dlpack_device__() == (dlpack.CPU, 0)
    assert interop.dlpack_device(oxinp.ones(2)) == (dlpack.CPU, 0)


def test_what_is_still_out_when_the_interpreter_ends():
    body = f"""
import atexit, ctypes
at_the_very_end = []
atexit.register(lambda: [f() for f in at_the_very_end])  # before oxinp registers anything, so after all of it

import oxinp
from oxinp import _runtime
from oxinp._core.interop import dlpack

_runtime.current().dlpack_device = (2, 0)
tensor, owner = dlpack.consume(oxinp.ones({N}).__dlpack__())
unconsumed = oxinp.ones({N}).__dlpack__(max_version=(1, 0))

@at_the_very_end.append
def let_go():
    # What a library in C does after Python's end: call what the structure says, then.
    (address,) = [a for a, e in dlpack._exports.items() if e.owner[0].value[1][0].ptr == tensor.address]
    deleter = dlpack._Managed.from_address(address).deleter
    assert deleter == ctypes.cast(ctypes.pythonapi.PyMem_RawFree, ctypes.c_void_p).value
    owner._deleter = None
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(deleter)(address)
    print("freed")
"""
    command = [sys.executable, "-c", body]
    environment = os.environ | {"OXINP_BACKEND": "emulator"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "freed\n", done.stderr
    assert not done.stderr
