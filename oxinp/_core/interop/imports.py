"""Interop: arrays to and from other libraries without a copy, by DLPack and by `__cuda_array_interface__`.

What is on the device is shared there, what is on the host is NumPy's to exchange. Streams are put in order by events,
as both protocols ask for; nothing here waits for the device.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oxinp import _runtime
from oxinp._core.host.sharing import adopt_device, adopt_host, lend, share
from oxinp._core.interop import dlpack
from oxinp._core.lazy import placement
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.handle import Handle, fetch, is_writeable
from oxinp._core.lazy.parted import parted
from oxinp._core.lazy.results import types, wrap_host
from oxinp._core.lazy.views import view_at
from oxinp._core.manipulation.copy import copy as copy_array
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.memory.layout import Layout
from oxinp._core.memory.storage import is_pinned
from oxinp._runtime import here, hooks

hooks.before_out_of_memory.append(dlpack.sweep)

Device = tuple[int, int]
_CPU: Device = (dlpack.CPU, 0)
_LEGACY_STREAM = 1


def _lies_on_device(array: Handle) -> bool:
    """Whether others get an array's memory on the device: it is there, or would be if it were made now."""
    storage = array._storage
    backend = _runtime.current()
    if backend is None or backend.dlpack_device is None or is_pinned(storage):
        return False
    if storage.value is not None or parted(storage) is not None:
        return True
    host = storage.host
    return host is not None and host.dtype in DEVICE_TYPES and placement.starts_on_device(host.nbytes)


def _backend_of(array: Handle) -> Any:
    """Return the backend of the device that an array lies on, or that it would be put on."""
    value = array._storage.value
    if here.are_several and value is not None:
        if value[0].nodes:
            return array._storage.origin.backend
        backend = value[1][0].backend
        if backend is not None:
            return backend
    return _runtime.current()


def _device_of(array: Handle) -> Device:
    if not _lies_on_device(array):
        return _CPU
    found: Device = _backend_of(array).dlpack_device
    return found


def dlpack_device(array: Any) -> Any:
    """Return kind and number of the device that an array's memory is on; see `numpy.ndarray.__dlpack_device__`."""
    if _device_of(array) == _CPU:
        return np.empty(0).__dlpack_device__()
    return _device_of(array)


# -- to others ---------------------------------------------------------------------------------------------------------


def export(
    array: Any,
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: Device | None = None,
    copy: bool | None = None,
) -> Any:
    """Return a DLPack capsule of an array; what `__dlpack__` does.

    Parameters
    ----------
    array : ndarray
    stream : int, optional
        The consumer's, which waits for what is queued here: None or 1 for the legacy default stream, 2 for the
        per-thread one, -1 not to wait.
    max_version : (int, int), optional
        The newest DLPack the consumer knows.
    dl_device : (int, int), optional
        Where it wants the memory: the array's own device, or the host.
    copy : bool, optional
        Whether it wants a copy, insists on none, or does not mind.

    Raises
    ------
    BufferError
        DLPack, or this version of it, has no way to say what the array is; or it cannot be where it is wanted.
    """
    here = _device_of(array)
    wanted = here if dl_device is None else (int(dl_device[0]), int(dl_device[1]))
    if wanted == _CPU:
        return _export_on_host(array, here, stream, max_version, dl_device, copy)
    backend = _backend_of(array)
    if backend is None or wanted != backend.dlpack_device:
        raise BufferError(f"arrays cannot be exported to the DLPack device {wanted}")
    is_held = is_pinned(array._storage)
    if copy is False and is_held:
        raise BufferError("others hold the array's memory on the host: a copy cannot be avoided")
    if copy or is_held:
        array = copy_array(array)
    return _export_on_device(array, backend, stream, max_version, is_copy=bool(copy) or is_held)


def _export_on_host(array: Any, here: Device, stream: Any, max_version: Any, dl_device: Any, copy: Any) -> Any:
    """Let NumPy export the elements: those that are there, or a copy of what is on the device."""
    wishes = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
    given = {name: wish for name, wish in wishes.items() if wish is not None}
    if here == _CPU and not copy:
        lent = lend(array)
    else:
        if copy is False:
            raise BufferError("the array is on the device: a copy cannot be avoided")
        given.pop("stream", None)
        given.pop("copy", None)
        lent = fetch(array)
    return lent.__dlpack__(**given)


def _export_on_device(array: Any, backend: Any, stream: Any, max_version: Any, *, is_copy: bool) -> Any:
    layout = array._layout
    is_versioned = max_version is not None and tuple(max_version) >= (1, 0)
    flags = dlpack.IS_COPIED if is_copy else 0
    if not is_writeable(array):
        if not is_versioned:
            raise BufferError("DLPack before version 1.0 has no read-only arrays, which this one is")
        flags |= dlpack.READ_ONLY
    if layout.dtype.kind not in dlpack.CODES or not layout.dtype.isnative:
        raise BufferError(f"DLPack has no dtype {layout.dtype}")
    if not layout.is_aligned:
        raise BufferError("DLPack has no elements that do not lie at multiples of their size")
    if stream is not None and (not isinstance(stream, int) or isinstance(stream, bool) or stream == 0 or stream < -1):
        raise ValueError(f"stream must be -1, 1, 2, the handle of a stream, or None, not {stream!r}")
    buffer = _shared(array)
    backend.order((buffer.ptr, True))
    if stream != -1:
        backend.let_wait(_LEGACY_STREAM if stream is None else stream)
    tensor = dlpack.Tensor(
        buffer.ptr + layout.offset,
        layout.shape,
        layout.element_strides,
        dlpack.CODES[layout.dtype.kind],
        8 * layout.dtype.itemsize,
        backend.dlpack_device,
        flags,
    )
    return dlpack.make_capsule(tensor, (array._storage, buffer), is_versioned=is_versioned)


def _shared(array: Any) -> Any:
    try:
        return share(array)
    except Unsupported as error:
        raise BufferError(f"the array cannot be on the device: {error}") from None


def cuda_array_interface(array: Any) -> dict[str, Any]:
    """Return what `__cuda_array_interface__` (version 3) is.

    Raises
    ------
    AttributeError
        The array's memory is not on a GPU.
    """
    if not _lies_on_device(array):
        raise AttributeError(
            "this array has no __cuda_array_interface__: it is on the host, where arrays below "
            "oxinp.config.offload_threshold and those without kernels for their dtype live"
        )
    backend = _backend_of(array)
    layout = array._layout
    try:
        buffer = share(array)
    except Unsupported as error:
        raise AttributeError(f"this array has no __cuda_array_interface__: {error}") from None
    backend.order((buffer.ptr, True))
    return {
        "shape": layout.shape,
        "typestr": layout.dtype.str,
        "descr": layout.dtype.descr,
        "data": (buffer.ptr + layout.offset if layout.size else 0, not is_writeable(array)),
        "strides": None if layout.is_contiguous else layout.strides,
        "stream": backend.stream or _LEGACY_STREAM,
        "version": 3,
    }


# -- from others -------------------------------------------------------------------------------------------------------


def from_dlpack(value: Any, *, device: Any = None, copy: bool | None = None) -> Any:
    """Return an array over the memory of another library's; see `numpy.from_dlpack`.

    Parameters
    ----------
    value : object with ``__dlpack__`` and ``__dlpack_device__``
    device : {'cpu', None}
        NumPy's name for where the result is to be: "cpu", as `ndarray.device` says of all arrays of ours, forbids
        nothing.
    copy : bool, optional
        Whether to copy, never to copy, or to copy only where there is no other way.

    Raises
    ------
    BufferError
        The memory cannot be used from here, or only by a copy that `copy` forbids.
    """
    if device is not None:
        np.empty(0, device=device)  # NumPy's own error
    kind: Any = type(value)
    if isinstance(value, Handle) and kind.__dlpack__ is types.ndarray.__dlpack__:
        _check_described(value._layout)
        return copy_array(value) if copy else view_at(value, value._layout)
    where, number = value.__dlpack_device__()
    if where not in (dlpack.CUDA, dlpack.CUDA_MANAGED):
        return _from_host(value, copy)
    backend = _runtime.current()
    if backend is None or backend.dlpack_device is None:
        raise BufferError(f"the memory is on a GPU, which is not in use here: {_runtime.why_host() or 'emulated'}")
    if where == dlpack.CUDA and (where, number) != backend.dlpack_device:
        raise BufferError(
            f"the memory is on GPU {number}, arrays live on GPU {backend.dlpack_device[1]}; copy it there first"
        )
    tensor, owner = dlpack.consume(_ask(value, backend.stream or _LEGACY_STREAM, copy))
    dtype = _dtype_of(tensor)
    strides = tuple(step * dtype.itemsize for step in tensor.strides)
    layout = Layout.at(dtype, tensor.shape, strides, 0)
    if not layout.size:
        return wrap_host(np.empty(layout.shape, dtype))
    writeable = not tensor.flags & dlpack.READ_ONLY
    made = adopt_device(tensor.address, layout, owner, writeable=writeable)
    return copy_array(made) if copy and not tensor.flags & dlpack.IS_COPIED else made


def _check_described(layout: Layout) -> None:
    """Refuse what DLPack cannot describe, also where no capsule is made."""
    np.empty(0, layout.dtype).__dlpack__(max_version=(1, 0))  # NumPy's own error
    # NumPy looks at no step of a dimension that has none.
    if any(
        step % layout.dtype.itemsize for step, length in zip(layout.strides, layout.shape, strict=True) if length > 1
    ):
        raise BufferError("DLPack only supports strides which are a multiple of itemsize.")


def _dtype_of(tensor: dlpack.Tensor) -> np.dtype[Any]:
    kind = dlpack.KINDS[tensor.code]
    try:
        return np.dtype("?" if kind == "b" and tensor.bits == 8 else f"{kind}{tensor.bits // 8}")
    except TypeError:
        raise BufferError(f"NumPy has no dtype of kind {kind!r} and {tensor.bits} bits") from None


def _from_host(value: Any, copy: bool | None) -> Any:
    wishes: dict[str, Any] = {} if copy is None else {"copy": copy}
    seen = np.from_dlpack(value, **wishes)
    return types.from_host(seen) if copy else adopt_host(seen)


def _ask(value: Any, stream: int, copy: bool | None) -> Any:
    """Return the capsule of an object that may not know the newer keywords."""
    wishes = {"max_version": (1, 1)} | ({} if copy is None else {"copy": copy})
    try:
        return value.__dlpack__(stream=stream, **wishes)
    except TypeError:
        if copy is False:
            raise
        return value.__dlpack__(stream=stream)


def from_cuda_array_interface(value: Any, interface: dict[str, Any]) -> Any:
    """Return an array over device memory that an object describes by its `__cuda_array_interface__`.

    Raises
    ------
    BufferError
        The memory cannot be used from here.
    ValueError
        The description is of an unknown kind.
    """
    backend = _runtime.current()
    if backend is None:
        raise BufferError(f"the memory is on a GPU, which is not in use here: {_runtime.why_host()}")
    if interface.get("mask") is not None:
        raise ValueError("arrays with a mask in their __cuda_array_interface__ are not supported")
    dtype = np.dtype(interface["typestr"])
    shape = tuple(interface["shape"])
    strides = interface.get("strides")
    layout = Layout.of(dtype, shape) if strides is None else Layout.at(dtype, shape, tuple(strides), 0)
    if not layout.size:
        return wrap_host(np.empty(shape, dtype))
    address, read_only = interface["data"]
    stream = interface.get("stream")
    if stream is not None:
        if stream == 0:
            raise ValueError("a __cuda_array_interface__ names no stream 0: 1 is the legacy default stream")
        backend.wait_for(stream)
    return adopt_device(address, layout, value, writeable=not read_only)
