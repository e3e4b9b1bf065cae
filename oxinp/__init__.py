"""NumPy on the GPU by changing one import: ``import oxinp as np``.

Every public name of NumPy's is here, made when it is first used; `oxinp._api.coverage` is the table of them. Beside
them: `config`, the settings; `asnumpy`, `evaluate`, `explain` and `show_versions`; `oxinp.scipy`, SciPy;
`oxinp.sparse`, its sparse arrays; and `oxinp.cuda`, the device.
"""

import importlib
import sys
import warnings
from typing import Any

from oxinp import _config
from oxinp._api import namespace as _namespace
from oxinp._config import config
from oxinp._core.host.fallback import FallbackError, FallbackWarning
from oxinp._core.lazy.evaluate import evaluate
from oxinp._core.lazy.explain import explain
from oxinp._core.manipulation.copy import asnumpy

if not getattr(sys, "_is_gil_enabled", lambda: True)():  # which the memory pool and the fast paths of operators rely on
    raise ImportError(
        "oxinp needs Python's global interpreter lock, which this free-threaded Python runs without: start it with the "
        "environment variable PYTHON_GIL=1 (or python -X gil=1), or use the ordinary build of Python"
    )

_is_command = sys.argv[:1] == ["-m"]  # `python -m oxinp`, whose `__main__` Python is about to find
if _config.mistake is not None:  # raised here, so that no frames of ours stand between the program and what is wrong
    if _is_command:
        sys.exit(f"oxinp: {_config.mistake}")
    raise _config.mistake.with_traceback(None)
for _sentence in _config.unknown():
    if _is_command:
        sys.stderr.write(f"oxinp: {_sentence}\n")
    else:
        warnings.warn(_sentence, stacklevel=2)

# Packages of our own that NumPy has not, imported when first used.
_PACKAGES = ("array_api", "cuda", "scipy", "sparse")
# Of notebooks, and imported there only.
_IN_NOTEBOOKS = ("install", "load_ipython_extension")

__all__ = [  # noqa: PLE0604
    "FallbackError",
    "FallbackWarning",
    "asnumpy",
    "config",
    "evaluate",
    "explain",
    "show_versions",
    *_namespace.names(),
]

for _function in (asnumpy, evaluate, explain):
    _function.__module__ = __name__  # where users find them


def show_versions() -> None:
    """Print the versions of oxinp, of what it stands on and of Python, the backend and the device: for bug reports.

    `oxinp.__version__` is NumPy's, which programs ask for; that of oxinp is `oxinp.cuda.__version__`.

    See Also
    --------
    numpy.show_config : NumPy's own build.
    """
    print(importlib.import_module("oxinp._runner.info").report())  # noqa: T201 - what it is for


def __getattr__(name: str) -> Any:
    if name in _IN_NOTEBOOKS:
        value = getattr(importlib.import_module("oxinp._runner.notebook"), name)
    else:
        value = importlib.import_module(f"oxinp.{name}") if name in _PACKAGES else _namespace.resolve(name)
    if name in _PACKAGES or name in _IN_NOTEBOOKS or _namespace.is_lasting(name):
        globals()[name] = value
    return value


def __dir__() -> list[str]:
    ours = {name for name in globals() if not name.startswith("_") or name.startswith("__")}
    return sorted(ours | {*_PACKAGES, *_IN_NOTEBOOKS, *_namespace.names(), "__version__"})
