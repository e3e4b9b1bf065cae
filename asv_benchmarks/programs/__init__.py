"""Whole programs, unchanged: oxinp beside NumPy, and beside CuPy where that runs them.

    python -m asv_benchmarks.programs --sizes small --json programs.json
    python -m asv_benchmarks.programs.turns small --jobs 8

What users feel is not a kernel's speed but their program's. `suite` has programs of the kinds that textbooks and
published suites have: factorisations by elements, recurrences over growing slices, stencils, networks by windows,
masks and indices in loops, products, transforms.
"""
