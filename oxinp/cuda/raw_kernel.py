"""Kernels of the user's own, in PTX or in the kernel language."""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp import _runtime
from oxinp._config import config
from oxinp._driver import errors, occupancy
from oxinp._driver.launch import Launcher
from oxinp._ptx.kernel import Block, Kernel, three_extents
from oxinp._runtime.counters import after_launch, stats
from oxinp.cuda import current

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from oxinp._driver.module import Function
    from oxinp.cuda.stream import Stream

__all__ = ["RawKernel"]

_MAX_LAUNCHERS = 256
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*(?:\(([^)]*)\))?")
_PARAM = re.compile(r"\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+(?:\.ptr[\w.\s]*?)?([\w$]+)\s*(?:\[(\d+)\])?\s*$")
_CODES = {
    **dict.fromkeys(("u8", "b8"), "B"),
    **dict.fromkeys(("u16", "b16"), "H"),
    **dict.fromkeys(("u32", "b32"), "I"),
    **dict.fromkeys(("u64", "b64"), "Q"),
    "s8": "b",
    "s16": "h",
    "s32": "i",
    "s64": "q",
    "f16": "e",
    "f32": "f",
    "f64": "d",
}


class _Param(NamedTuple):
    name: str
    code: str  # of `struct`


class RawKernel:
    """A kernel of your own, to be launched on arrays.

    Parameters
    ----------
    source : str or Kernel
        PTX text; what `KernelFunction.raw` gives is made of a kernel of the kernel language, `oxinp.cuda.kernel`.
    name : str, optional
        Which entry of the text; the only one if not given.

    Attributes
    ----------
    name : str
    params : tuple
        Names and `struct` codes of its parameters.

    Raises
    ------
    CompileError
        The text has no such entry, or parameters of unknown types.

    Notes
    -----
    The text is compiled at the first launch and kept in the cache on disk. A launch goes to the current stream, after
    everything that is pending; it does not wait.

    Examples
    --------
    >>> import oxinp as np
    >>> from oxinp.cuda.kernel import In, Out, f32, jit, u32
    >>> @jit(block=256)
    ... def double(k, x: In[f32], y: Out[f32], n: u32):
    ...     with k.grid_stride(n) as i:
    ...         y[i] = x[i] + x[i]
    >>> with np.config.override(backend="emulator"):
    ...     x, y = np.ones(100_000, "f4"), np.empty(100_000, "f4")
    ...     double.raw()(4, args=(x, y, x.size))
    ...     float(y[-1])
    2.0
    """

    def __init__(self, source: str | Kernel, name: str | None = None) -> None:
        if isinstance(source, Kernel):
            self._kernel, self._is_text = source, False
            codes = [code for code in re.findall(r"\d*[a-zA-Z?]", source.param_format) if code[-1] != "x"]
            self.params = tuple(_Param(param.name, code) for param, code in zip(source.params, codes, strict=True))
            self._is_written = tuple("w" in (param.access or "w") for param in source.params)
        else:
            self._kernel, self.params = _parse(source, name)
            self._is_text = True
            self._is_written = (True,) * len(self.params)  # as far as anybody knows
        self.name = self._kernel.name
        self._launchers: dict[Any, Any] = {}

    def __call__(
        self,
        grid: int | tuple[int, ...],
        block: int | tuple[int, ...] | None = None,
        args: Sequence[Any] = (),
        *,
        shared_nbytes: int | None = None,
        cluster: tuple[int, int, int] | None = None,
        is_cooperative: bool = False,
        is_programmatic: bool = False,
        stream: Stream | None = None,
    ) -> None:
        """Launch it.

        Parameters
        ----------
        grid : int or tuple of int
            Blocks along x, y and z.
        block : int or tuple of int, optional
            Threads per block along x, y and z; a kernel of the language has its own.
        args : sequence
            One for each parameter: contiguous arrays of ours, or of others that have `__cuda_array_interface__`, and
            addresses as integers, for pointers; numbers for scalars; bytes for blocks.
        shared_nbytes : int, optional
            Dynamic shared memory per block, 0 for PTX if not given.
        cluster : (int, int, int), optional
            Blocks per cluster.
        is_cooperative : bool
            Whether all blocks run at once, so that they may wait for each other.
        is_programmatic : bool
            Whether it may begin before the kernel before it has ended, which it waits for by itself.
        stream : Stream, optional
            Another one than the current. Of memory given by its address, nobody knows who else uses it there.

        Raises
        ------
        TypeError
            An argument is missing, too many, or not what its parameter takes; it is named.
        LaunchError
            No device takes a grid or a block of that shape.
        """
        backend = _runtime.current()
        if backend is None:
            raise errors.NotSupported(f"kernel {self.name} needs a GPU: {_runtime.why_host()}")
        threads = self._threads(block)
        options = (three_extents(grid), threads, shared_nbytes, cluster, is_cooperative, is_programmatic)
        key = (backend, options, None if stream is None else stream.handle, config.version)
        launch = self._launchers.get(key)
        if launch is None:
            if len(self._launchers) >= _MAX_LAUNCHERS:
                self._launchers.clear()
            launch = self._launchers[key] = self._prepare(backend, options, stream)

        def find() -> tuple[list[tuple[int, bool]], Callable[[], object]]:
            values, owners, accesses = self._convert(args)
            current.flush()

            def launch_now() -> None:
                launch(*values)
                owners.clear()  # now that the memory knows who uses it

            return accesses, launch_now

        current.queue(backend, key[2], find)

    def attribute(self, name: str) -> int:
        """Return what the driver knows of it: "num_registers", "local_nbytes", "static_shared_nbytes" and others."""
        return self._function().attribute(name)

    def suggest_block(self) -> int:
        """Return how many threads per block fill the device best."""
        return occupancy.suggest_block(self._function())[0]

    def max_blocks_per_sm(self, num_threads: int, shared_nbytes: int = 0) -> int:
        """Return how many blocks of so many threads run on a multiprocessor at a time."""
        return occupancy.max_blocks_per_sm(self._function(), num_threads, shared_nbytes)

    def _function(self) -> Function:
        backend = current.cuda_backend()
        if backend is None:
            raise errors.NotSupported(f"kernel {self.name} needs a GPU: oxinp.cuda.is_available() is False here")
        return backend.function(self._kernel)

    def _threads(self, block: int | tuple[int, ...] | None) -> tuple[int, int, int]:
        if self._is_text:
            if block is None:
                raise TypeError(f"kernel {self.name} needs block, the threads per block: its text does not say")
            return three_extents(block)
        if block is not None and three_extents(block) != self._kernel.block:
            raise TypeError(f"kernel {self.name} is made for blocks of {self._kernel.block} threads, not {block}")
        return self._kernel.block

    def _prepare(self, backend: Any, options: Any, stream: Stream | None) -> Any:
        grid, threads, shared_nbytes, cluster, is_cooperative, is_programmatic = options
        kernel = self._kernel
        if backend.name != "cuda":
            if self._is_text:
                raise errors.NotSupported(f"kernel {self.name} is PTX, which runs on a GPU only; here is the emulator")
            return backend.launcher(kernel, grid, len(self.params), ())
        return Launcher(
            backend.function(kernel),
            grid,
            threads,
            kernel.shared_nbytes if shared_nbytes is None else shared_nbytes,
            kernel.param_format,
            len(self.params),
            (),
            cluster=cluster or kernel.cluster,
            is_cooperative=is_cooperative,
            is_programmatic=is_programmatic,
            stream=0 if stream is None else stream.handle,
            current=backend if stream is None else None,
            counter=stats,
            after=after_launch(),
        ).launch

    def _convert(self, args: Sequence[Any]) -> tuple[list[Any], list[Any], list[tuple[int, bool]]]:
        """Return what goes to the device, what has to live until it is there, and what memory is read and written."""
        if len(args) != len(self.params):
            names = ", ".join(param.name for param in self.params)
            raise TypeError(f"kernel {self.name} takes {len(self.params)} arguments ({names}), not {len(args)}")
        values, owners, accesses = [], [], []
        for param, is_written, arg in zip(self.params, self._is_written, args, strict=True):
            found = current.address_of(arg) if param.code == "Q" and not isinstance(arg, int) else None
            if found is not None:
                if not found.is_contiguous:
                    raise TypeError(f"argument {param.name} of kernel {self.name} is not contiguous: copy it first")
                owners.append(found.owner)
                accesses.append((found.ptr, is_written))
                values.append(found.ptr)
            else:
                values.append(self._scalar(param, arg))
        return values, owners, accesses

    def _scalar(self, param: _Param, arg: Any) -> Any:
        code = param.code
        try:
            value = arg if code[-1] == "s" else (float(arg) if code in "efd" else arg.__index__())
            struct.pack("<" + code, value)
        except (AttributeError, TypeError, ValueError, OverflowError, struct.error) as error:
            wanted = f"{code[:-1]} bytes" if code[-1] == "s" else f"a number of struct's type {code!r}"
            told = f"argument {param.name} of kernel {self.name} is {arg!r}, not {wanted}"
            raise TypeError(told) from error
        if code[-1] == "s" and len(value) != int(code[:-1]):
            raise TypeError(f"argument {param.name} of kernel {self.name} has {len(value)} bytes, not {code[:-1]}")
        return value

    def __repr__(self) -> str:
        return f"<RawKernel {self.name}({', '.join(param.name for param in self.params)})>"


def _parse(text: str, name: str | None) -> tuple[Kernel, tuple[_Param, ...]]:
    """Return a kernel with the text, and its parameters."""
    entries = dict(_ENTRY.findall(_COMMENT.sub("", text)))
    if name is None and len(entries) == 1:
        (name,) = entries
    if name is None or name not in entries:
        wanted = "which of them is meant" if name is None else f"no entry {name!r}"
        raise errors.CompileError(f"{wanted}? The PTX has the entries: {', '.join(entries) or 'none'}")
    params, param_format, position = [], "<", 0
    for declared in filter(None, map(str.strip, entries[name].split(","))):
        match = _PARAM.match(declared)
        if match is None or match[2] not in _CODES:
            raise errors.CompileError(f"parameter {declared!r} of entry {name} is of no known type")
        code = _CODES[match[2]]
        nbytes = struct.calcsize("<" + code)
        align = int(match[1] or nbytes)
        if match[4] is not None:
            code, nbytes = f"{nbytes * int(match[4])}s", nbytes * int(match[4])
        padding = -position % align
        param_format += (f"{padding}x" if padding else "") + code
        position += padding + nbytes
        params.append(_Param(match[3], code))
    target = re.search(r"\.target\s+(\w+)", text)
    kernel = Kernel(
        name, text, target[1] if target else "", (), param_format, (1, 1, 1), None, 0, 0, Block(None), Block(None)
    )
    return kernel, tuple(params)
