"""NumPy on the GPU by changing one import: ``import oxinp as np``.

Every public name of NumPy's is here, made when it is first used; `oxinp._api.coverage` is the table of them. Beside
them: `config`, the settings; `evaluate` and `explain`; `oxinp.scipy`, SciPy; `oxinp.sparse`, its sparse arrays; and
`oxinp.cuda`, the device.
"""

import importlib
import sys
from typing import Any

from oxinp._api import namespace as _namespace
from oxinp._config import config
from oxinp._core.host.fallback import FallbackError, FallbackWarning
from oxinp._core.lazy.evaluate import evaluate
from oxinp._core.lazy.explain import explain

if not getattr(sys, "_is_gil_enabled", lambda: True)():  # which the memory pool and the fast paths of operators rely on
    raise ImportError(
        "oxinp needs Python's global interpreter lock, which this free-threaded Python runs without: start it with the "
        "environment variable PYTHON_GIL=1 (or python -X gil=1), or use the ordinary build of Python"
    )

# Packages of our own that NumPy has not, imported when first used.
_PACKAGES = ("array_api", "cuda", "scipy", "sparse")

__all__ = ["FallbackError", "FallbackWarning", "config", "evaluate", "explain", *_namespace.names()]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    value = importlib.import_module(f"oxinp.{name}") if name in _PACKAGES else _namespace.resolve(name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PACKAGES, *_namespace.names()})
