"""Why problems leave branches of planners untaken: each reason with the places that it holds for.

A place reads as `python -m tests.fuzz.planners --coverage FILE` prints it, without its line.
"""

REASONS: dict[str, tuple[str, ...]] = {}
