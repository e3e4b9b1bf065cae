"""Generate a program: the table of rules, and the profiles of sizes."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

from tests.fuzz import (
    rules_fail,
    rules_foreign,
    rules_functions,
    rules_grow,
    rules_library,
    rules_make,
    rules_read,
    rules_write,
)
from tests.fuzz.draw import Draw, RandomDraw
from tests.fuzz.program import Program
from tests.fuzz.scope import Scope

Rules = tuple[tuple[Callable[[Scope], None], int], ...]

# How often each kind of statement comes up. These compute with arrays alone.
ARRAY_RULES: Rules = (
    (rules_make.compute, 20),
    (rules_make.view, 14),
    (rules_write.part, 12),
    (rules_write.whole, 10),
    (rules_write.late_write, 8),
    (rules_write.overlap, 8),
    (rules_read.reduce, 9),
    (rules_read.reduce_otherwise, 6),
    (rules_read.row_wise, 5),
    (rules_make.create, 7),
    (rules_write.out, 7),
    (rules_make.delete, 6),
    (rules_read.to_python, 6),
    (rules_read.element, 8),
    (rules_make.convert, 4),
    (rules_write.fancy_read, 3),
    (rules_write.fancy_write, 4),
    (rules_read.loop, 6),
    (rules_read.rows, 4),
    (rules_grow.grow, 9),
    (rules_read.reduce_into, 3),
    (rules_make.create_empty, 2),
    (rules_make.alias, 2),
    (rules_make.number, 5),
    (rules_make.evaluate, 2),
    (rules_make.host_array, 4),
    (rules_make.rearrange, 3),
    (rules_make.multiply, 3),
    (rules_fail.failing, 3),
    (rules_fail.failing_index, 1),
    (rules_write.mutate, 4),
)
RULES: Rules = (
    *ARRAY_RULES,
    (rules_foreign.foreign_class, 5),
    (rules_foreign.callback, 3),
    (rules_foreign.threads, 2),
    (rules_foreign.read_only, 3),
    (rules_foreign.reinterpret, 3),
    (rules_foreign.host_mode, 2),
    (rules_foreign.floating_point_errors, 2),
    (rules_library.random_numbers, 3),
    (rules_library.transform, 2),
    (rules_library.linear_algebra, 2),
    (rules_library.sparse, 2),
    (rules_functions.exact_function, 6),
    (rules_functions.rounded_function, 4),
)
# Percent of statements followed by a comparison, which flushes: mostly none, so that chains grow long.
CHECK_PERCENTS = (0, 0, 0, 0, 15, 15, 15, 100)


@dataclass(frozen=True)
class SizeProfile:
    """The dimensions programs are made of: shapes are tails of one of these, some dimensions replaced by 1 or 0."""

    name: str
    weight: int
    dims: tuple[tuple[int, ...], ...]
    max_size: int
    max_statements: int


PROFILES = (
    SizeProfile("small", 60, ((5,), (7, 5), (3, 4), (4, 4), (2, 3, 5), (2, 1, 3, 4), (17,), (1,)), 2000, 24),
    SizeProfile("medium", 26, ((33,), (129,), (31, 33), (32, 32), (64, 20), (7, 9, 11), (3, 5, 4, 6)), 6000, 18),
    # 64 KB is 8192 float64, 16384 float32: both sides of the threshold.
    SizeProfile("large", 14, ((8192,), (8193,), (16385,), (91, 97), (3, 2731), (5, 41, 43), (128, 128)), 40000, 10),
)  # fmt: skip
# For a threshold between zero and infinity, which only large arrays cross.
LARGE_WEIGHTS = {"small": 30, "medium": 10, "large": 60}
LARGE_PROFILES = tuple(replace(profile, weight=LARGE_WEIGHTS[profile.name]) for profile in PROFILES)


def profiles_for(threshold: float) -> tuple[SizeProfile, ...]:
    """Return the sizes with which a threshold of `offload_threshold` makes a difference."""
    return LARGE_PROFILES if 0 < threshold < float("inf") else PROFILES


def generate(
    draw: Draw, origin: str = "", profiles: tuple[SizeProfile, ...] = PROFILES, rules: Rules = RULES
) -> Program:
    """Return a random program.

    Parameters
    ----------
    draw : Draw
        The choices.
    origin : str
        Where the program comes from, for the report.
    profiles : tuple of SizeProfile
        The sizes to choose from.
    rules : tuple of (callable, int)
        The kinds of statements and how often they come up.
    """
    functions, weights = [rule for rule, _ in rules], tuple(accumulate(weight for _, weight in rules))
    profile = draw.weighted(profiles, tuple(accumulate(row.weight for row in profiles)))
    scope = Scope(draw, draw.choice(profile.dims), profile.max_size)
    check_percent = draw.choice(CHECK_PERCENTS)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(draw.integer(1, 3)):
            rules_make.create(scope)
        for _ in range(draw.integer(2, profile.max_statements)):
            draw.weighted(functions, weights)(scope)
            if draw.chance(check_percent):
                scope.check()
    return scope.program(origin)


def generate_seeded(seed: int, index: int, threshold: float = 0, rules: Rules = RULES) -> Program:
    """Return program `index` of a seed: for a threshold always the same one."""
    return generate(RandomDraw(f"{seed}/{index}"), f"program {index} of seed {seed}", profiles_for(threshold), rules)
