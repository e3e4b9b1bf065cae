"""The libraries a benchmark runs on, oxinp among them, behind one small interface.

A side supplies its NumPy-like namespace, a clock on its own device timeline, and the few verbs that libraries spell
differently. Peers are optional: `load` says what is missing instead of failing.
"""

import contextlib
import gc
import importlib
import os
import time
import types

import numpy as np

# What cases ask of `Side.xp`, by NumPy's names.
OPERATIONS = (
    *("all", "any", "arccosh", "arcsin", "arctanh", "argmax", "argmin", "ascontiguousarray", "cumprod", "cumsum"),
    *("exp", "flatnonzero", "log1p", "matmul", "max", "mean", "min", "power", "sin", "sqrt", "std", "sum", "var"),
)


class NotApplicableError(Exception):
    """A case means nothing on a side, or the library cannot do it: that is no failure. Raised while it is set up."""


def _first_line(error):
    return str(error).splitlines()[0]


class Side:
    """One library under measurement. This base is a library that computes on the host, at once.

    Attributes
    ----------
    name : str
    xp : module or namespace
        Answers the NumPy names that the cases use.
    version : str
    backend : str
        What computes: "host", "emulator" or "cuda".
    """

    name = "numpy"
    backend = "host"

    def __init__(self, xp):
        self.xp = xp
        self.version = str(getattr(xp, "__version__", ""))

    def measuring(self):
        """Return the context that the library is measured in."""
        return contextlib.nullcontext()

    def compiled(self, function):
        """Return a function of arrays in the form in which the library's users call it again and again."""
        return function

    def lacks(self, error):
        """Return what the library cannot do, where that is what its exception says; else None."""
        if isinstance(error, AttributeError) and error.obj is self.xp:
            return f"{self.name} has no {error.name}"
        return None

    def asarray(self, host):
        """Copy a NumPy array to where the library computes."""
        return self.xp.array(host)

    def to_host(self, x):
        """Copy an array of the library into a fresh NumPy array."""
        return np.array(x)

    # Makes a lazy library enqueue an array's pending work, without waiting; None where nothing is ever pending.
    materialise = None

    def synchronize(self):
        """Wait until everything enqueued is done."""

    def record(self):
        """Return a mark on the library's own timeline, the host clock in seconds here."""
        return time.perf_counter()

    def elapsed_ms(self, start, stop):
        """Return the milliseconds between two marks that have both been reached."""
        return 1e3 * (stop - start)

    def launches(self):
        """Return how many kernels have been launched so far, None where the library does not count."""
        return

    def transferred_nbytes(self):
        """Return the bytes copied to the device and from it so far, None where the library does not count."""
        return

    def copy_into(self, target, source):
        """Enqueue the library's fastest contiguous copy."""
        self.xp.copyto(target, source)

    def device_nbytes(self):
        """Return the bytes of live arrays on the device, None where there is no device."""
        return

    def peak_device_nbytes(self):
        """Return the highest `device_nbytes` since `reset_peak`, None where the library does not know."""
        return

    def reset_peak(self):
        """Start a new peak."""

    def place_by_size(self):
        """Have arrays placed by their sizes, whatever the library has learned, until `release`."""

    def release(self):
        """Give cached device memory back, so that the next side finds the device empty."""
        gc.collect()


class Cupy(Side):
    """CuPy, on its current stream."""

    name = "cupy"
    backend = "cuda"

    def asarray(self, host):
        return self.xp.asarray(host)

    def to_host(self, x):
        return self.xp.asnumpy(x)

    def synchronize(self):
        self.xp.cuda.get_current_stream().synchronize()

    def record(self):
        event = self.xp.cuda.Event()
        event.record()
        return event

    def elapsed_ms(self, start, stop):
        return self.xp.cuda.get_elapsed_time(start, stop)

    def copy_into(self, target, source):
        target.data.copy_from_device_async(source.data, source.nbytes, self.xp.cuda.get_current_stream())

    def device_nbytes(self):
        return self.xp.get_default_memory_pool().used_bytes()

    def peak_device_nbytes(self):
        # The pool grows to the peak and keeps it.
        return self.xp.get_default_memory_pool().total_bytes()

    def reset_peak(self):
        self.release()

    def release(self):
        super().release()
        self.synchronize()
        self.xp.get_default_memory_pool().free_all_blocks()


def _torch_operations(torch):
    """Return PyTorch's own functions by NumPy's names, and its closest and fastest where it has none of that kind."""

    def over(function, **options):
        """Return a reduction whose axis is called `dim`, and is left out for all."""

        def reduce(x, axis=None):
            return function(x, **options) if axis is None else function(x, dim=axis, **options)

        return reduce

    def along(function):
        """Return a scan, which has NumPy's dtypes by name."""

        def scan(x, axis=None, dtype=None):
            dtype = None if dtype is None else getattr(torch, np.dtype(dtype).name)
            return function(x.flatten() if axis is None else x, dim=axis or 0, dtype=dtype)

        return scan

    return {
        **{name: getattr(torch, name) for name in ("exp", "log1p", "matmul", "sin", "sqrt")},
        "power": torch.pow,
        **{f"arc{name}": getattr(torch, f"a{name}") for name in ("cosh", "sin", "tanh")},
        **{name: over(getattr(torch, name)) for name in ("all", "any", "argmax", "argmin", "mean", "sum")},
        "max": over(torch.amax),
        "min": over(torch.amin),
        "std": over(torch.std, correction=0),
        "var": over(torch.var, correction=0),
        "cumprod": along(torch.cumprod),
        "cumsum": along(torch.cumsum),
        "ascontiguousarray": lambda x: x.contiguous(),
        "flatnonzero": lambda x: torch.nonzero(x.flatten()).squeeze(1),
    }


class Torch(Side):
    """PyTorch, on its current CUDA stream."""

    name = "torch"
    backend = "cuda"

    def __init__(self, torch):
        names = types.SimpleNamespace(**_torch_operations(torch))
        super().__init__(names)
        self.torch = torch
        self.version = torch.__version__
        torch.set_grad_enabled(False)

    def lacks(self, error):
        # Kernels are missing by dtype, which only calling them tells.
        is_told = isinstance(error, NotImplementedError) or "not implemented for" in str(error)
        return f"PyTorch: {_first_line(error)}" if is_told and isinstance(error, RuntimeError) else super().lacks(error)

    def asarray(self, host):
        return self.torch.from_numpy(host).cuda()

    def to_host(self, x):
        return x.cpu().numpy()

    def synchronize(self):
        self.torch.cuda.synchronize()

    def record(self):
        event = self.torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def elapsed_ms(self, start, stop):
        return start.elapsed_time(stop)

    def copy_into(self, target, source):
        target.copy_(source)

    def device_nbytes(self):
        return self.torch.cuda.memory_allocated()

    def peak_device_nbytes(self):
        return self.torch.cuda.max_memory_allocated()

    def reset_peak(self):
        self.torch.cuda.reset_peak_memory_stats()

    def release(self):
        super().release()
        self.synchronize()
        self.torch.cuda.empty_cache()


class Jax(Side):
    """JAX, compiled as its users compile (`jax.jit`), in full precision.

    It shows nobody its stream: marks are moments at which all that was enqueued is done, on the host's clock.
    """

    name = "jax"
    backend = "cuda"

    def __init__(self, jax):
        jax.config.update("jax_enable_x64", True)
        jax.config.update("jax_default_matmul_precision", "highest")  # else products of float32 are TF32's
        numpys = importlib.import_module("jax.numpy")
        names = {name: getattr(numpys, name) for name in OPERATIONS if name != "ascontiguousarray"}
        super().__init__(types.SimpleNamespace(**names, ascontiguousarray=numpys.copy))
        self.jax = jax
        self.version = jax.__version__
        self._tick = numpys.zeros(())

    def compiled(self, function):
        jitted = self.jax.jit(function)
        untraceable = self.jax.errors.JAXTypeError, self.jax.errors.JAXIndexError

        def call(*arrays):
            nonlocal jitted
            try:
                return jitted(*arrays)
            except untraceable:  # shapes that depend on data: JAX has these without compilation only
                jitted = function
                return function(*arrays)

        return call

    def lacks(self, error):
        is_told = isinstance(error, TypeError) and "immutable" in str(error)
        return f"JAX: {_first_line(error)}" if is_told else super().lacks(error)

    def asarray(self, host):
        return self.jax.device_put(host)

    def to_host(self, x):
        return np.array(x)

    def synchronize(self):
        # One stream runs everything in turn.
        (self._tick + 1).block_until_ready()

    def record(self):
        self.synchronize()
        return time.perf_counter()

    def copy_into(self, target, source):
        del target  # nothing can be written
        self.xp.ascontiguousarray(source)

    def device_nbytes(self):
        return (self.jax.devices()[0].memory_stats() or {}).get("bytes_in_use")


class Oxinp(Side):
    """The library this repository holds."""

    name = "oxinp"

    def __init__(self, oxinp):
        super().__init__(oxinp)
        self.version = importlib.import_module("oxinp._version").__version__  # `oxinp.__version__` is NumPy's
        self.runtime = importlib.import_module("oxinp._runtime").current()
        self.cuda = importlib.import_module("oxinp.cuda")
        self.backend = "host" if self.runtime is None else self.runtime.name
        self.materialise = oxinp.evaluate
        self.adaptive_placement = oxinp.config.adaptive_placement

    def place_by_size(self):
        self.xp.config.adaptive_placement = False

    def measuring(self):
        # What NumPy had to do must not pass for device work.
        return self.xp.config.override(fallback="error")

    def lacks(self, error):
        del error  # nothing that is asked of us may be missing

    def asarray(self, host):
        return self.xp.asarray(host)

    def to_host(self, x):
        return self.xp.asnumpy(x)

    def synchronize(self):
        self.cuda.synchronize()

    def record(self):
        if self.backend != "cuda":
            return super().record()
        return self.runtime.record_event()

    def elapsed_ms(self, start, stop):
        if self.backend != "cuda":
            return super().elapsed_ms(start, stop)
        return start.elapsed_ms(stop)

    def launches(self):
        return None if self.runtime is None else self.cuda.stats().launches

    def transferred_nbytes(self):
        if self.runtime is None:
            return None
        stats = self.cuda.stats()
        return stats.h2d_bytes, stats.d2h_bytes

    def copy_into(self, target, source):
        target[...] = source
        self.materialise(target)

    def device_nbytes(self):
        return None if self.runtime is None else self.runtime.memory_stats().used_nbytes

    def peak_device_nbytes(self):
        return None if self.runtime is None else self.runtime.memory_stats().peak_nbytes

    def reset_peak(self):
        self.runtime.pool.reset_peak()

    def release(self):
        super().release()
        if self.runtime is not None:
            self.synchronize()
            self.runtime.trim()
        # What comes next learns where its arrays belong by itself, as it would in a process of its own.
        self.xp.config.adaptive_placement = self.adaptive_placement


SIDES = {"oxinp": Oxinp, "cupy": Cupy, "torch": Torch, "jax": Jax, "numpy": Side}


class MissingError(Exception):
    """A library cannot run here; the message says why."""


def load(name):
    """Return the side called `name`.

    Peers are imported here, by name, because none of them is needed to run the benchmarks.

    Raises
    ------
    MissingError
        The library is not installed, or finds no GPU.
    """
    if name == "jax":
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # else nothing is left for the others
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        raise MissingError(f"{name} is not installed ({error})") from error
    if name == "torch" and not module.cuda.is_available():
        raise MissingError("torch finds no GPU")
    if name == "jax" and module.default_backend() != "gpu":
        raise MissingError("jax finds no GPU")
    if name == "cupy":
        try:
            module.cuda.runtime.getDeviceCount()
        except module.cuda.runtime.CUDARuntimeError as error:
            raise MissingError(f"cupy finds no GPU ({error})") from error
    return SIDES[name](module)
