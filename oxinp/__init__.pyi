# Written by docs/type_stubs.py from the tables; type checkers alone read it.
from numpy import *
from numpy import __version__ as __version__

from oxinp import cuda as cuda
from oxinp import scipy as scipy
from oxinp import sparse as sparse
from oxinp._config import config as config
from oxinp._core.host.fallback import FallbackError as FallbackError
from oxinp._core.host.fallback import FallbackWarning as FallbackWarning
from oxinp._core.lazy.evaluate import evaluate as evaluate
from oxinp._core.lazy.explain import explain as explain
from oxinp._core.manipulation.copy import asnumpy as asnumpy
from oxinp._runner.notebook import install as install
from oxinp._runner.notebook import load_ipython_extension as load_ipython_extension

def show_versions() -> None: ...
