"""Epilogues of products on Hopper's tensor cores, and what NumPy makes of the exact sums.

Operands are small integers, so that sums are exact in every order, and what follows them has one right answer.
"""

from typing import Any, NamedTuple

import numpy as np

from oxinp._core.ufunc.table import UFUNCS
from oxinp._kernels.gemm.epilogue import Epilogue
from oxinp._kernels.problem import Instr, Operand, ScalarOperand
from oxinp._ptx.math.widen import widened
from oxinp._ptx.types import Type, f16, f32, i8, i32

LOWERINGS = {row.name: row.lowerings[0] for row in UFUNCS}


def lowering(name, type):
    """The kernel language's element function of a ufunc."""
    found = LOWERINGS[name]
    dtype = type.dtype
    own = found.get(dtype.name)
    if own is not None:
        return own
    return widened(found[dtype.kind]) if type is f16 else found[dtype.kind]


def converted(type):
    """A cast."""

    def cast(k, x):
        return k.cast(x, type)

    return cast


class Recipe(NamedTuple):
    """An epilogue.

    Attributes
    ----------
    type, out : Type
        Of the operands, and of the product without an epilogue.
    arrays : tuple of (Type, str)
        What is read beside the sums: along ``"row"`` or ``"column"``, ``"all"`` elements, every ``"second"`` or
        ``"one"`` for all.
    scalars : tuple of (Type, number)
    steps : tuple
        Of (function, type, arguments): a ufunc's name, or "cast". Value 0 is the sum, then come arrays and scalars.
    ulp : int
        How far off the result may be.
    """

    type: Type
    out: Type
    arrays: tuple = ()
    scalars: tuple = ()
    steps: tuple = ()
    ulp: int = 0

    @property
    def written(self):
        """The type of C."""
        return self.steps[-1][1]

    def epilogue(self, m, n, count=1):
        """What is asked of the kernel, of matrices of C that follow each other."""
        batch = (m * n,) if count > 1 else ()
        inputs = [Operand(type, self.strides(kind, n, batch)) for type, kind in self.arrays]
        inputs += [ScalarOperand(type) for type, _ in self.scalars]
        instrs = [
            Instr(converted(type) if name == "cast" else lowering(name, type), type, arguments)
            for name, type, arguments in self.steps
        ]
        return Epilogue(tuple(inputs), tuple(instrs), len(inputs) + len(instrs))

    def strides(self, kind, n, batch):
        still = (0,) * len(batch)
        return {
            "row": (*still, 0, 1),
            "column": (*still, 1, 0),
            "one": (*still, 0, 0),
            "all": (*batch, n, 1),
            "second": (*(2 * step for step in batch), 2 * n, 2),
        }[kind]

    def draw(self, rng, m, n, count=1):
        """The arrays as they lie in memory."""
        sizes = {"row": n, "column": m, "one": 1, "all": count * m * n, "second": 2 * count * m * n}
        return [rng.integers(-9, 10, sizes[kind], np.int8).astype(type.dtype) for type, kind in self.arrays]

    def expected(self, sums, held):
        """What NumPy makes of exact sums, (count, m, n)."""
        count, m, n = sums.shape
        itemsizes = [x.itemsize for x in held]
        values: list[Any] = [sums]
        for (_, kind), x, size in zip(self.arrays, held, itemsizes, strict=True):
            strides = [step * size for step in self.strides(kind, n, (m * n,))]
            values.append(np.lib.stride_tricks.as_strided(x, sums.shape, strides))
        values += [type.dtype.type(value) for type, value in self.scalars]
        with np.errstate(all="ignore"):
            for name, type, arguments in self.steps:
                x = [values[a] for a in arguments]
                values.append(x[0].astype(type.dtype) if name == "cast" else getattr(np, name)(*x))
        assert values[-1].dtype == self.written.dtype
        assert count == len(values[-1])
        return values[-1]


RECIPES = {
    "bias and relu": Recipe(
        f16, f16, ((f16, "row"),), ((f32, 0.0),),
        (("cast", f32, (1,)), ("add", f32, (0, 3)), ("maximum", f32, (4, 2)), ("cast", f16, (5,))),
    ),
    "alpha, beta and bias along columns": Recipe(
        f16, f16, ((f16, "all"), (f32, "column")), ((f32, 0.5), (f32, -2.0)),
        (("cast", f32, (1,)), ("multiply", f32, (0, 3)), ("multiply", f32, (5, 4)), ("add", f32, (6, 7)),
         ("add", f32, (8, 2)), ("cast", f16, (9,))),
    ),
    "rounded as NumPy": Recipe(
        f16, f16, ((f16, "row"), (f16, "second")), ((f16, 3.0),),
        (("cast", f16, (0,)), ("multiply", f16, (4, 3)), ("add", f16, (5, 1)), ("add", f16, (6, 2))),
    ),
    "wider": Recipe(
        f16, f16, ((f32, "one"),), (), (("cast", f16, (0,)), ("cast", f32, (2,)), ("multiply", f32, (3, 1)))
    ),
    "in f32": Recipe(f16, f32, ((f32, "row"),), (), (("add", f32, (0, 1)),)),
    "tf32": Recipe(f32, f32, ((f32, "all"),), ((f32, 0.25),), (("multiply", f32, (0, 2)), ("add", f32, (3, 1)))),
    "bytes": Recipe(i8, i32, ((i32, "row"),), (), (("add", i32, (0, 1)),)),
    "bytes that wrap around": Recipe(i8, i8, ((i8, "all"),), (), (("cast", i8, (0,)), ("multiply", i8, (2, 1)))),
    "bias and relu as NumPy": Recipe(
        f16, f16, ((f16, "row"),), ((f16, 0.0),),
        (("cast", f16, (0,)), ("add", f16, (3, 1)), ("maximum", f16, (4, 2))),
    ),
    "alpha and beta": Recipe(
        f16, f16, ((f16, "all"),), ((f32, 0.5), (f32, -2.0)),
        (("cast", f32, (1,)), ("multiply", f32, (0, 2)), ("multiply", f32, (4, 3)), ("add", f32, (5, 6)),
         ("cast", f16, (7,))),
    ),
    "tanh of f16": Recipe(
        f16, f16, ((f16, "row"), (f16, "column")), (),
        (("cast", f16, (0,)), ("add", f16, (3, 1)), ("multiply", f16, (4, 2)), ("tanh", f16, (5,))), ulp=1,
    ),
    "tanh": Recipe(f16, f32, ((f32, "row"),), (), (("add", f32, (0, 1)), ("tanh", f32, (2,))), ulp=2),
}  # fmt: skip


def operands(type, rng, m, n, depth, count=1):
    """A (M, K) and B (N, K), of which the product is ``a @ b.T``, and the exact sums."""
    a, b = (rng.integers(-4, 5, (count, extent, depth)) for extent in (m, n))
    sums = (a.astype(np.float32) @ b.astype(np.float32).swapaxes(1, 2)).astype(
        np.float32 if type.is_float else np.int32
    )
    return a.astype(type.dtype), b.astype(type.dtype), sums
