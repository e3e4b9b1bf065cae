"""What ``python -m oxinp info`` says: versions, paths, backend, device, memory, cache, settings."""

from __future__ import annotations

import importlib
import platform
from pathlib import Path

import numpy as np

from oxinp._config import SETTINGS, config
from oxinp._runtime import select, tuned
from oxinp._runtime.backend import Backend, BackendUnavailable
from oxinp._runtime.cubins import CubinCache
from oxinp._terminal import columns, fields
from oxinp._version import __version__

__all__ = ["report"]

_GIB = 1 << 30


def report() -> str:
    """Return the report, one ``name: value`` per line."""
    rows = [
        ("oxinp", __version__),
        ("numpy", np.__version__),
        ("scipy", importlib.import_module("scipy").__version__),
        ("python", platform.python_version()),
        ("system", platform.platform()),
        ("path", str(Path(__file__).parents[1])),
        *_backend_rows(),
        ("cache", _cache()),
        *(("tuned", told) for told in tuned.ignored()),
        *_settings(),
    ]
    return fields(rows, columns())


def _settings() -> list[tuple[str, str]]:
    """Return the settings in force, but those that have rows of their own."""
    rows = []
    for row in SETTINGS:
        value, default = getattr(config, row.name), row.default()
        if row.name not in {"backend", "cache_dir"}:
            rows.append((row.name, str(value) + ("" if value == default else f" (default: {default})")))
    return rows


def _backend_rows() -> list[tuple[str, str]]:
    try:
        backend = select.current()
    except BackendUnavailable as error:
        return [("backend", f"none: {error}")]
    return [("backend", f"host: {select.why_host()}")] if backend is None else _device_rows(backend)


def _device_rows(backend: Backend) -> list[tuple[str, str]]:
    capability, memory = backend.capability, backend.memory_stats()
    major, minor = capability.cc
    return [
        ("backend", backend.name),
        ("device", f"{capability.device_name}, compute capability {major}.{minor}, {capability.num_sms} SMs"),
        ("memory", f"{memory.free_nbytes / _GIB:.1f} GiB free of {memory.total_nbytes / _GIB:.1f} GiB"),
    ]


def _cache() -> str:
    """Return the folder, and what is wrong with it: tried by writing, for nothing else tells."""
    cache, key = CubinCache(config.cache_dir), "trial"
    cache.store(key, b"")
    if cache.trouble is not None:
        return f"{cache.directory or 'none'} ({cache.trouble})"
    cache.discard(key)
    count = cache.num_ignored()
    if count:
        why = "another user owns it or may write to it" if count == 1 else "other users own them or may write to them"
        of = "the compiled kernels there is" if count == 1 else "the compiled kernels there are"
        return f"{cache.directory} ({count} of {of} not used: {why}; delete what is not yours)"
    return cache.directory
