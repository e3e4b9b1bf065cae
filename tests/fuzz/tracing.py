"""Which functions of `oxinp._kernels` trace kernels. The others plan.

A function traces if it is `retraceable`, if it makes a `Builder` or is given one, or a value or place in a kernel; so
do the methods of a class that is made of one or derived from such a class, and what nothing refers to but what traces.
What planners and kernels share counts as planning.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

SAYS_SO = frozenset({"retraceable", "Builder"})  # as decorators, or called
GIVEN = frozenset({"Builder", "Language", "Value", "Var", "Pointer", "Thread"})  # types of parameters and attributes
LAMBDA, LAMBDA_PARAMETER = "<lambda>", "k"


class Entity(NamedTuple):
    """A function, a method, a class or a table of a module.

    Attributes
    ----------
    module : str
    name : str
    line : int
        The first, of decorators if there are any, as in code objects.
    within : str
        The class of a method.
    """

    module: str
    name: str
    line: int
    within: str = ""


class Tracing:
    """What traces kernels in a package.

    Parameters
    ----------
    root : path
        Where the package of all lies.
    package : str
        The dotted name of what holds the kernels, as that of `root` is its first part.
    """

    def __init__(self, root: Path, package: str) -> None:
        self._package = package
        self._filenames: dict[str, str] = {}
        self._entities: list[Entity] = []
        self._places: dict[tuple[str, str], Entity] = {}
        self._of_place: dict[tuple[str, str], set[Entity]] = defaultdict(set)
        self._of_attribute: dict[str, set[Entity]] = defaultdict(set)
        self._bases: dict[Entity, set[tuple[str, str]]] = {}
        self._tracing: set[Entity] = set()
        for path in sorted(root.rglob("*.py")):
            parts = path.relative_to(root.parent).with_suffix("").parts
            module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            self._filenames[module] = str(path)
            _Module(self, module, ast.parse(path.read_text()))
        self._spread()
        self._begins = {(self._filenames[e.module], e.line, e.name) for e in self._tracing}

    def is_tracing(self, filename: str, line: int, name: str) -> bool:
        """Tell whether the function of a name that begins at a line of a file traces kernels."""
        return (filename, line, name) in self._begins

    def add(self, entity: Entity, read: _Read, *, traces: bool) -> None:
        """Enter what a module holds, and what that refers to."""
        if entity.module.startswith(self._package):
            self._entities.append(entity)
        if not entity.within:
            self._places[entity.module, entity.name] = entity
        for place in read.places:
            self._of_place[place].add(entity)
        for name in read.attributes:
            self._of_attribute[name].add(entity)
        if traces:
            self._tracing.add(entity)

    def derive(self, entity: Entity, bases: set[tuple[str, str]]) -> None:
        """Enter what a class is derived from."""
        self._bases[entity] = bases

    def add_inner(self, entity: Entity) -> None:
        """Enter what traces wherever it stands."""
        self._tracing.add(entity)

    def _referrers(self, entity: Entity) -> set[Entity]:
        if entity.within:
            return self._of_attribute[entity.name]
        found = self._of_place[entity.module, entity.name]
        if entity.name.startswith("_"):
            return found
        # Others import modules late, and ask them for functions by name.
        return found | {e for e in self._of_attribute[entity.name] if not e.module.startswith(self._package)}

    def _spread(self) -> None:
        """Go on until nothing more is found."""
        before = -1
        while before != len(self._tracing):
            before = len(self._tracing)
            for entity in self._entities:
                others = self._referrers(entity) - {entity}
                above = {(entity.module, entity.within), *self._bases.get(entity, ())}
                is_derived = any(self._places.get(place) in self._tracing for place in above)
                if is_derived or (others and others <= self._tracing):
                    self._tracing.add(entity)


class _Read(NamedTuple):
    """What some code refers to: names of modules, and attributes of who knows what."""

    places: set[tuple[str, str]]
    attributes: set[str]


class _Module:
    """One module: what it imports, and what it holds."""

    def __init__(self, tracing: Tracing, module: str, tree: ast.Module) -> None:
        self._tracing, self._module = tracing, module
        self._imported: dict[str, tuple[str, str]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                for each in node.names:
                    self._imported[each.asname or each.name] = (node.module, each.name)
        for statement in tree.body:
            self._enter(statement)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and self._traces(node):
                tracing.add_inner(Entity(module, node.name, _first_line(node)))
            elif isinstance(node, ast.Lambda) and LAMBDA_PARAMETER in [each.arg for each in node.args.args[:1]]:
                tracing.add_inner(Entity(module, LAMBDA, node.lineno))

    def _enter(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Import | ast.ImportFrom):
            return
        if isinstance(node, ast.ClassDef):
            self._enter_class(node)
        elif isinstance(node, ast.FunctionDef):
            self._tracing.add(
                Entity(self._module, node.name, _first_line(node)), self._read([node]), traces=self._traces(node)
            )
        else:
            for name in _bound(node) or [""]:
                self._tracing.add(Entity(self._module, name, 0), self._read([node]), traces=False)

    def _enter_class(self, node: ast.ClassDef) -> None:
        functions = [each for each in node.body if isinstance(each, ast.FunctionDef)]
        rest = [each for each in node.body if not isinstance(each, ast.FunctionDef)]
        has_builder = any(self._traces(each) for each in functions if each.name == "__init__") or any(
            isinstance(each, ast.AnnAssign) and _says(each.annotation, GIVEN) for each in rest
        )
        own = Entity(self._module, node.name, 0)
        self._tracing.add(own, self._read([*node.bases, *node.decorator_list, *rest]), traces=has_builder)
        self._tracing.derive(own, self._read(list(node.bases)).places)
        for each in functions:
            method = Entity(self._module, each.name, _first_line(each), node.name)
            self._tracing.add(method, self._read([each]), traces=has_builder or self._traces(each))

    def _traces(self, node: ast.FunctionDef) -> bool:
        """Tell whether a function says itself that it traces."""
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        given = [each.annotation for each in arguments if each.annotation is not None]
        calls = [each.func for each in ast.walk(node) if isinstance(each, ast.Call)]
        says = any(isinstance(each, ast.Name) and each.id in SAYS_SO for each in [*calls, *node.decorator_list])
        return says or any(_says(each, GIVEN) for each in given)

    def _read(self, nodes: list[ast.AST]) -> _Read:
        """Return what is read anywhere in some code, annotations apart."""
        found = _Read(set(), set())
        pending = list(nodes)
        while pending:
            node = pending.pop()
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                found.places.add(self._imported.get(node.id, (self._module, node.id)))
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                found.attributes.add(node.attr)
                if isinstance(node.value, ast.Name) and node.value.id in self._imported:
                    found.places.add((".".join(self._imported[node.value.id]), node.attr))
            for field, value in ast.iter_fields(node):
                if field not in ("annotation", "returns"):
                    each = value if isinstance(value, list) else [value]
                    pending += [child for child in each if isinstance(child, ast.AST)]
        return found


def _says(annotation: ast.expr, names: frozenset[str]) -> bool:
    """Tell whether an annotation names one of several types."""
    return any(isinstance(each, ast.Name) and each.id in names for each in ast.walk(annotation))


def _bound(node: ast.stmt) -> list[str]:
    """Return the names that a statement of a module binds."""
    return [n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]


def _first_line(node: ast.FunctionDef) -> int:
    return min([node.lineno, *[each.lineno for each in node.decorator_list]])
