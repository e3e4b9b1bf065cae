"""Graphs: array operations that are recorded once and launched as a whole again and again."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any

from oxinp._driver import errors
from oxinp._driver import graph as driver_graph
from oxinp._driver.stream import Stream as DriverStream
from oxinp._runtime import here, hooks, timeline
from oxinp._runtime.counters import stats
from oxinp._runtime.memory import Footprint
from oxinp.cuda import current

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from oxinp._runtime.cuda import CudaBackend

__all__ = ["Graph"]


_CLOSED = "this Graph is closed, or its capture has not ended"


class Graph:
    """Work of the device that was captured, and can be launched for a fraction of what its pieces cost.

    Made by `capture`.

    Attributes
    ----------
    num_kernels : int
        Kernels that each launch runs.

    Notes
    -----
    A graph names memory, not arrays. Arrays given to `capture` keep their memory, and what the block assigns to them is
    written there, so that each launch goes on from where the last one ended. Other arrays that the block reads have to
    stay alive as long as the graph; what it makes has its own memory, which each launch writes anew.

    Examples
    --------
    >>> import oxinp as np
    >>> if np.cuda.is_available():
    ...     u = np.zeros(1_000_000)
    ...     with np.cuda.Graph.capture(u) as step:
    ...         u += 1
    ...     for _ in range(100):
    ...         step.launch()
    ...     first = float(u[0])  # 100.0
    """

    def __init__(self) -> None:
        self.num_kernels = 0
        self._graph: driver_graph.Graph | None = None
        self._executable: driver_graph.Executable | None = None
        self._backend: CudaBackend | None = None
        self._memory: Any = None
        self._footprint: Footprint | None = None
        self._arrays: tuple[Any, ...] = ()

    @classmethod
    @contextlib.contextmanager
    def capture(cls, *arrays: Any) -> Iterator[Graph]:
        """Record what the device would do in a `with` block, instead of doing it.

        Parameters
        ----------
        *arrays : ndarray
            Those that the block changes and a later launch has to find changed.

        Yields
        ------
        Graph
            Complete after the block.

        Raises
        ------
        NotSupported
            There is no GPU to launch it on.
        CaptureError
            The block reads from the device, or copies from the host to it: neither can be replayed. Or it did nothing
            on the device, as operations on small arrays do.
        """
        backend = current.cuda_backend()
        if backend is None:
            raise errors.NotSupported("graphs need a GPU: oxinp.cuda.is_available() is False here")
        graph = cls()
        graph._arrays = arrays
        for array in arrays:
            current.address_of(array, is_kept=True)
        current.flush()
        for hook in tuple(hooks.before_capture):
            hook()
        with backend.captures.capturing(), graph._recording(backend):
            yield graph
            current.flush()
        if not graph.num_kernels:
            graph.close()
            raise errors.CaptureError(
                "nothing was captured: the block gave the device no work. Operations on arrays below "
                "oxinp.config.offload_threshold bytes run on the host."
            )

    @contextlib.contextmanager
    def recapture(self, *arrays: Any) -> Iterator[None]:
        """Record the work of a `with` block in the place of what the graph does now; see `capture`.

        Where only parameters have changed, the executable form is kept, and takes them over in microseconds.
        """
        with type(self).capture(*arrays) as fresh:
            yield
        executable, self._executable = self._executable, None
        if executable is not None and fresh._graph is not None:
            try:
                executable.update(fresh._graph)
            except errors.CaptureError:
                executable.close()
            else:
                self._executable, fresh._executable = None, executable
        self.close()
        for name in ("num_kernels", "_graph", "_executable", "_backend", "_memory", "_footprint", "_arrays"):
            mine, new = getattr(self, name), getattr(fresh, name)
            setattr(self, name, new)
            setattr(fresh, name, mine)

    def launch(self) -> None:
        """Queue all of it on the current stream, after everything that is pending; does not wait for it.

        Raises
        ------
        InvalidHandle
            The graph is closed.
        """
        backend, footprint = self._backend, self._footprint
        if self._graph is None or backend is None or footprint is None:
            raise errors.InvalidHandle(_CLOSED)
        current.flush()
        line = timeline.current(backend)

        def launch() -> None:  # in the turn, in which no other thread instantiates or closes it
            if self._graph is None:
                raise errors.InvalidHandle(_CLOSED)
            if self._executable is None:
                self._executable = self._graph.instantiate()
            line.launch(footprint)
            self._executable.launch(line.handle)

        timeline.in_turn(backend, launch)
        stats.launches += self.num_kernels

    def write_dot(self, path: str | os.PathLike[str], *, is_verbose: bool = False) -> None:
        """Write what it does in the DOT language, for Graphviz to draw; with all parameters if `is_verbose`."""
        if self._graph is None:
            raise errors.InvalidHandle(_CLOSED)
        self._graph.write_dot(path, is_verbose=is_verbose)

    def close(self) -> None:
        """Give it and its memory back, once what it does is done; more than once does nothing."""
        backend = self._backend
        if backend is not None:
            with backend.turn:  # no other thread is about to launch it
                give_back = self._let_go(backend)
            backend.captures.when_there_are_none(give_back)

    def _let_go(self, backend: CudaBackend) -> Callable[[], None]:
        """Forget what there is, and return what gives it back."""
        memory, made = self._memory, (self._executable, self._graph)
        self._memory = self._graph = self._executable = None
        self._arrays = ()
        return partial(_give_back, backend, memory, made)

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # at exit anything may be gone; a lost context has nothing to give back
            backend = self._backend  # finalisers take no turn, and nobody else has the graph
            if backend is not None:
                backend.captures.when_there_are_none(self._let_go(backend))

    @contextlib.contextmanager
    def _recording(self, backend: CudaBackend) -> Iterator[None]:
        """Send the backend's work to a stream of its own that is captured, and keep the memory it takes."""
        timeline.separate(backend)
        stream = DriverStream(backend.context)
        self._footprint = Footprint()
        line = backend.timeline(stream.handle, self._footprint)
        launches = stats.launches
        try:
            # Relaxed: the pool may have to grow meanwhile, and kernels to be loaded.
            with driver_graph.capture(stream, "relaxed") as captured, here.on(line):
                yield
            self._graph, self._backend = captured, backend
            captured.kept.append(stream)
            self.num_kernels = sum(node.kind == "kernel" for node in captured.nodes())
            stats.launches -= self.num_kernels  # which have not run; others have counted theirs meanwhile
        except BaseException:
            stats.launches = launches
            raise
        finally:
            self._memory = backend.close_stream(stream, keeps_memory=True)
            self._backend = backend


def _give_back(
    backend: CudaBackend, memory: Any, made: tuple[driver_graph.Executable | None, driver_graph.Graph | None]
) -> None:
    """Close what a graph had when the device is done with it."""
    if memory is not None:
        backend.wait()
        backend.pool.let_go(memory)
    for each in made:
        if each is not None:
            each.close()
