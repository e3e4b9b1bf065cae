"""The kernel language: kernels written in Python, launched on arrays.

A function that `jit` decorates is traced: it runs once, with a builder and one pointer or value for each parameter, and
what it does with them is the kernel. Its annotations declare the parameters: ``In[f32]``, ``Out[f32]`` and
``InOut[f32]`` are pointers to the elements of an array, a type alone is a number passed by value; NumPy's types
(``In[numpy.float32]``) stand for those of the language.

Three rules carry the language. Python's ``if`` and ``for`` run while the kernel is traced; ``k.when``, ``k.range`` and
``k.loop`` run on the device. A value never changes; only what ``k.var`` makes can be assigned. Operators are the IEEE
round-to-nearest instruction (``+``, ``*``, ``k.sqrt``) and are never contracted; anything else is spelled (``k.fma``).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from oxinp._ptx import math
from oxinp._ptx.block import reduce as block_reduce
from oxinp._ptx.builder import Builder
from oxinp._ptx.kernel import three_extents
from oxinp._ptx.signature import In, InOut, Out, PointerParam, declared_type
from oxinp._ptx.signature import kernel as traced
from oxinp._ptx.types import (
    Compound,
    bf16,
    c64,
    c128,
    compound,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    pred,
    u8,
    u16,
    u32,
    u64,
)
from oxinp._ptx.warp import reduce as warp_reduce
from oxinp.cuda.raw_kernel import RawKernel

if TYPE_CHECKING:
    from oxinp.cuda.stream import Stream

__all__ = [
    "Builder",
    "In",
    "InOut",
    "KernelFunction",
    "Out",
    "bf16",
    "block_reduce",
    "c64",
    "c128",
    "compound",
    "f16",
    "f32",
    "f64",
    "i8",
    "i16",
    "i32",
    "i64",
    "jit",
    "math",
    "pred",
    "u8",
    "u16",
    "u32",
    "u64",
    "warp_reduce",
]

Extents = int | tuple[int, ...]


@overload
def jit(function: Callable[..., None]) -> KernelFunction: ...
@overload
def jit(*, block: Extents = 256, **options: Any) -> Callable[[Callable[..., None]], KernelFunction]: ...
def jit(function: Any = None, *, block: Extents = 256, **options: Any) -> Any:
    """Make a kernel of a Python function; a decorator, with or without parentheses.

    Parameters
    ----------
    function : callable
        Takes a `Builder` and the parameters of the kernel, which its annotations declare; returns nothing.
    block : int or tuple of int
        Threads per block along x, y and z, where the launch does not say.
    **options
        ``name``, ``target`` ("sm_80" if not given), ``min_blocks``, ``max_registers`` and ``cluster``; see `Builder`.

    Returns
    -------
    KernelFunction
        ``f[grid](...)`` or ``f[grid, block](...)`` launches it.

    Raises
    ------
    TypeError
        A parameter has no annotation, or one that declares no parameter.

    See Also
    --------
    oxinp.cuda.RawKernel : kernels in PTX, and launches with every option of the driver.

    Notes
    -----
    The function is traced at the first launch with blocks of a shape, and compiled then (by the driver; the result is
    kept in the cache on disk). A launch goes to the current stream, in order with array operations, and does not wait.
    With ``oxinp.config.backend = "emulator"`` the same kernel runs on the host, slowly, and accesses out of bounds and
    data races are found.

    Examples
    --------
    >>> import oxinp as np
    >>> from oxinp.cuda.kernel import In, InOut, f32, jit, u32
    >>> @jit(block=256)
    ... def axpy(k, a: f32, x: In[f32], y: InOut[f32], n: u32):
    ...     with k.grid_stride(n) as i:
    ...         y[i] = k.fma(a, x[i], y[i])
    >>> with np.config.override(backend="emulator"):
    ...     x, y = np.ones(100_000, "f4"), np.ones(100_000, "f4")
    ...     axpy[4](2.0, x, y, x.size)
    ...     float(y[-1])
    3.0
    """
    if function is None:
        return partial(KernelFunction, block=block, **options)
    return KernelFunction(function, block=block, **options)


class KernelFunction:
    """A kernel made by `jit`: ``f[grid, block](*args)`` launches it.

    Parameters
    ----------
    function : callable
    block : int or tuple of int
    **options
        As for `jit`.

    Attributes
    ----------
    name : str
    block : tuple of int
        Threads per block along x, y and z, where the launch does not say.
    """

    def __init__(self, function: Callable[..., None], *, block: Extents = 256, **options: Any) -> None:
        self.__wrapped__ = function
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__
        self.name: str = options.get("name") or function.__name__
        self.block = three_extents(block)
        self._options = options
        self._launched: dict[tuple[int, int, int], RawKernel] = {}
        _, *parameters = inspect.signature(function, eval_str=True).parameters.values()
        self._params = tuple((parameter.name, declared_type(parameter)) for parameter in parameters)

    def __getitem__(self, launch: Any) -> Callable[..., None]:
        """Return what launches the kernel on a grid.

        Parameters
        ----------
        launch : int, or (grid, block), (grid, block, stream), (grid, block, stream, shared_nbytes)
            Grid and block are an int or a tuple of up to three; without a block, or with None, blocks have the shape
            that `jit` was given. The stream is the current one and the dynamic shared memory what the kernel declares,
            if they are left out or None.

        Returns
        -------
        callable
            Takes the kernel's arguments in order: arrays for pointers, contiguous and of the parameter's dtype, and
            numbers. It raises TypeError where an argument is not what its parameter takes, and ValueError for an array
            that the kernel writes to and that is read-only.
        """
        grid, *more = launch if isinstance(launch, tuple) else (launch,)
        block, stream, shared_nbytes = (*more, None, None, None)[:3]
        if len(more) > 3:
            raise TypeError(f"kernel {self.name} is launched with [grid, block, stream, shared_nbytes]; got {launch}")
        return partial(self._launch, grid, block, stream, shared_nbytes)

    def forall(self, size: int, block: Extents | None = None) -> Callable[..., None]:
        """Return what launches the kernel with at least one thread along x for each of `size` elements."""
        num_threads = (self.block if block is None else three_extents(block))[0]
        return self[max(1, -(-size // num_threads)), block]

    def __call__(self, *_: Any, **__: Any) -> None:
        """Refuse: a launch needs a grid."""
        raise TypeError(f"kernel {self.name} needs a grid: {self.name}[grid](...), {self.name}[grid, block](...)")

    def raw(self, block: Extents | None = None) -> RawKernel:
        """Return the `RawKernel` for blocks of a shape: cooperative and cluster launches, registers, occupancy."""
        extents = self.block if block is None else three_extents(block)
        kernel = self._launched.get(extents)
        if kernel is None:
            options = {"name": self.name, **self._options}
            kernel = self._launched[extents] = RawKernel(traced(block=extents, **options)(self.__wrapped__))
        return kernel

    @cached_property
    def ptx(self) -> str:
        """The kernel in PTX, for blocks of the shape that `jit` was given."""
        return traced(block=self.block, **{"name": self.name, **self._options})(self.__wrapped__).ptx

    def _launch(
        self, grid: Extents, block: Extents | None, stream: Stream | None, shared_nbytes: int | None, *args: Any
    ) -> None:
        if len(args) != len(self._params):
            names = ", ".join(name for name, _ in self._params)
            raise TypeError(f"kernel {self.name} takes {len(self._params)} arguments ({names}), not {len(args)}")
        given: list[Any] = []
        for (name, annotation), arg in zip(self._params, args, strict=True):
            if isinstance(annotation, PointerParam):
                self._check_array(name, annotation, arg)
            if isinstance(annotation, Compound):
                number = complex(arg)
                given += [number.real, number.imag]
            else:
                given.append(arg)
        self.raw(block)(grid, args=given, stream=stream, shared_nbytes=shared_nbytes)

    def _check_array(self, name: str, wanted: PointerParam, arg: Any) -> None:
        subject = f"argument {name} of kernel {self.name}"
        if isinstance(arg, int):
            return  # an address
        if isinstance(arg, np.ndarray) and not hasattr(arg, "__cuda_array_interface__"):
            raise TypeError(
                f"{subject} is a NumPy array, in the host's memory: pass oxinp.asarray of it, and read that"
            )
        dtype = str(getattr(arg, "dtype", "")).removeprefix("torch.")
        if not dtype:
            raise TypeError(f"{subject} is {type(arg).__name__}, not an array")
        # NumPy has no bf16: it is ml_dtypes' or PyTorch's, or its bits.
        legal = (str(wanted.type.dtype), *(["bfloat16"] if wanted.type is bf16 else []))
        if dtype not in legal:
            raise TypeError(f"{subject} has dtype {dtype}; its parameter takes {' or '.join(legal)}")
        if "w" in wanted.access and not getattr(getattr(arg, "flags", None), "writeable", True):
            raise ValueError(f"{subject} is read-only, and the kernel writes to it")

    def __repr__(self) -> str:
        return f"<KernelFunction {self.name}({', '.join(name for name, _ in self._params)})>"
