"""Sparse matrices in compressed rows as operations: products with dense ones, elementwise operators, rows.

A matrix is three operands: `indptr`, `indices` and `data`, whose indices somebody has checked: kernels do not.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from oxinp._core.lazy.expr import Unsupported, leaf
from oxinp._core.lazy.op import BoundOp, Op
from oxinp._core.lazy.placement import device
from oxinp._core.memory.dtypes import BOOL, DEVICE_TYPES, INT64
from oxinp._core.memory.layout import Layout
from oxinp._core.reduction.scan import plan_scan
from oxinp._core.reduction.table import CUMSUM
from oxinp._kernels.plan import Copy, Fill, Plan, Read, Scratch, inputs, outputs

_FAMILY = "oxinp._kernels.sparse."
STREAM_MEAN = 15  # mean length of rows up to which a block shares 256 of them
STREAM_LONGEST = 512  # ... and the longest, which one thread adds
INT16 = np.dtype(np.int16)
UNEVEN = 8  # times the mean length, from which on elements are dealt out evenly, not rows

Layouts = tuple[Layout, ...]


def _module(name: str) -> Any:
    return importlib.import_module(_FAMILY + name)


def _layouts(bound: BoundOp) -> list[Layout]:
    return [graph.layout for graph in bound.graphs]


def row(name: str, plan: Callable[[list[Layout], Any], Plan], infer: Callable[[Layouts, Any], Layouts]) -> Op:
    """Return the row of an operation whose plan depends on layouts and parameters alone."""
    return Op(f"sparse.{name}", lambda bound: plan(_layouts(bound), bound.parameters), infer)


def result_type(*dtypes: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype that SciPy computes a product in.

    Raises
    ------
    Unsupported
        No kernel computes in it.
    """
    dtype = np.result_type(*dtypes)
    if dtype not in DEVICE_TYPES or dtype.kind == "b" or dtype == np.float16:
        raise Unsupported(f"products in {dtype}")
    return dtype


def product_types(index: Layout, value: Layout, operand: Layout) -> Any:
    """Return the `ProductTypes` of operands."""
    dtypes = [each.dtype for each in (index, value, operand)]
    result = result_type(*dtypes[1:])
    return _module("types").ProductTypes(*[DEVICE_TYPES[dtype] for dtype in (*dtypes, result)])


# -- products ----------------------------------------------------------------------------------------------------------


def _infer_matvec(layouts: Layouts, parameters: Any) -> Layouts:  # noqa: ARG001 - the rows' one signature
    indptr, _, data, x, *_ = layouts
    return (Layout.of(result_type(data.dtype, x.dtype), (indptr.size - 1,)),)


def is_uneven(num_rows: int, count: int, longest: int) -> bool:
    """Return whether elements are dealt out evenly, not rows, of which the longest is so long."""
    mean = count / num_rows
    return longest > UNEVEN * mean and not (mean <= STREAM_MEAN and longest <= STREAM_LONGEST)


def _plan_matvec(layouts: list[Layout], parameters: Any) -> Plan:
    """By the longest row: rows that are short and even in blocks, even ones by lanes, the others by elements."""
    indptr, indices, data, x, *starts = layouts
    (longest,) = parameters
    num_rows, count = indptr.size - 1, data.size
    types, is_narrow = product_types(indptr, data, x), indices.dtype == INT16
    plan: Plan
    if is_uneven(num_rows, count, longest):
        plan = _module("merge").plan(num_rows, count, types, has_starts=bool(starts))
    elif count <= STREAM_MEAN * num_rows and longest <= STREAM_LONGEST:
        plan = _module("spmv").stream(num_rows, count, types, is_narrow=is_narrow)
    else:
        family = _module("spmv")
        plan = family.rows(num_rows, count, types, family.lanes_for(num_rows, count), is_narrow=is_narrow)
    return plan


MATVEC = row("matvec", _plan_matvec, _infer_matvec)
"""Operands indptr, indices, data and a vector, and `TILES` of a matrix that `is_uneven`, or not; the parameter is the
length of the longest row. Indices may be narrow, int16, of a matrix that is not uneven."""


def _infer_tiles(layouts: Layouts, parameters: Any) -> Layouts:
    (indptr,), (count,) = layouts, parameters
    return (Layout.of(indptr.dtype, (_module("merge").num_tiles_of(indptr.size - 1, count) + 1,)),)


def _plan_tiles(layouts: list[Layout], parameters: Any) -> Plan:
    (indptr,), (count,) = layouts, parameters
    plan: Plan = _module("merge").tiles(indptr.size - 1, count, DEVICE_TYPES[indptr.dtype])
    return plan


TILES = row("tiles", _plan_tiles, _infer_tiles)
"""Operand indptr, parameter the number of elements: where the tiles begin in which these are dealt out evenly."""


def _infer_matmat(layouts: Layouts, parameters: Any) -> Layouts:  # noqa: ARG001
    indptr, _, data, b = layouts
    return (Layout.of(result_type(data.dtype, b.dtype), (indptr.size - 1, b.shape[1])),)


def _plan_matmat(layouts: list[Layout], parameters: Any) -> Plan:  # noqa: ARG001
    indptr, indices, data, b = layouts
    types = product_types(indices, data, b)
    plan: Plan = _module("spmm").plan(indptr.size - 1, b.shape[1], data.size, types, b.alignment)
    return plan


MATMAT = row("matmat", _plan_matmat, _infer_matmat)


def _infer_sampled(layouts: Layouts, parameters: Any) -> Layouts:  # noqa: ARG001
    _, _, data, x, _ = layouts
    return (Layout.of(result_type(data.dtype, x.dtype), data.shape),)


def _plan_sampled(layouts: list[Layout], parameters: Any) -> Plan:  # noqa: ARG001
    _, columns, data, x, _ = layouts
    plan: Plan = _module("sddmm").plan(data.size, x.shape[1], product_types(columns, data, x))
    return plan


SAMPLED = row("sampled", _plan_sampled, _infer_sampled)
"""Operands rows, columns and data of elements, then X and Y.T of one dtype, contiguous: the elements times those of
``X @ Y`` at their places."""


def _infer_cg(layouts: Layouts, parameters: Any) -> Layouts:  # noqa: ARG001
    return layouts[3:8]


def _plan_steps(name: str) -> Callable[[list[Layout], Any], Plan]:
    """Return what plans steps of a method: of a matrix, a vector and what the method keeps."""

    def plan(layouts: list[Layout], parameters: Any) -> Plan:
        (indptr, indices, data, x, *_), (count, longest) = layouts, parameters
        matvec = _plan_matvec([indptr, indices, data, x], (longest,))
        planned: Plan = _module(name).plan(x.size, count, matvec, DEVICE_TYPES[x.dtype])
        return planned

    return plan


CG_STEPS = row("cg_steps", _plan_steps("cg"), _infer_cg)
"""Steps of the conjugate gradient method. Operands a matrix, then x, r, p, the square of the residual's norm, the
outcome, int32, and the tolerance, each of one element, then parameters the number of steps and the longest row; results
the five after the steps."""


def _infer_bicgstab(layouts: Layouts, parameters: Any) -> Layouts:  # noqa: ARG001
    return layouts[3:9]


BICGSTAB_STEPS = row("bicgstab_steps", _plan_steps("bicgstab"), _infer_bicgstab)
"""Steps of BiCGSTAB. Operands a matrix, then x, r, p, v, three numbers, which are ones at first, the outcome, int32,
the shadow residual, and the tolerance, of one element; parameters the number of steps and the longest row; results the
six after the steps. At first p and v are zeros."""


def _infer_arnoldi(layouts: Layouts, parameters: Any) -> Layouts:
    (count, *_), given = parameters, layouts[-1]
    return (Layout.of(given.dtype, (count + 1, given.shape[1])), Layout.of(given.dtype, (count, count + 2)))


def _plan_arnoldi(layouts: list[Layout], parameters: Any) -> Plan:
    (*parts, given), (count, *longest) = layouts, parameters
    size, value = given.shape[1], DEVICE_TYPES[given.dtype]
    vector = Layout.of(given.dtype, (size,))
    matvec = _plan_matvec([*parts[:3], vector], longest[:1])
    if len(longest) > 1:
        between = Layout.of(given.dtype, (parts[0].size - 1,))
        matvec = _chained(matvec, _plan_matvec([*parts[3:], between], longest[1:]), between.nbytes)
    plan: Plan = _module("arnoldi").plan(size, given.shape[0] - 1, count, matvec, value, len(parts))
    return plan


def _chained(first: Plan, second: Plan, nbytes: int) -> Plan:
    """Return the plan of products with two matrices, one after the other; their parts are inputs, then the vector."""
    scratch = Scratch()
    between, workspace = scratch.take(nbytes), scratch.take(max(first.scratch_nbytes, second.scratch_nbytes))
    *others, vector = inputs(7)
    names = dict(zip(("in0", "in1", "in2"), others[3:], strict=True))
    steps = (
        *first.on(out0=between, scratch=workspace, in3=vector),
        *second.on(**names, scratch=workspace, in3=between),
    )
    return scratch.plan(steps)


ARNOLDI = row("arnoldi", _plan_arnoldi, _infer_arnoldi)
"""Orthonormal vectors of a Krylov space. Operands a matrix, or two that are multiplied by one after the other, and the
vectors that there are, contiguous rows of its dtype, float32 or float64; parameters the number of products, and the
longest row of each matrix. Results the vectors, one more than products, and the components of each product along them.
"""


def _plan_arnoldi_s_step(layouts: list[Layout], parameters: Any) -> Plan:
    (*parts, given), (count, longest, steps) = layouts, parameters
    size = given.shape[1]
    matvec = _plan_matvec([*parts, Layout.of(given.dtype, (size,))], (longest,))
    plan: Plan = _module("arnoldi_s_step").plan(
        size, count, steps, matvec, DEVICE_TYPES[given.dtype], device().capability.max_shared_nbytes
    )
    return plan


ARNOLDI_S_STEP = row("arnoldi_s_step", _plan_arnoldi_s_step, _infer_arnoldi)
"""As `ARNOLDI`, of one matrix and one vector, several steps at a time, the third parameter; of these all rows of
components but the first are those of the product of the matrix and the one before. The last column marks steps of which
too little was left."""

# -- triangular systems, incomplete factors ----------------------------------------------------------------------------


def _infer_solve(layouts: Layouts, parameters: Any) -> Layouts:  # noqa: ARG001
    return (layouts[3],)


def _plan_solve(layouts: list[Layout], parameters: Any) -> Plan:
    (indptr, indices, data, right, _), (*flags, num_levels) = layouts, parameters
    family = _module("trsv")
    plan: Plan
    if len(right.shape) == 2:
        spec = family.TrsmSpec(DEVICE_TYPES[indices.dtype], DEVICE_TYPES[data.dtype], *flags)
        plan = family.plan_many(indptr.size - 1, right.shape[1], indices.size, spec)
        return plan
    spec = family.TrsvSpec(DEVICE_TYPES[indices.dtype], DEVICE_TYPES[data.dtype], 1, *flags)
    plan = family.plan(indptr.size - 1, indices.size, spec, num_levels)
    return plan


SOLVE_TRIANGULAR = row("solve_triangular", _plan_solve, _infer_solve)
"""Operands a matrix in canonical format, right-hand sides of its dtype, one or a matrix, and an order in which rows can
be solved for; parameters whether the lower triangle counts, whether the diagonal is ones, and how many levels the order
has."""


def _infer_levels(layouts: Layouts, parameters: Any) -> Layouts:  # noqa: ARG001
    return (Layout.of(np.dtype(np.int32), (layouts[0].size - 1,)),)


def _plan_levels(layouts: list[Layout], parameters: Any) -> Plan:
    indptr, indices = layouts
    family = _module("trsv")
    plan: Plan = family.levels(indptr.size - 1, family.LevelSpec(DEVICE_TYPES[indices.dtype], *parameters))
    return plan


LEVELS = row("levels", _plan_levels, _infer_levels)
"""Operands indptr and indices; the parameter is whether the lower triangle counts. The level of each row: one more than
the highest of those that it waits for, from 0 on."""


def _infer_incomplete(layouts: Layouts, parameters: Any) -> Layouts:  # noqa: ARG001
    return (layouts[2],)


def _plan_incomplete(layouts: list[Layout], parameters: Any) -> Plan:
    (indptr, indices, data, *_), (is_symmetric, num_levels) = layouts, parameters
    family = _module("incomplete")
    spec = family.IncompleteSpec(DEVICE_TYPES[indices.dtype], DEVICE_TYPES[data.dtype], is_symmetric)
    plan: Plan = family.plan(indptr.size - 1, indices.size, spec, num_levels)
    return plan


INCOMPLETE = row("incomplete", _plan_incomplete, _infer_incomplete)
"""Operands a matrix in canonical format, the places of its diagonal, and an order of its rows; parameters whether it is
the lower triangle of a symmetric one, and how many levels the order has. The elements of ILU(0), or IC(0), at the
places of the matrix'."""


# -- rows --------------------------------------------------------------------------------------------------------------


def _infer_row_numbers(layouts: Layouts, parameters: Any) -> Layouts:
    return (Layout.of(layouts[0].dtype, parameters),)


def _plan_row_numbers(layouts: list[Layout], parameters: Any) -> Plan:
    (indptr,), (count,) = layouts, parameters
    plan: Plan = _module("rows").row_numbers(indptr.size - 1, count, DEVICE_TYPES[indptr.dtype])
    return plan


ROW_NUMBERS = row("row_numbers", _plan_row_numbers, _infer_row_numbers)
"""Operand indptr, parameter the number of elements: of each the number of its row."""


def _infer_transpose(layouts: Layouts, parameters: Any) -> Layouts:
    _, indices, data = layouts
    kept = (Layout.of(each.dtype, each.shape) for each in (indices, data))
    return (Layout.of(indices.dtype, (parameters[0] + 1,)), *kept)


def _plan_transpose(layouts: list[Layout], parameters: Any) -> Plan:
    (indptr, indices, data), (num_columns,) = layouts, parameters
    family, index, value = _module("transpose"), DEVICE_TYPES[indices.dtype], DEVICE_TYPES[data.dtype]
    if not family.has_keys(indptr.size - 1, num_columns, data.size, value):
        raise Unsupported("more elements than places have bits, or of other sizes")
    plan: Plan = family.plan(indptr.size - 1, num_columns, data.size, index, value, device().capability)
    return plan


TRANSPOSE = row("transpose", _plan_transpose, _infer_transpose)
"""Operands a matrix, whose columns need not ascend; the parameter is how many it has. The transpose."""


def _infer_picked(layouts: Layouts, parameters: Any) -> Layouts:  # noqa: ARG001
    """The layouts before it is known how many elements there are."""
    which, indptr, indices, data = layouts
    made = ((indptr.dtype, which.size + 1), (indices.dtype, 0), (data.dtype, 0), (indptr.dtype, 0))
    return tuple([Layout.of(dtype, (size,)) for dtype, size in made])


def _has_room(indptr: Layout, words: tuple[int, ...]) -> bool:
    """Whether all numbers of rows are in bounds, and their elements have numbers in the matrix' dtype."""
    total, num_outside = words
    return not num_outside and 0 < total <= np.iinfo(indptr.dtype).max


def _sized_picked(bound: BoundOp, words: tuple[int, ...]) -> Layouts:
    indptr, indices, data, tiles = bound.layouts
    if not _has_room(indptr, words):
        return bound.layouts
    num_tiles = _module("merge").num_tiles_of(indptr.size - 1, words[0])
    sizes = ((indices, words[0]), (data, words[0]), (tiles, num_tiles + 1))
    return (indptr, *[Layout.of(each.dtype, (size,)) for each, size in sizes])


def _plan_picked(layouts: list[Layout], parameters: Any) -> Plan:  # noqa: ARG001
    """Look up lengths, read how many elements there are, scan and copy."""
    which, indptr, indices, data = layouts
    family, dtype, num_picked = _module("rows"), indptr.dtype, which.size
    index, value = DEVICE_TYPES[indices.dtype], DEVICE_TYPES[data.dtype]
    scratch, size = Scratch(), Layout.of(dtype, (num_picked,))
    rows = scratch.take(num_picked * which.dtype.itemsize)
    lengths, through = (scratch.take(num_picked * dtype.itemsize) for _ in range(2))
    words = scratch.take(2 * INT64.itemsize)
    scan = plan_scan(CUMSUM, leaf(size), 0, size)
    scan_scratch = scratch.take(scan.scratch_nbytes)
    given, *matrix = inputs(4)
    out_indptr, out_indices, out_data, tiles = outputs(4)
    steps = (
        Fill(words, 2 * INT64.itemsize, 0),
        family.pick_lengths(num_picked, indptr.size - 1, index, (rows, lengths, words, given, matrix[0])),
        Read(words, 2),
    )

    @lru_cache(1)
    def copied(words: tuple[int, ...]) -> Plan:
        if not _has_room(indptr, words):
            return Plan(())
        arguments = (out_indices, out_data, tiles, out_indptr, rows, *matrix)
        return Plan(
            (
                Fill(out_indptr, dtype.itemsize, 0),
                *scan.on(out0=through, in0=lengths, scratch=scan_scratch),
                Copy(out_indptr.at(dtype.itemsize), through, num_picked * dtype.itemsize),
                *family.pick(num_picked, words[0], index, value, arguments),
            )
        )

    return Plan(steps, scratch.nbytes, then=copied)


PICKED = row("picked", _plan_picked, _infer_picked).replace(sized=_sized_picked)
"""Operands numbers of rows, int64, and a matrix. Gives indptr, indices and data of these rows, and where tiles of them
begin; reads how many elements there are, and how many numbers are out of bounds. Nothing is written where some are, or
elements are none, or more than the dtype of the indices can count."""


def _infer_runs(layouts: Layouts, parameters: Any) -> Layouts:  # noqa: ARG001
    elements, starts = layouts
    return (Layout.of(elements.dtype, starts.shape),)


def _plan_runs(layouts: list[Layout], parameters: Any) -> Plan:  # noqa: ARG001
    elements, starts = layouts
    plan: Plan = _module("rows").runs(starts.size, elements.size, DEVICE_TYPES[elements.dtype])
    return plan


ADD_RUNS = row("add_runs", _plan_runs, _infer_runs)
"""Operands elements and where runs of them begin, int64: the sum of each run, in order."""


def _infer_diagonal(layouts: Layouts, parameters: Any) -> Layouts:
    return (Layout.of(layouts[2].dtype, parameters[:1]),)


def _plan_diagonal(layouts: list[Layout], parameters: Any) -> Plan:
    _, indices, data = layouts
    plan: Plan = _module("rows").diagonal(*parameters, DEVICE_TYPES[indices.dtype], DEVICE_TYPES[data.dtype])
    return plan


DIAGONAL = row("diagonal", _plan_diagonal, _infer_diagonal)
"""Operands a matrix; parameters the length of the diagonal, its first row, and columns to the right of the main one."""


def _infer_dense(layouts: Layouts, parameters: Any) -> Layouts:
    num_columns, is_fortran = parameters
    indptr, _, data = layouts
    shape = (indptr.size - 1, num_columns)
    return (Layout.of(data.dtype, shape[::-1] if is_fortran else shape),)


def _plan_dense(layouts: list[Layout], parameters: Any) -> Plan:
    (indptr, indices, data), (num_columns, is_fortran) = layouts, parameters
    num_rows = indptr.size - 1
    strides = (1, num_rows) if is_fortran else (num_columns, 1)
    types = DEVICE_TYPES[indices.dtype], DEVICE_TYPES[data.dtype]
    plan: Plan = _module("rows").dense((num_rows, num_columns), strides, data.size, *types)
    return plan


DENSE = row("dense", _plan_dense, _infer_dense)
"""Operands a matrix without duplicates; parameters its columns, and whether the result is its transpose."""

# -- elementwise -------------------------------------------------------------------------------------------------------


def _infer_count(layouts: Layouts, parameters: Any) -> Layouts:  # noqa: ARG001
    return (Layout.of(layouts[0].dtype, (layouts[0].size - 1,)),)


def _plan_count(layouts: list[Layout], parameters: Any) -> Plan:  # noqa: ARG001
    indptr, indices, _, other = layouts
    plan: Plan = _module("union").count(indptr.size - 1, indices.size + other.size, DEVICE_TYPES[indptr.dtype])
    return plan


UNION_COUNT = row("union_count", _plan_count, _infer_count)
"""Operands indptr and indices of A and B, canonical: how many columns each row has in either."""


def _infer_union(layouts: Layouts, parameters: Any) -> Layouts:
    count, name = parameters
    a, b = layouts[3], layouts[6]
    dtype = np.result_type(a.dtype, b.dtype)
    if dtype not in DEVICE_TYPES or dtype == np.float16:
        raise Unsupported(f"sums of {dtype}")
    is_comparison = name in ("not_equal", "less", "greater")
    return (Layout.of(layouts[1].dtype, (count,)), Layout.of(BOOL if is_comparison else dtype, (count,)))


def _plan_union(layouts: list[Layout], parameters: Any) -> Plan:
    _, indptr, _, a, _, _, b = layouts
    family, (_, name) = _module("union"), parameters
    types = [DEVICE_TYPES[dtype] for dtype in (indptr.dtype, a.dtype, b.dtype, np.result_type(a.dtype, b.dtype))]
    plan: Plan = family.write(indptr.size - 1, a.size + b.size, family.UnionSpec(*types, name, 1))
    return plan


UNION = row("union", _plan_union, _infer_union)
"""Operands the result's indptr, then two matrices; parameters the number of its elements, and the operator's name."""
