"""Shorten a program while its difference stays: delete statements, simplify expressions, make numbers smaller."""

import ast
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from tests.fuzz.program import CHECK, Normwise, Program, Reduction
from tests.fuzz.scope import MODULES

NUMBER = re.compile(r"(?<![\w.])[1-9]\d*(?![\w.])")  # an integer that is not a part of a name or a float
Parts = Callable[[ast.expr], list[ast.expr]]
Record = TypeVar("Record", Reduction, Normwise)
Differs = Callable[[Program], bool]
# A judge may start a process for each question: enough to finish most programs, bounded for the rest.
MAX_QUESTIONS = 2000
MAKING = ("create", "create_empty", "host_array")


class _Budget:
    """Asks the judge until questions or time run out; from then on nothing differs any more."""

    def __init__(self, differs: Differs, seconds: float) -> None:
        self._differs = differs
        self._left = MAX_QUESTIONS
        self._deadline = time.monotonic() + seconds

    def __call__(self, program: Program) -> bool:
        self._left -= 1
        return self._left >= 0 and time.monotonic() < self._deadline and self._differs(program)


def minimise(program: Program, differs: Differs, seconds: float = float("inf")) -> Program:
    """Return a program as short as deletion and simplification make it.

    Parameters
    ----------
    program : Program
        One that differs.
    differs : callable(Program) -> bool
        The judge. It must be False for a program that is not valid.
    seconds : float
        When to be content with what has been reached.

    Returns
    -------
    Program
        One for which `differs` was True (or `program` itself).
    """
    budget = _Budget(differs, seconds)
    before = None
    while program != before:
        before = program
        program = _shrink_numbers(_simplify(_delete(program, budget), budget), budget)
    return program


def _delete(program: Program, differs: _Budget) -> Program:
    """Delete runs of statements, halving their length, until no single one can go."""
    length = max(len(program.statements) // 2, 1)
    while length:
        position = len(program.statements) - length
        while position >= 0:
            shorter = program.without(range(position, position + length))
            if differs(shorter):
                program = shorter
            position -= length
            position = min(position, len(program.statements) - length)
        length //= 2
    return program


def _simplify(program: Program, differs: _Budget) -> Program:
    """Replace expressions by parts of themselves, statement by statement."""
    for i, statement in enumerate(program.statements):
        # Random data must stay seeded.
        if statement.kind == CHECK or "random" in statement.code:
            continue
        # The records of reductions name their operands, which must stay.
        records = (*statement.exact, *(record for _, record in statement.bounded))
        kept = {ast.unparse(ast.parse(record.operand)) for record in records}
        # What makes an array must go on to make one, so only its data get shorter.
        parts = _halves if statement.kind in MAKING else _parts
        changed = True
        while changed:
            changed = False
            for code in _simpler(program.statements[i].code, parts):
                statements = list(program.statements)
                statements[i] = replace(statements[i], code=code)
                candidate = Program(tuple(statements), program.origin)
                if all(operand in code for operand in kept) and differs(candidate):
                    program, changed = candidate, True
                    break
    return program


def _shrink_numbers(program: Program, differs: _Budget) -> Program:
    """Make the integers of the program smaller, each everywhere at once, so that shapes still fit each other."""
    numbers = {int(text) for statement in program.statements for text in NUMBER.findall(statement.code)}
    for number in sorted(numbers, reverse=True):
        for smaller in (2, 3, 4, 5, number // 2, number - 1):
            candidate = _with_number(program, number, smaller) if smaller < number else program
            if candidate != program and differs(candidate):
                program = candidate
                break
    return program


def _with_number(program: Program, number: int, smaller: int) -> Program:
    def put(code: str) -> str:
        return NUMBER.sub(lambda match: str(smaller) if match[0] == str(number) else match[0], code)

    def put_record(record: Record) -> Record:
        return replace(record, operand=put(record.operand))

    return Program(
        tuple(
            replace(
                s,
                code=put(s.code),
                exact=tuple(map(put_record, s.exact)),
                bounded=tuple((name, put_record(record)) for name, record in s.bounded),
            )
            for s in program.statements
        ),
        program.origin,
    )


def _simpler(code: str, parts: Parts) -> Iterator[str]:
    """Yield the code with one expression replaced by a part of it, largest first."""
    tree = ast.parse(code)
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if isinstance(value, ast.expr) and not isinstance(getattr(value, "ctx", None), ast.Store):
                for part in parts(value):
                    setattr(parent, name, part)
                    yield ast.unparse(tree)
                setattr(parent, name, value)
            elif isinstance(value, list) and value and isinstance(value[0], ast.expr):
                yield from _simpler_items(tree, value, parts)


def _simpler_items(tree: ast.AST, items: list[ast.expr], parts: Parts) -> Iterator[str]:
    for i, item in enumerate(items):
        for part in parts(item):
            items[i] = part
            yield ast.unparse(tree)
        items[i] = item


def _parts(node: ast.expr) -> list[ast.expr]:
    """Return the expressions that may stand for one: its operands."""
    match node:
        case ast.BinOp(left=left, right=right) | ast.Compare(left=left, comparators=[right]):
            return [left, right]
        case ast.UnaryOp(operand=operand):
            return [operand]
        case ast.Call(func=ast.Attribute(attr="described") | ast.Attribute(value=ast.Name(id="_rng"))):
            return []  # objects themselves, and generators, are never the same
        case ast.Call(func=ast.Attribute(value=value), args=args) if _is_module(value):
            return [each for each in args if not _is_module(each)]  # modules are never the same
        case ast.Call(func=ast.Attribute(value=value)):
            return [value]
        case ast.Subscript(value=value):
            return [value]
    return _halves(node)


def _is_module(node: ast.expr) -> bool:
    """Tell whether an expression names a module: np, np.lib.stride_tricks, math."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and (node.id == "np" or node.id in MODULES)


def _halves(node: ast.expr) -> list[ast.expr]:
    """Return the halves of a list."""
    match node:
        case ast.List(elts=[_, _, *_] as items):
            half = len(items) // 2
            return [ast.List(items[:half], ast.Load()), ast.List(items[half:], ast.Load())]
    return []
