"""Functions of `scipy.sparse.linalg` over our arrays."""

from __future__ import annotations

import scipy.sparse.linalg

from oxinp._core.array import dispatch
from oxinp.sparse._executed import composed, executed
from oxinp.sparse.linalg import _krylov

_INTERFACE = executed("scipy.sparse.linalg._interface")
LinearOperator = _INTERFACE.LinearOperator
LinearOperator.__module__ = "oxinp.scipy.sparse.linalg"
dispatch.register(scipy.sparse.linalg.LinearOperator, LinearOperator)

# THE FUNCTIONS that are SciPy's own code over our arrays, by the module that defines them.
_COMPOSED = {
    "_interface": "aslinearoperator",
    "_isolve.iterative": "bicg bicgstab cg cgs gmres qmr",
    "_isolve.lgmres": "lgmres",
    "_isolve._gcrotmk": "gcrotmk",
    "_isolve.minres": "minres",
    "_isolve.tfqmr": "tfqmr",
    "_isolve.lsqr": "lsqr",
    "_isolve.lsmr": "lsmr",
    "_norm": "norm",
    "_onenormest": "onenormest",
    "_expm_multiply": "expm_multiply",
    "_matfuncs": "expm inv matrix_power",
    "_eigen.lobpcg.lobpcg": "lobpcg",
}
_FASTER = {name: getattr(_krylov, name) for name in _krylov.__all__}
for _module, _names in _COMPOSED.items():
    for _name in _names.split():
        composed(f"scipy.sparse.linalg.{_name}", f"scipy.sparse.linalg.{_module}", _FASTER.get(_name))

__all__ = ["LinearOperator"]
