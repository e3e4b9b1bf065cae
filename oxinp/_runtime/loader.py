"""The loader: kernels as the driver has them, compiled at most once per text, device and driver."""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakValueDictionary

from oxinp._config import config
from oxinp._driver import errors
from oxinp._driver.link import link
from oxinp._driver.module import Function, Module
from oxinp._runtime.counters import stats
from oxinp._runtime.cubins import CubinCache, cubin_key
from oxinp._runtime.forking import free_in_children

if TYPE_CHECKING:
    from oxinp._driver.context import Context
    from oxinp._ptx.kernel import Kernel

__all__ = ["Loader"]


class Loader:
    """The kernels of one device. They live as long as a `Kernel` or a launcher that uses them.

    Parameters
    ----------
    context : Context
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        self._functions: WeakKeyDictionary[Kernel, Function] = WeakKeyDictionary()
        self._functions_by_text: WeakValueDictionary[tuple[str, str], Function] = WeakValueDictionary()
        self._loading = free_in_children(RLock())  # which finalisers may take again
        self._cache = CubinCache(config.cache_dir)

    @property
    def trouble(self) -> str | None:
        """Why compiled kernels are not kept on disk, or None."""
        return self._cubins().trouble

    def is_loaded(self, kernel: Kernel) -> bool:
        """Whether `function` has nothing to do but to look it up."""
        return kernel in self._functions

    def function(self, kernel: Kernel) -> Function:
        """Return a kernel as the driver has it, compiled and loaded here if it is not yet."""
        return self._functions.get(kernel) or self._load(kernel)

    def _load(self, kernel: Kernel) -> Function:
        """Return the function of a kernel, compiling or loading it if no kernel of the same text was."""
        with self._loading:
            text = (kernel.name, kernel.ptx)
            function = self._functions_by_text.get(text)
            if function is None:
                function = self._functions_by_text[text] = self.load_module(kernel).function(kernel.name)
            self._functions[kernel] = function
            kernel.let_go()
            return function

    def load_module(self, kernel: Kernel) -> Module:
        cache = self._cubins()
        key = self._key(kernel)
        cubin = cache.load(key)
        if cubin is not None:
            try:
                module = Module.from_cubin(self.context, cubin)
            except errors.CompileError:
                cache.discard(key)  # whole, and yet not what this driver takes: compile it again
            else:
                stats.cache_hits += 1
                return module
        cubin = link(self.context, kernel.ptx, name=kernel.name).cubin
        module = Module.from_cubin(self.context, cubin)
        self._keep(key, cubin)
        return module

    def compile(self, kernel: Kernel) -> None:
        """Compile a kernel into the cache on disk, where it is not there yet; threads may do so side by side."""
        key = self._key(kernel)
        if self._cubins().load(key) is None:
            self._keep(key, link(self.context, kernel.ptx, name=kernel.name).cubin)

    def _key(self, kernel: Kernel) -> str:
        # The device's own: while tuning, `capability` may be an older one's.
        return cubin_key(kernel.ptx, self.context.driver.version, self.context.device.compute_capability)

    def _keep(self, key: str, cubin: bytes) -> None:
        stats.compiled += 1
        self._cubins().store(key, cubin)

    def _cubins(self) -> CubinCache:
        if self._cache.directory != config.cache_dir:
            self._cache = CubinCache(config.cache_dir)
        return self._cache
