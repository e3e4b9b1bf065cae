"""A rule of loops over sizes that grow: chains whose operands are rows, columns, matrices and single elements."""

from collections.abc import Callable
from itertools import accumulate

import numpy as np

from tests.fuzz.expressions import comparable, one_zero
from tests.fuzz.operands import NUMPY_SCALARS, PYTHON_SCALARS
from tests.fuzz.scope import Scope

LEAST = 24  # elements of an array that parts of growing sizes are taken of
MAX_COUNT = 4  # rows, which do not grow
MAX_SIZES = 7
# Parts of an array {a}: of {k} elements, of {k} for each of {m} rows, and of {m}, beginning anywhere.
ROWS = ("{a}[:{k}]", "{a}[{o}:{k} + {o}]", "{a}[:2 * {k}:2]", "{a}[::-1][:{k}]", "np.flip({a}[{o}:{k} + {o}])")
MATRICES = ("{a}[:{m} * {k}].reshape({m}, {k})", "{a}[:{m} * {k}].reshape({k}, {m}).T")
COLUMNS = ("{a}[:{m}, None]", "{a}[{o}:{m} + {o}].reshape({m}, 1)")
SINGLE = ("{a}[:1]", "{a}[{o}]", "{a}[:1, None]", "np.asarray({a}[{o}:{o} + 1])")
KINDS = (ROWS, ROWS, MATRICES, MATRICES, COLUMNS, COLUMNS, SINGLE, None)
TEMPLATES: tuple[tuple[str, int, Callable[..., bool] | None], ...] = (
    ("np.where({x}, {y}, {z})", 8, None),
    ("np.where({x} > {y}, {z}, {x})", 6, comparable),
    ("np.clip({x}, {y}, {z})", 4, one_zero),
    ("({x} * {y} + {z})", 6, None),
    ("({x} - {y} * {z})", 3, None),
    ("({x} + {y})", 3, None),
    ("({x} * {y})", 3, None),
    ("({x} <= {y})", 2, comparable),
    ("({x}).astype(np.float32)", 1, None),
)
WEIGHTS = tuple(accumulate(weight for _, weight, _ in TEMPLATES))
FORMS = (
    "{t} = [{code} for k in range({first}, {last}, {step})]",
    "{t} = [{code} for k in (*range({first}, {last}, {step}), {first}, {first})]",
    "{t} = np.zeros(({m}, {last}), {dtype})\nfor k in range({first}, {last}, {step}):\n    {t}[:, :k] = {code}",
    "{t} = np.ones(({m}, {last}), {dtype})\nfor k in range({first}, {last}, {step}):\n    {t}[:, :k] *= {code}",
)


def are_complex(*values: object) -> bool:
    """Tell whether NumPy's products depend on strides: those of complex numbers, which its vectors round once less."""
    return any(np.iscomplexobj(value) for value in values)


class _Parts:
    """What parts of growing sizes are taken of: flat names, and sizes that all of them have room for."""

    def __init__(self, scope: Scope, names: list[str]) -> None:
        draw, room = scope.draw, min(int(np.size(scope.values[name])) for name in names)
        self.scope, self.names = scope, names
        self.count = draw.integer(2, MAX_COUNT)
        most = min(room, scope.max_size) // self.count
        self.offset = draw.integer(1, 3)
        self.first, self.step = draw.integer(1, 3), draw.integer(1, max(1, most // MAX_SIZES))
        self.last = min(most - self.offset, self.first + MAX_SIZES * self.step) + 1

    def leaf(self, kind: tuple[str, ...] | None) -> tuple[str, object]:
        """Return the code of an operand of a kind, None for a scalar, and the values it may have."""
        draw = self.scope.draw
        if kind is None:
            code = draw.choice(PYTHON_SCALARS if draw.chance(70) else NUMPY_SCALARS)
            return code, self.scope.evaluate(code)
        name = draw.choice(self.names)
        return draw.choice(kind).format(a=name, k="k", m=self.count, o=self.offset), self.scope.values[name]

    def chain(self, depth: int) -> tuple[str, list[object]]:
        """Return the code of a chain of `depth` operations, one at least, and the values of its operands."""
        draw = self.scope.draw
        template, _, accepts = draw.weighted(TEMPLATES, WEIGHTS)
        operands: dict[str, tuple[str, list[object]]] = {}
        for name, kind in zip("xyz", draw.sample(KINDS, 3), strict=True):  # mostly of three shapes
            if f"{{{name}}}" not in template:
                continue
            if depth > 1 and draw.chance(40):
                operands[name] = self.chain(depth - 1)
            else:
                code, value = self.leaf(kind)
                operands[name] = code, [value]
        values = [each for _, held in operands.values() for each in held]
        is_known = depth == 1  # what a chain gives is not known here, but whether it is complex
        if not (accepts is None or (is_known and accepts(*values))) or ("*" in template and are_complex(*values)):
            return next(iter(operands.values()))
        return template.format(**{name: code for name, (code, _) in operands.items()}), values


def grow(scope: Scope) -> None:
    """Compute one chain for sizes that grow, as a solver by recursion does."""
    draw = scope.draw
    names = [name for name in scope.arrays() if np.size(scope.values[name]) >= LEAST]
    if not names:
        return
    flat = []
    for name in {scope.pick(names): None, scope.pick(names): None}:
        flat.append(scope.fresh())
        scope.emit("grow", f"{flat[-1]} = {name}.ravel()")
    parts = _Parts(scope, flat)
    code, used = parts.chain(draw.choice((1, 1, 2, 3)))
    form = draw.choice([form for form in FORMS if "*=" not in form or not are_complex(scope.values[flat[0]], *used)])
    dtype = scope.values[flat[0]].dtype
    target = scope.fresh("o" if form.startswith("{t} = [") else "a")
    scope.emit(
        "grow",
        form.format(
            t=target, code=code, m=parts.count, first=parts.first, last=parts.last, step=parts.step, dtype=f"'{dtype}'"
        ),
    )
