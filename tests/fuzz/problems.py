"""Random problems for every planner, as programs ask for them: each family a function of the choices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.fuzz import (
    problems_again,
    problems_arrays,
    problems_corners,
    problems_factorisations,
    problems_fourier,
    problems_large,
    problems_libraries,
    problems_matrices,
    problems_passes,
    problems_products,
    problems_rows,
    problems_seldom,
    problems_sequences,
    problems_sized,
    problems_strides,
    problems_transforms,
    problems_workspace,
)
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
        problems_products.rank_k_products,
        problems_products.triangular_systems,
        problems_sequences.gathers,
        problems_sequences.sorts,
        problems_sequences.transforms,
        problems_products.factorisations,
        problems_strides.fourier_transforms,
        problems_fourier.fourier_axes,
        problems_transforms.seldom_transforms,
        problems_matrices.strided_products,
        problems_matrices.products_on_tensor_cores,
        problems_factorisations.strided_factorisations,
        problems_factorisations.seldom_factorisations,
        problems_factorisations.many_bands,
        problems_factorisations.tall_inner_products,
        problems_factorisations.matrix_functions,
        problems_workspace.smaller_workspaces,
        problems_strides.indexed_elements,
        problems_strides.grouped_elements,
        problems_rows.row_programs,
        problems_passes.strided_passes,
        problems_passes.repeated_rows,
        problems_again.planned_again,
        problems_passes.sorted_rows,
        problems_matrices.kernel_specs,
        problems_matrices.grouped_products,
        problems_passes.slices,
        problems_libraries.sparse,
        problems_libraries.random_numbers,
        problems_corners.corners,
        problems_large.fourier_filters,
        problems_large.fourier_lengths,
        problems_large.searches,
        problems_large.updates,
        problems_large.narrow_reductions,
        problems_large.rows_at_once,
        problems_large.spectra,
        problems_large.large_systems,
        problems_large.chains_of_products,
        problems_large.sparse_products,
        problems_sized.data_sized_plans,
        problems_seldom.seldom,
    )
}

LARGE = tuple(name for name, function in FAMILIES.items() if function.__module__ == problems_large.__name__)
"""Families whose problems take seconds."""

_OF_KERNELS = (
    problems_again,
    problems_factorisations,
    problems_fourier,
    problems_matrices,
    problems_passes,
    problems_rows,
    problems_seldom,
    problems_sized,
    problems_strides,
    problems_transforms,
    problems_workspace,
)
OF_KERNELS = frozenset(
    {name for name, function in FAMILIES.items() if function.__module__ in [each.__name__ for each in _OF_KERNELS]}
    - {"slices"}
)
"""Families that ask planners themselves, not NumPy's functions."""
