"""PyTorch and JAX made of NumPy: their names, signatures and refusals, as far as the benchmarks meet them."""

from types import ModuleType, SimpleNamespace

import numpy as np


class Tensor(np.ndarray):
    """An array with PyTorch's methods; what PyTorch has no kernel for is refused in its words."""

    def cuda(self):
        return self

    def cpu(self):
        return self

    def numpy(self):
        return self.view(np.ndarray)

    def contiguous(self):
        return np.ascontiguousarray(self).view(Tensor)

    def copy_(self, source):
        self[...] = source

    def squeeze(self, dim):
        return self.numpy().squeeze(dim).view(Tensor)


def _tensor(array):
    return np.asarray(array).view(Tensor)


def _reduction(function, refused=""):
    def reduce(x, dim=None, correction=None):
        if x.dtype.char in refused:
            raise NotImplementedError(f"\"{function.__name__}_cuda\" not implemented for '{x.dtype.name}'")
        options = {} if correction is None else {"ddof": correction}
        return _tensor(function(x.numpy(), axis=dim, **options))

    return reduce


def _scan(function):
    return lambda x, dim, dtype=None: _tensor(function(x.numpy(), axis=dim, dtype=dtype))


def _matmul(a, b):
    if a.dtype.kind in "iu":
        raise RuntimeError("\"addmm_cuda\" not implemented for 'Long'")
    return _tensor(a.numpy() @ b.numpy())


def fake_torch():
    """Return a module like `torch`, with a GPU that is none."""
    torch = ModuleType("torch")
    torch.__version__ = "fake"
    torch.set_grad_enabled = lambda _: None
    torch.from_numpy = lambda host: host.copy().view(Tensor)
    torch.cuda = SimpleNamespace(
        is_available=lambda: True,
        synchronize=lambda: None,
        empty_cache=lambda: None,
        Event=lambda enable_timing: SimpleNamespace(record=lambda: None, elapsed_time=lambda _: float(enable_timing)),
        memory_allocated=lambda: 0,
        max_memory_allocated=lambda: 1 << 20,
        reset_peak_memory_stats=lambda: None,
    )
    for name in ("exp", "log1p", "sin", "sqrt"):
        setattr(torch, name, getattr(np, name))
    for name in ("acosh", "asin", "atanh"):
        setattr(torch, name, getattr(np, f"arc{name[1:]}"))
    for name in ("all", "any", "mean", "std", "sum", "var"):
        setattr(torch, name, _reduction(getattr(np, name)))
    for name in ("argmax", "argmin"):
        setattr(torch, name, _reduction(getattr(np, name), refused="H"))
    torch.amax, torch.amin = _reduction(np.max, refused="H"), _reduction(np.min, refused="H")
    torch.cumsum, torch.cumprod = _scan(np.cumsum), _scan(np.cumprod)
    torch.matmul, torch.pow = _matmul, lambda x, y: _tensor(np.power(x, y))
    torch.nonzero = lambda x: _tensor(np.argwhere(x))
    for name in ("complex64", "float32", "float64", "int32"):
        setattr(torch, name, np.dtype(name))
    return torch


class Array(np.ndarray):
    """An array that cannot be written."""

    def __setitem__(self, index, value):
        raise TypeError(
            "JAX arrays are immutable and do not support in-place item assignment. Instead of x[idx] = y\n..."
        )

    def block_until_ready(self):
        return self


class Tracer(Array):
    """An array whose elements nobody knows yet."""

    def __getitem__(self, index):
        if isinstance(index, Tracer) and index.dtype == bool:
            raise JAXIndexError("Array boolean indices must be concrete")
        return super().__getitem__(index)


class JAXTypeError(TypeError):
    """What tracing has no way to do."""


class JAXIndexError(IndexError):
    """Likewise, of indices."""


def _tracers(given):
    return [_tracers(one) for one in given] if isinstance(given, list) else given.view(Tracer)


def _jit(function):
    return lambda *given: np.asarray(function(*map(_tracers, given))).view(Array)


def _flatnonzero(x):
    if isinstance(x, Tracer):
        raise JAXTypeError("Abstract tracer value encountered where concrete value is expected")
    return np.flatnonzero(x).view(Array)


def fake_jax():
    """Return modules like `jax` and `jax.numpy`."""
    jax, numpys = ModuleType("jax"), ModuleType("jax.numpy")
    jax.__version__ = "fake"
    jax.settings = {}
    jax.config = SimpleNamespace(update=jax.settings.__setitem__)
    jax.errors = SimpleNamespace(JAXTypeError=JAXTypeError, JAXIndexError=JAXIndexError)
    jax.default_backend = lambda: "gpu"
    jax.device_put = lambda host: host.copy().view(Array)
    jax.devices = lambda: [SimpleNamespace(memory_stats=lambda: {"bytes_in_use": 0})]
    jax.jit = _jit
    elementwise = ("arccosh", "arcsin", "arctanh", "exp", "log1p", "matmul", "power", "sin", "sqrt")
    reductions = ("all", "any", "argmax", "argmin", "max", "mean", "min", "std", "sum", "var")
    for name in (*elementwise, *reductions, "cumprod", "cumsum"):
        setattr(numpys, name, getattr(np, name))
    numpys.flatnonzero, numpys.copy = _flatnonzero, lambda x: x.copy()
    numpys.zeros = lambda shape: np.zeros(shape).view(Array)
    return jax, numpys
