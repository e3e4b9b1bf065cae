"""Launches on a GPU: launchers of kernels and the tensor maps that they are given, in the order of streams."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

from oxinp._config import config
from oxinp._driver.launch import Launcher
from oxinp._driver.tensormap import TensorMap, TensorMapEncoder
from oxinp._ptx.synchronize import GRID_WAIT
from oxinp._runtime import here, timeline
from oxinp._runtime.counters import NO_WORK, after_launch, stats
from oxinp._runtime.timeline import in_turn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from oxinp._driver.stream import Stream
    from oxinp._ptx.kernel import Kernel
    from oxinp._ptx.tma import MapSpec, MatrixMaps
    from oxinp._runtime.backend import Launch
    from oxinp._runtime.timeline import Device

__all__ = ["Elsewhere", "Launches", "Launching"]

_L2_PROMOTION_NBYTES = 128
_MAX_MAPS = 256  # tensor maps that are kept, and encoders of such
_MIN_OVERLAPPING_VERSION = 12030  # from which graphs know kernels that begin before others have ended
_BULK_STORE = "d.global.shared::cta"
"""In the text of every instruction that writes to memory by a tensor map."""


class Launching:
    """The stream of the launch that is being made; the device's turn is held where it changes."""

    __slots__ = ("stream",)

    def __init__(self) -> None:
        self.stream = 0


class Elsewhere(Protocol):
    """Where a thread's launches may go instead of the stream of its timeline."""

    stream: Stream


class _Map(bytes):
    """A tensor map, which knows where its array lies, and keeps what it was made from."""

    ptr: int
    spec: MapSpec | MatrixMaps


class Launches:
    """Launchers of the kernels of one GPU, and the tensor maps that these take.

    Parameters
    ----------
    backend : Device
    """

    def __init__(self, backend: Device) -> None:
        self._backend = backend
        self._current = Launching()
        self._maps: dict[tuple[Any, ...], _Map] = {}  # not by the Spec, whose hash is a call of Python's
        self._encoders: dict[MatrixMaps, tuple[TensorMapEncoder, int]] = {}
        # What `relauncher` gives out is theirs; the second ones may begin before the kernels before them have ended.
        self._shared: tuple[WeakKeyDictionary[Kernel, Launcher], ...] = WeakKeyDictionary(), WeakKeyDictionary()

    def launcher(
        self,
        kernel: Kernel,
        grid: tuple[int, int, int],
        num_varying: int,
        constants: tuple[Any, ...],
        work: tuple[int, int] = NO_WORK,
        overlaps: bool = True,
    ) -> Launch:
        """Return a callable that launches a kernel on the stream that is current then; see `Backend.launcher`."""
        made = self._launcher(kernel, grid, num_varying, constants, after_launch(work), overlaps=overlaps)
        return self._finished(made.launch, kernel, num_varying)

    def relauncher(self, kernel: Kernel, num_varying: int, overlaps: bool = True) -> Callable[..., None] | None:
        """Return what launches a kernel with any grid and constants; see `Backend.relauncher`."""
        if after_launch() is not None:
            return None
        known = self._shared[overlaps]
        shared = known.get(kernel)
        if shared is None:
            made = self._launcher(kernel, (1, 1, 1), len(kernel.params), (), None, overlaps=overlaps)
            shared = known[kernel] = made
        return self._finished(shared.anywhere, kernel, num_varying, first=1)

    def _launcher(
        self,
        kernel: Kernel,
        grid: tuple[int, int, int],
        num_varying: int,
        constants: tuple[Any, ...],
        after: Any,
        *,
        overlaps: bool,
    ) -> Launcher:
        has_overlap = self._backend.context.driver.version >= _MIN_OVERLAPPING_VERSION
        return Launcher(
            self._backend.function(kernel),
            grid,
            kernel.block,
            kernel.shared_nbytes,
            kernel.param_format,
            num_varying,
            constants,
            cluster=kernel.cluster,
            is_programmatic=overlaps and GRID_WAIT in kernel.ptx and has_overlap,
            current=self._current,
            counter=stats,
            after=after,
        )

    def _finished(self, launch: Launch, kernel: Kernel, num_varying: int, first: int = 0) -> Launch:
        """Return a launch that keeps the order of streams, and waits where `config.synchronous` has it wait.

        The parameters are its arguments from the `first` one on.
        """
        if here.are_several:
            launch = self._ordered(launch, kernel, num_varying, first)
        if not config.synchronous:
            return launch
        backend = self._backend
        synchronize, settle = backend.context.driver.cuStreamSynchronize, backend.context.launches.settle

        def launch_and_wait(*varying: Any) -> None:
            launch(*varying)
            synchronize(backend.stream)
            settle()

        return launch_and_wait

    def _ordered(self, launch: Launch, kernel: Kernel, num_varying: int, first: int) -> Launch:
        """Return a launch on the timeline of the thread that calls it, behind what it must not overtake."""
        params = list(enumerate(kernel.params[:num_varying], first))
        places = [(i, "w" in param.access) for i, param in params if param.is_pointer]
        maps = [i for i, param in params if param.type is None]
        stores = _BULK_STORE in kernel.ptx  # by which of its maps, nothing says
        backend, launching = self._backend, self._current

        def launch_in_order(*varying: Any) -> None:
            accesses = [(varying[i], writes) for i, writes in places]
            accesses += [(varying[i].ptr, stores) for i in maps if isinstance(varying[i], _Map)]
            line = timeline.current(backend)

            def launch_now() -> None:
                line.order(accesses)
                branch = here.thread.branch
                launching.stream = line.handle if branch is None else branch.stream.handle
                launch(*varying)

            in_turn(backend, launch_now)

        return launch_in_order

    @contextlib.contextmanager
    def on(self, branch: Elsewhere) -> Iterator[None]:
        """Let the calling thread's launches go to a branch inside a `with` block; under the device's lock and turn."""
        before, stream = here.thread.branch, self._current.stream
        here.thread.branch = branch
        if not here.are_several:
            self._current.stream = branch.stream.handle
        try:
            yield
        finally:
            here.thread.branch = before
            if not here.are_several:
                self._current.stream = stream

    def tensor_map(self, spec: MapSpec, ptr: int) -> bytes:
        """Return the parameter that lets kernels copy boxes of the array at an address."""
        made = self._maps.get((id(spec), ptr))
        if made is not None:
            return made
        whole, spec = spec, spec.in_parts()
        name = "tf32" if spec.rounds_to_tf32 else spec.type.name
        value = TensorMap(
            self._backend.context,
            name,
            ptr,
            spec.shape,
            spec.strides_nbytes,
            spec.box,
            swizzle_nbytes=spec.swizzle_nbytes,
            l2_promotion_nbytes=_L2_PROMOTION_NBYTES,
        ).value
        return self._kept((id(whole), ptr), value, whole)

    def matrix_map(self, maps: MatrixMaps, extents: tuple[int, int], ptr: int) -> bytes:
        """Return what `tensor_map` does for a matrix of these extents, which may be ones that no other one has."""
        key = maps, extents, ptr
        made = self._maps.get(key)
        if made is not None:
            return made
        encoder, parts = self._encoders.get(maps) or self._encoder(maps)
        lines, run = extents
        return self._kept(key, encoder.encode(ptr, (lines, run * parts)), maps)

    def _encoder(self, maps: MatrixMaps) -> tuple[TensorMapEncoder, int]:
        """Return what encodes maps, and how many elements that TMA knows are one of theirs."""
        spec = maps.spec((1, maps.box[1])).in_parts()
        made = TensorMapEncoder(
            self._backend.context,
            spec.type.name,
            spec.strides_nbytes,
            spec.box,
            swizzle_nbytes=spec.swizzle_nbytes,
            l2_promotion_nbytes=_L2_PROMOTION_NBYTES,
        )
        if len(self._encoders) >= _MAX_MAPS:
            self._encoders.clear()
        found = self._encoders[maps] = made, len(maps.type.parts)
        return found

    def _kept(self, key: tuple[Any, ...], value: bytes, spec: MapSpec | MatrixMaps) -> _Map:
        """Return a tensor map that is found by a key, whose last part is its address, from now on."""
        made = _Map(value)
        made.ptr, made.spec = key[-1], spec
        if len(self._maps) >= _MAX_MAPS:
            self._maps.clear()
        self._maps[key] = made
        return made
