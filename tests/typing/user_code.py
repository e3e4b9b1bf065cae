"""A page of user code, for type checkers: NumPy's types under our names, and ours."""

from typing import Any, assert_type

import numpy
import numpy.typing as npt

import oxinp as np
from oxinp import cuda, linalg, scipy, sparse
from oxinp.cuda.kernel import In, InOut, KernelFunction, Out, f32, jit, u32
from oxinp.fft import rfft


def smoothed(u: npt.NDArray[np.float64], times: int) -> npt.NDArray[np.float64]:
    """Write NumPy as ever."""
    for _ in range(times):
        u = 0.25 * (np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1))
    return np.ascontiguousarray(u)


x: npt.NDArray[np.float64] = np.ones(512)
assert_type(smoothed(np.ones((4, 4)), 2), numpy.typing.NDArray[numpy.float64])
counts: npt.NDArray[np.int32] = np.zeros(3, np.int32)
version: str = np.__version__
solution: npt.NDArray[Any] = linalg.solve(np.eye(3), np.ones(3))
draws: npt.NDArray[np.float64] = np.random.default_rng(7).standard_normal(100)
spectrum = rfft(x)
host: npt.NDArray[Any] = np.asnumpy(x)
np.install()
with np.errstate(divide="ignore"):
    y = np.sqrt(x, out=np.empty_like(x)) + x[::-1] @ x
np.no_such_name  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue]
matrix = sparse.csr_array(np.eye(4))
scipy.special.gamma(x)

# Settings
np.config.backend = "emulator"
np.config.offload_threshold = 0
np.config.fallback = "frob"  # any text, as far as types go
np.config.backend = 3  # type: ignore[assignment] # pyright: ignore[reportAttributeAccessIssue]
np.config.no_such = 1  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue]
assert_type(np.config.matmul_workspace, int)
with np.config.override(synchronous=True):
    np.evaluate(x)
np.show_versions()
try:
    np.explain()
except np.FallbackError as error:
    print(error)

# The device
fallbacks: dict[str, int] = cuda.stats().fallbacks
assert_type(cuda.is_available(), bool)
assert_type(cuda.__version__, str)
for device in cuda.list_devices():
    print(device.compute_capability)
stream = cuda.Stream()
with stream:
    event = stream.record()
event.synchronize()
memory = cuda.memory_stats()
print(memory.peak_nbytes)
try:
    cuda.synchronize()
except cuda.DeviceFault as fault:
    print(fault)
cuda.no_such_name  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue]


# Kernels
@jit(block=128)
def axpy(k: Any, a: f32, x: In[f32], y: InOut[f32], n: u32) -> None:
    """Write y += a * x."""
    with k.grid_stride(n) as i:
        y[i] = k.fma(a, x[i], y[i]) + 2 * a


@jit
def copy(k: Any, x: In[f32], y: Out[f32], n: u32) -> None:
    """Write y = x."""
    with k.when(k.tid < n):
        y[k.tid] = x[k.tid]


assert_type(axpy, KernelFunction)
axpy[4](2.0, x, y, x.size)
axpy[4, 256](2.0, x, y, x.size)
axpy[(4, 4), None, stream](2.0, x, y, x.size)
copy.forall(x.size)(x, y, x.size)
axpy["4"](x)  # type: ignore[index] # pyright: ignore[reportArgumentType]
