"""Einstein sums: what NumPy's subscripts say, as views, fused multiplications with a sum, and matrix products."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from oxinp._core.host.exchange import is_array
from oxinp._core.host.fallback import placed_on_host
from oxinp._core.lazy import placement
from oxinp._core.lazy.expr import Unsupported, new_table, remember
from oxinp._core.lazy.handle import Handle, begin_writing, end_writing, host_view
from oxinp._core.lazy.record import is_hosted
from oxinp._core.lazy.results import as_array, types
from oxinp._core.lazy.stores import check_writeable
from oxinp._core.lazy.views import moved, view
from oxinp._core.manipulation.copy import assign, astype, copy
from oxinp._core.manipulation.shape import reshape
from oxinp._core.memory.dtypes import DEVICE_TYPES, FLOAT16, FLOAT32
from oxinp._core.memory.layout import Layout, is_in_order
from oxinp._core.ops import creation, matmul
from oxinp._core.reduction.reduce import reduce
from oxinp._core.reduction.table import SUM
from oxinp._core.ufunc.objects import UFUNC_OBJECTS

Label = str | int  # a letter, or a dimension of the ellipsis, -1 the last
Labels = tuple[Label, ...]
# A path whose intermediate results may be as large as they come out.
_GREEDY = ("greedy", 1 << 62)


class Term(NamedTuple):
    """An array and what its axes are called; none of them has length 1, and no two the same name."""

    array: Any
    labels: Labels


class Options(NamedTuple):
    """The keywords of `numpy.einsum`, hashable."""

    optimize: Any = False
    dtype: Any = None
    order: Any = "K"
    casting: Any = "safe"


USUAL = Options()


def einsum(subscripts: str, arrays: Sequence[Handle], out: Any, options: Options) -> Any:
    """Return the Einstein sum; see `numpy.einsum`.

    Parameters
    ----------
    subscripts : str
    arrays : sequence of Handle
    out : ndarray of ours or None
        May overlap the operands.
    options : Options

    Returns
    -------
    ndarray or scalar
        A view, where NumPy gives one.

    Raises
    ------
    ValueError, TypeError
        As NumPy.
    Unsupported
        A dtype has no kernels.

    Notes
    -----
    Two operands become one matrix product, batched over labels that both have and the result keeps, or one
    multiplication with its sum where there is nothing for tiles to share. More are contracted in pairs, in the order
    that `optimize` names; without one, in NumPy's "greedy" order.
    """
    layouts = tuple([x._known or x._layout for x in arrays])
    key = (subscripts, layouts, None if out is None else out._layout, options)
    plan: Plan | None = _PLANS.get(key)
    if plan is None:
        plan = Plan(subscripts, layouts, None if out is None else out._layout, options)
        remember(_PLANS, key, plan)
    if out is not None:
        check_writeable(out)
    if is_hosted((*arrays, out)) and placement.is_host(plan.cost):
        return plan.on_host(arrays, out)
    return plan.run(arrays, out)


_PLANS: Any = new_table()


def _check_diagonals(inputs: list[Labels], layouts: tuple[Layout, ...]) -> None:
    """Refuse diagonals of axes with no elements and with some, of which NumPy reads what lies behind the array."""
    for number, (labels, layout) in enumerate(zip(inputs, layouts, strict=False)):
        for label, n in zip(labels, layout.shape, strict=False):
            lengths = {m for other, m in zip(labels, layout.shape, strict=False) if other == label}
            if n == 0 and len(lengths) > 1:
                raise ValueError(
                    f"dimensions in operand {number} for collapsing index {label!r} don't match (0 != {max(lengths)})"
                )


class Kind:
    """What Einstein sums of arrays that lie alike, whatever their sizes, have in common.

    Parameters
    ----------
    made : numpy.ndarray or scalar
        What NumPy makes of arrays of few elements that lie so.
    inputs, output, layouts, out, options
        As of `Plan`.

    Attributes
    ----------
    is_scalar, dtype
        Of the result.
    axes, back : tuple of int
        Axes of the result from the slowest to the fastest, and where each of them is among these.
    moves : tuple
        For each of two operands of which `Plan._fused` multiplies and sums up elements as they are, how its axes are
        permuted and which are added before; () for all others.
    """

    def __init__(
        self,
        made: Any,
        inputs: Sequence[Labels],
        output: Labels,
        layouts: Sequence[Layout],
        out: Layout | None,
        options: Options,
    ) -> None:
        self.is_scalar = not isinstance(made, np.ndarray)
        result = np.asarray(made)
        self.dtype = result.dtype
        steps = result.strides if out is None else (0,) * result.ndim
        self.axes = tuple(sorted(range(result.ndim), key=lambda axis: -abs(steps[axis])))
        self.back = tuple(np.argsort(self.axes).tolist())
        self.moves: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = ()
        lengths = {n for layout in layouts for n in layout.shape}
        are_plain = len(layouts) == 2 and not {0, 1} & lengths and all(len({*x}) == len(x) for x in inputs)
        if not are_plain or out is not None or options is not USUAL or {x.dtype for x in layouts} != {self.dtype}:
            return
        kept = tuple([output[axis] for axis in self.axes])
        left, right = inputs
        summed = [x for x in dict.fromkeys((*max(inputs, key=len), *left, *right)) if x not in kept]
        is_product = {*left} & {*right} - {*kept} and {*kept} - {*left} and {*kept} - {*right}
        if summed and not is_product and self.dtype.char in "fd":
            self.moves = tuple([_moves(labels, (*kept, *summed)) for labels in inputs])


_KINDS: Any = new_table()


def _moves(given: Labels, wanted: Labels) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the permutation of axes, () for none, and the places of axes of length 1 that lead to others' labels."""
    order = tuple([given.index(label) for label in wanted if label in given])
    added = tuple([place for place, label in enumerate(wanted) if label not in given])
    return order if order != tuple(range(len(order))) else (), added


def _pattern(layout: Layout) -> tuple[Any, ...]:
    """Return what `_miniature` makes of a layout, as a key."""
    return layout.dtype, layout.dtype.num, _short(layout.shape), _slowest_first(layout), _signs(layout.strides)


def _short(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([min(n, 2) for n in shape])


def _slowest_first(layout: Layout) -> tuple[int, ...]:
    steps = layout.strides
    return tuple(sorted(range(layout.ndim), key=lambda axis: -abs(steps[axis])))


def _signs(steps: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([(step > 0) - (step < 0) for step in steps])


class Plan:
    """An Einstein sum of arrays in certain layouts: what it comes to, and by which steps."""

    def __init__(self, subscripts: str, layouts: tuple[Layout, ...], out: Layout | None, options: Options) -> None:
        self.subscripts, self.options = subscripts, options
        keywords: dict[str, Any] = options._asdict()
        self.sizes: dict[Label, int] = {}
        parsed = _parsed(subscripts, tuple([x.ndim for x in layouts]))
        if parsed is not None:
            _check_diagonals(parsed[0], layouts)
        if parsed is None or not self._fits(parsed[0], layouts):
            self._refuse(layouts, out, keywords)
        self.inputs, self.output = parsed  # type: ignore[misc]
        if options.order in ("A", "a"):  # the layouts' own contiguity, which miniatures do not have
            keywords["order"] = "F" if all(x.is_fortran for x in layouts) else "C"
        self.path = None
        if options.optimize is not False:
            stand_ins = [_stand_in(x) for x in layouts]
            self.path = np.einsum_path(subscripts, *stand_ins, optimize=_listed(options.optimize))[0]
            keywords["optimize"] = self.path
        self.keywords = keywords
        patterns = tuple([_pattern(x) for x in layouts])
        key = subscripts, patterns, None if out is None else _pattern(out), options
        kind = None if self.path is not None or options.order in ("A", "a") else _KINDS.get(key)
        if kind is None:
            small = [_miniature(x) for x in layouts]
            given = {} if out is None else {"out": _miniature(out)}
            try:
                made = np.einsum(subscripts, *small, **keywords, **given)
            except (ValueError, TypeError):
                self._refuse(layouts, out, keywords)
            remember(_KINDS, key, kind := Kind(made, self.inputs, self.output, layouts, out, options))
        self.kind, self.is_scalar, self.dtype = kind, kind.is_scalar, kind.dtype
        self.axes, self.back = kind.axes, kind.back
        self.shape = tuple([self.sizes[label] for label in self.output])
        self.memory = tuple([self.output[axis] for axis in self.axes if self.shape[axis] != 1])
        self.type = None if options.dtype is None else np.dtype(options.dtype)
        self.out_type = None if out is None else out.dtype
        self.is_view = (
            len(layouts) == 1
            and out is None
            and self.dtype == layouts[0].dtype
            and set(self.output) == set(self.inputs[0])
        )
        work = math.prod(self.sizes.values()) / matmul.FLOPS_PER_BYTE
        self.cost = max(math.prod(self.shape) * self.dtype.itemsize, *(x.nbytes for x in layouts), work)
        if any(x.dtype not in DEVICE_TYPES for x in layouts) or self.dtype not in DEVICE_TYPES:
            self.cost = -1.0

    def _fits(self, inputs: list[Labels], layouts: tuple[Layout, ...]) -> bool:
        """Find the length of every label; whether operands agree about it."""
        for labels, layout in zip(inputs, layouts, strict=True):
            for label, n in zip(labels, layout.shape, strict=True):
                known = self.sizes.get(label, 1)
                if n != known != 1 != n:
                    return False
                self.sizes[label] = known if n == 1 else n
        return True

    def _refuse(self, layouts: tuple[Layout, ...], out: Layout | None, keywords: dict[str, Any]) -> None:
        """Let NumPy raise, for the shapes as they are."""
        given = {} if out is None else {"out": _stand_in(out)}
        np.einsum(self.subscripts, *map(_stand_in, layouts), **keywords, **given)
        msg = f"the subscripts {self.subscripts!r}"
        raise Unsupported(msg)

    def on_host(self, arrays: Sequence[Handle], out: Any) -> Any:
        """Let NumPy compute on arrays that are on the host."""
        if self.cost < 0:
            raise Unsupported("a dtype without kernels")
        if out is None:
            return placed_on_host(np.einsum, (self.subscripts, *arrays), self.keywords | {"optimize": False})
        held = begin_writing(out)
        try:
            np.einsum(self.subscripts, *map(host_view, arrays), out=held, **self.keywords)
        finally:
            end_writing(out._storage)
        return out

    def run(self, arrays: Sequence[Any], out: Any) -> Any:
        """Compute on the device."""
        if self.cost < 0:
            raise Unsupported("a dtype without kernels")
        if self.is_view:
            return view(arrays[0], self._viewed) if self.output else arrays[0][()]
        if self.kind.moves:
            return self._finished(self._summed(arrays), None)
        terms = [self._term(*pair) for pair in zip(arrays, self.inputs, strict=True)]
        steps = [tuple(range(len(terms)))] if self.path is None else self.path[1:]
        for number, positions in enumerate(steps):
            chosen = [terms.pop(i) for i in sorted(positions, reverse=True)]
            if self.path is None:
                chosen.reverse()
            is_last = number == len(steps) - 1
            kept = self.memory if is_last else _kept(chosen, [*(x.labels for x in terms), self.memory])
            types = [x.array._layout.dtype for x in chosen] + ([self.out_type] if is_last and self.out_type else [])
            dtype = self.type or (types[0] if len({*types}) == 1 else np.result_type(*types))
            terms.append(Term(self._contracted(chosen, kept, dtype), kept))
        return self._finished(terms[0].array, out)

    def _summed(self, arrays: Sequence[Any]) -> Any:
        """Do what `_fused` does of two operands whose moves are known."""
        factors = []
        for array, (order, added) in zip(arrays, self.kind.moves, strict=True):
            turned = moved(array, np.transpose, order) if order else array
            factors.append(moved(turned, np.expand_dims, added) if added else turned)
        return _sum_of_products(factors, len(self.memory), self.dtype)

    def _viewed(self, seen: Any) -> Any:
        return np.einsum(self.subscripts, seen)

    def _term(self, array: Handle, labels: Labels) -> Term:
        """Return an operand without axes of length 1, and its diagonal along labels that it has more than once."""
        shape = array._layout.shape
        if 1 not in shape and len({*labels}) == len(labels):
            return Term(array, labels)
        kept = tuple(label for label, n in zip(labels, shape, strict=True) if n != 1)
        unique = tuple(dict.fromkeys(kept))
        if unique == labels:
            return Term(array, labels)
        key = (*[0 if n == 1 else slice(None) for n in shape], ...)
        array = view(array, lambda seen: seen[key])
        if unique == kept:
            return Term(array, unique)
        numbers = [unique.index(label) for label in kept]
        return Term(view(array, lambda seen: np.einsum(seen, numbers, [*range(len(unique))])), unique)

    def _contracted(self, terms: list[Term], kept: Labels, dtype: np.dtype[Any]) -> Any:
        """Return the sum of the products over all labels but `kept`, which are its axes."""
        if dtype not in DEVICE_TYPES:
            raise Unsupported(f"dtype {dtype} has no kernels")
        labels = {label for term in terms for label in term.labels}
        if len(terms) == 2:
            return self._product(terms[0], terms[1], kept, dtype)
        if len(terms) == 1 or self._size(labels) <= max(self._size(kept), *(self._size(x.labels) for x in terms)):
            return self._fused(terms, kept, dtype)
        terms = list(terms)
        while len(terms) > 2:
            first, second = self._first_pair(terms, kept)
            pair = [terms[first], terms[second]]
            del terms[second], terms[first]
            left = _kept(pair, [*(x.labels for x in terms), kept])
            terms.append(Term(self._product(pair[0], pair[1], left, dtype), left))
        return self._product(terms[0], terms[1], kept, dtype)

    def _first_pair(self, terms: list[Term], kept: Labels) -> list[int]:
        """Return the positions of the two terms that NumPy's greedy path contracts first."""
        numbers = {label: i for i, label in enumerate(dict.fromkeys(x for term in terms for x in term.labels))}
        shapes = [tuple(self.sizes[label] for label in term.labels) for term in terms]
        operands: list[Any] = []
        for term, shape in zip(terms, shapes, strict=True):
            operands += [np.broadcast_to(np.False_, shape), [numbers[label] for label in term.labels]]
        path = np.einsum_path(*operands, [numbers[label] for label in kept], optimize=_GREEDY)[0]
        return sorted(path[1])[:2]

    def _size(self, labels: Any) -> int:
        return math.prod([self.sizes[label] for label in labels])

    def _fused(self, terms: Sequence[Term], kept: Labels, dtype: np.dtype[Any]) -> Any:
        """Multiply and sum up, lazily, in one pass over all labels."""
        labels = {label for term in terms for label in term.labels}
        if not self._size(labels):
            return creation.zeros(tuple(self.sizes[label] for label in kept), dtype)
        longest = max(terms, key=_num_labels)
        summed = dict.fromkeys([x for term in (longest, *terms) for x in term.labels if x not in kept])
        wide = FLOAT32 if dtype == FLOAT16 and summed else dtype
        factors = [_cast(_aligned(x, (*kept, *summed)), wide) for x in terms]
        if not summed:
            value = _products(factors)
            if dtype.kind in "fc":
                return _held(matmul.summed_alone(value))
            return copy(value) if len(factors) == 1 else _held(value)
        if wide is dtype:
            return _sum_of_products(factors, len(kept), dtype)
        value = astype(_sum_of_products(factors, len(kept), wide), dtype)
        return value if value._layout.is_contiguous else copy(value)

    def _product(self, left: Term, right: Term, kept: Labels, dtype: np.dtype[Any]) -> Any:
        """Contract two terms: a matrix product where rows, columns and what is summed over are all more than one."""
        both = [x for x in left.labels if x in right.labels]
        summed = [x for x in both if x not in kept]
        sides = [[x for x in kept if x in a.labels and x not in b.labels] for a, b in ((left, right), (right, left))]
        if not (summed and sides[0] and sides[1] and self._size({*left.labels, *right.labels})):
            return self._fused((left, right), kept, dtype)
        batch = [x for x in kept if x in both]
        if (*batch, *sides[0], *sides[1]) != kept and (*batch, *sides[1], *sides[0]) == kept:
            left, right, sides = right, left, sides[::-1]
        steps = dict(zip(left.labels, left.array._layout.strides, strict=True))
        summed.sort(key=lambda x: -abs(steps[x]))
        lead, depth = tuple(self.sizes[x] for x in batch), self._size(summed)
        rows, columns = map(self._size, sides)
        left, right = (
            term if {*term.labels} <= {*kept, *summed} else self._presummed(term, {*kept, *summed}, dtype)
            for term in (left, right)
        )
        a = reshape(_aligned(left, (*batch, *sides[0], *summed)), (*lead, rows, depth))
        b = reshape(_aligned(right, (*batch, *summed, *sides[1])), (*lead, depth, columns))
        result = matmul.matmul(_cast(a, dtype), _cast(b, dtype))
        made = (*batch, *sides[0], *sides[1])
        result = reshape(result, tuple(self.sizes[x] for x in made))
        return result if made == kept else copy(_aligned(Term(result, made), kept))

    def _presummed(self, term: Term, kept: set[Label], dtype: np.dtype[Any]) -> Term:
        """Sum a term up over labels that nothing else has."""
        labels = tuple(x for x in term.labels if x in kept)
        return Term(self._fused((term,), labels, dtype), labels)

    def _finished(self, array: Any, out: Any) -> Any:
        """Return the result, whose axes are those of `memory`, in the order of NumPy's and with axes of length 1."""
        if self.is_scalar:
            return array[()]
        if out is None and not self.output and not is_array(array):
            array = view(array, lambda seen: seen)
        is_done = array._layout.shape == self.shape and self.back == tuple(range(len(self.back)))
        if not is_done:
            shape = tuple([self.shape[axis] for axis in self.axes])
        made = array if is_done else view(array, lambda seen: seen.reshape(shape).transpose(self.back))
        if out is not None:
            assign(out, made)
            return out
        if made is not array or made._view is not None:
            made._view = (None, True)  # nobody else has what it is a view of
        return made


def _held(value: Any) -> Any:
    """Return what a step has computed as an array: of no axes, placed on the host, it is a scalar of NumPy's."""
    return value if isinstance(value, Handle) else as_array(value)


def _kept(terms: Sequence[Term], others: Sequence[Labels]) -> Labels:
    """Return the labels of terms that other ones have too."""
    elsewhere = {label for labels in others for label in labels}
    return tuple(x for x in dict.fromkeys(x for term in terms for x in term.labels) if x in elsewhere)


def _products(factors: Sequence[Any]) -> Any:
    """Return the products of arrays with as many axes each, in C order."""
    value = factors[0]
    for factor in factors[1:]:
        are_arrays = type(value) is type(factor) is types.ndarray
        if are_arrays and is_in_order(value._layout) and is_in_order(factor._layout):
            value = value * factor  # in C order, too, and faster than where that is said
        else:
            value = UFUNC_OBJECTS["multiply"](value, factor, order="C")
    return value


def _sum_of_products(factors: Sequence[Any], num_kept: int, dtype: np.dtype[Any]) -> Any:
    """Return the sum of the products of arrays over all axes but the first ones."""
    value = _products(factors)
    axes = tuple(range(num_kept, value._layout.ndim))
    value = _held(reduce(SUM, value, axes[0] if len(axes) == 1 else axes, dtype))
    return value if value._layout.is_contiguous else copy(value)


def _num_labels(term: Term) -> int:
    return len(term.labels)


def _cast(array: Any, dtype: np.dtype[Any]) -> Any:
    return array if array._layout.dtype is dtype else astype(array, dtype, copy_wanted=False)


def _aligned(term: Term, labels: Labels) -> Any:
    """Return a term's array with `labels` for axes, of length 1 where it has none of the name."""
    if term.labels == labels:
        return term.array
    order, added = _moves(term.labels, labels)
    array = moved(term.array, np.transpose, order) if order else term.array
    return moved(array, np.expand_dims, added) if added else array


@lru_cache(1 << 10)
def _parsed(subscripts: str, ndims: tuple[int, ...]) -> tuple[list[Labels], Labels] | None:
    """Return the labels of every operand and of the result; None where NumPy has something to say about them."""
    given, arrow, result = subscripts.replace(" ", "").partition("->")
    parts = given.split(",")
    if len(parts) != len(ndims):
        return None
    inputs: list[Labels] = []
    longest = 0
    for part, ndim in zip(parts, ndims, strict=True):
        head, dots, tail = part.partition("...")
        extra = ndim - len(head) - len(tail)
        if extra < 0 or (extra and not dots) or not _are_letters(head + tail):
            return None
        longest = max(longest, extra)
        inputs.append((*head, *range(-extra, 0), *tail))
    ellipsis: Labels = tuple(range(-longest, 0))
    if not arrow:
        counts = Counter(given.replace(",", "").replace(".", ""))
        return inputs, (*ellipsis, *sorted(x for x, count in counts.items() if count == 1))
    head, dots, tail = result.partition("...")
    output: Labels = (*head, *(ellipsis if dots else ()), *tail)
    known = {label for labels in inputs for label in labels}
    if not _are_letters(head + tail) or len(set(output)) < len(output) or not known >= set(output):
        return None
    return inputs, output


def _are_letters(text: str) -> bool:
    return not text or (text.isascii() and text.isalpha())


def _stand_in(layout: Layout) -> Any:
    """Return an array of a layout's dtype and shape whose elements are all the same one."""
    return np.lib.stride_tricks.as_strided(np.zeros(1, layout.dtype), layout.shape, (0,) * layout.ndim)


def _miniature(layout: Layout) -> Any:
    """Return an array of at most two elements along each axis, with the axes in a layout's order of strides."""
    shape, axes = _short(layout.shape), _slowest_first(layout)
    small = np.zeros([shape[axis] if layout.strides[axis] else 1 for axis in axes], layout.dtype)
    small = small.transpose(np.argsort(axes))
    small = small[tuple(slice(None, None, -1 if step < 0 else 1) for step in layout.strides)]
    return small if small.shape == shape else np.broadcast_to(small, shape)


def _listed(optimize: Any) -> Any:
    """Return a path as NumPy takes it."""
    return list(optimize) if isinstance(optimize, tuple) and optimize[:1] == ("einsum_path",) else optimize
