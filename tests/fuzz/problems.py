"""Random problems for every planner, as programs ask for them: each family a function of the choices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.fuzz import problems_arrays, problems_kernels, problems_libraries, problems_products, problems_sequences
from tests.fuzz.problem import Problem

FAMILIES: dict[str, Callable[[Problem], Any]] = {
    function.__name__: function
    for function in (
        problems_arrays.chains,
        problems_arrays.sizes,
        problems_arrays.copies,
        problems_arrays.reductions,
        problems_arrays.rows,
        problems_arrays.scans,
        problems_products.products,
        problems_products.large_products,
        problems_products.symmetric_products,
        problems_products.triangular_systems,
        problems_sequences.gathers,
        problems_sequences.sorts,
        problems_sequences.transforms,
        problems_products.factorisations,
        problems_kernels.fourier_transforms,
        problems_kernels.strided_products,
        problems_kernels.strided_factorisations,
        problems_kernels.indexed_elements,
        problems_kernels.strided_passes,
        problems_kernels.lines,
        problems_kernels.sorted_rows,
        problems_kernels.kernel_specs,
        problems_kernels.slices,
        problems_libraries.sparse,
        problems_libraries.random_numbers,
    )
}

OF_KERNELS = frozenset(
    {name for name, function in FAMILIES.items() if function.__module__ == problems_kernels.__name__} - {"slices"}
)
"""Families that ask planners themselves, not NumPy's functions."""
