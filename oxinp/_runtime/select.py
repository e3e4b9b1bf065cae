"""Which backend is in use: decided at the first need, from `config.backend` and from what this machine has."""

from __future__ import annotations

import importlib
from threading import RLock
from typing import TYPE_CHECKING

from oxinp._config import before_change, config
from oxinp._runtime import here, hooks
from oxinp._runtime.backend import FORKED, MINIMUM_CC, BackendUnavailable, new_lock
from oxinp._runtime.forking import free_in_children

if TYPE_CHECKING:
    from oxinp._runtime.backend import Backend

__all__ = ["ON_GPU", "current", "device_backend", "latest", "opened", "why_host"]

# Imported when first wanted: the import of oxinp pays for neither, and the driver stays untouched until there is work.
_MODULES = {"cuda": "oxinp._runtime.cuda", "emulator": "oxinp._runtime.emulator"}

ON_GPU = ("auto", "cuda")
"""Settings of `config.backend` under which each thread has a device of its own, once there are several."""
_NAMES = {"auto": "cuda"}  # of the backends that settings mean, where they are not the settings' own

_lock = free_in_children(RLock())
_opened: dict[str, Backend] = {}
_failures: dict[str, tuple[int, BackendUnavailable]] = {}  # with the config.version they happened under
_decided: tuple[int, Backend | None] = (-1, None)  # config.version and what was decided under it
_latest: Backend | None = None  # decided on last, other than the host
_is_forked = False  # from a process that had opened a backend


def current() -> Backend | None:
    """Return the backend in use, or None where everything runs on the host.

    Raises
    ------
    BackendUnavailable
        `config.backend` asks for a device that is not to be had; says why.
    """
    version, backend = _decided
    return backend if version == config.version else _decide()


def latest() -> Backend | None:
    """Return the backend in use, or else the one that was, which arrays may still be on."""
    version, backend = _decided  # `current`, spelled out
    if version != config.version:
        backend = _decide()
    if backend is None:
        backend = _latest
    if backend is None and _is_forked:
        raise BackendUnavailable(FORKED)
    return backend


def _leave(setting: str) -> None:
    """Have arrays leave the backend in use if a setting means another one."""
    before, after = (_NAMES.get(name, name) for name in (config.backend, setting))
    if before != after and any(backend.name == before for backend in _opened.values()):
        for hook in tuple(hooks.before_leaving):
            hook()


before_change["backend"] = [_leave]


def _give_up() -> None:
    """Let no device be used in a forked child if one was in the parent."""
    global _decided, _is_forked, _latest
    if not _opened:
        return
    for backend in opened():
        backend.abandon()
    _opened.clear()
    _is_forked, _latest, _decided = True, None, (-1, None)
    config.renew()  # for what programs were made for


hooks.in_forked_child.append(_give_up)


def device_backend(ordinal: int) -> Backend:
    """Return the backend of a GPU, which may be the one that is open already.

    Raises
    ------
    BackendUnavailable
        It cannot be used; says why.
    """
    with _lock:
        if _is_forked:
            raise BackendUnavailable(FORKED)
        for backend in _opened.values():
            if backend.dlpack_device is not None and backend.dlpack_device[1] == ordinal:
                return backend
        made: Backend = importlib.import_module(_MODULES["cuda"]).open_backend(ordinal)
        made.lock = new_lock()
        _opened[f"cuda:{ordinal}"] = made
        return made


def opened() -> list[Backend]:
    """Return every backend that is open."""
    return list(_opened.values())


def why_host() -> str | None:
    """Return why everything runs on the host, cause and remedy, or None if it does not."""
    if current() is not None:
        return None
    if config.backend == "host":
        return "config.backend is 'host'; set it, or the environment variable OXINP_BACKEND, to 'auto' to use a GPU"
    return str(_failures["cuda"][1])


def _of_thread() -> Backend | None:
    """Return the calling thread's backend where each has its own, which `current` keeps nothing of."""
    if not (here.are_several and config.backend in ON_GPU):
        return None
    own: Backend = here.thread.timeline.backend
    return own


def _decide() -> Backend | None:
    global _decided, _latest
    if _is_forked and config.backend != "host":
        raise BackendUnavailable(FORKED)
    if (own := _of_thread()) is not None:
        return own
    with _lock:
        version, name = config.version, config.backend
        if (own := _of_thread()) is not None:  # by now: what is kept below is kept for a version before that
            return own
        backend: Backend | None = None
        if name == "auto":
            # Looked for once: a program that changes other settings does not pay for the search again.
            if "cuda" not in _failures:
                try:
                    backend = _open("cuda", version)
                except BackendUnavailable as error:
                    for hook in tuple(hooks.on_host):
                        hook(str(error))
        elif name != "host":
            backend = _open(name, version)
        _decided = (version, backend)
        _latest = backend or _latest
        return backend


def _open(name: str, version: int) -> Backend:
    if name in _opened:
        return _opened[name]
    failed_version, failure = _failures.get(name, (-1, None))
    if failure is not None and failed_version == version:
        raise failure.with_traceback(None)
    try:
        backend = _start() if name == "cuda" and not _opened else importlib.import_module(_MODULES[name]).open_backend()
    except BackendUnavailable as error:
        _failures[name] = (version, error)
        raise
    _failures.pop(name, None)
    _opened[name] = backend
    return backend


def _start() -> Backend:
    """Open the first GPU, and import what that and kernels need while the driver starts."""
    finish = importlib.import_module("oxinp._driver.early").start(MINIMUM_CC[0])
    try:
        module = importlib.import_module(_MODULES["cuda"])
        if finish is not None:
            for hook in hooks.while_starting:
                hook()
        backend: Backend = module.open_backend()
    finally:
        if finish is not None:
            finish()
    return backend
