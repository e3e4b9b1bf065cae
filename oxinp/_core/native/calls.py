"""Functions and methods that Python wrote, answered in machine code where their arrays are small and on the host.

From 3.12 on CPython lets a function be called by other code than its own (`PyFunction_SetVectorcall`). It stays what
it is, with its signature, documentation and attributes; the code here answers calls that it is sure of, by NumPy's own
functions in C, and goes on to the function itself for everything else.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import combinations
from operator import attrgetter
from typing import Any

import numpy as np

from oxinp._core.host import leaner
from oxinp._core.host.weights import WEIGHTS
from oxinp._core.lazy.balance import HEAVY, LAUNCH
from oxinp._core.native import choosing, inner_products, names, objects
from oxinp._core.native.anew import anew, most_positional, telling
from oxinp._core.native.call import GIVEN, MARK, MOST_GIVEN, REALS, Call
from oxinp._core.native.function import LIGHT, MIDDLING, SEEN
from oxinp._core.native.into import into, into_out
from oxinp._core.native.loops import CONTIGUOUS
from oxinp._core.native.makers import ONE, diagonal_ones, filled, of_list, of_number, of_shape, ranged, repeated
from oxinp._core.native.objects import (
    ARRAY_FLAGS,
    ARRAY_NDIM,
    ARRAY_SHAPE,
    ARRAY_STRIDES,
    LIST_ITEMS,
    NUMBER_VALUE,
    SIZE,
    TUPLE_ITEMS,
    TYPE,
)
from oxinp._core.native.outer_products import recorded
from oxinp._core.native.products import STACK, call_loop, require_small_product, require_vectors
from oxinp._core.native.recalled import filled_like, rolled
from oxinp._core.native.reductions import along, reduction
from oxinp._core.native.shapes import COMPLEX, attribute, flipped, reshaped, view, view_by
from oxinp._core.ops.creation import ones, zeros

_MOST_JOINED = 8


def itself(kind: type, before: int | None) -> bytes:
    """Return the code of `asarray` of an array."""
    call = Call(kind, before)
    call.begin_call(1)
    call.code.label("1 arguments")
    call.code.load("rbx", "rbp", 0)
    call.unless_type("rbx", kind, "general")
    call.keep("rbx")
    call.code.move("rax", "rbx")
    call.end_call()
    return call.code.assembled()


def with_axes(kind: type, before: int | None, least: int) -> bytes:
    """Return the code of what returns an array itself where that has so many axes."""
    call = Call(kind, before)
    code = call.code
    call.begin_call(1)
    code.label("1 arguments")
    code.load("rbx", "rbp", 0)
    call.unless_type("rbx", kind, "general")
    call.load_seen("r12", "rbx", storage="r13")
    code.load_int("rax", "r12", ARRAY_NDIM)
    code.compare_number("rax", least)
    code.jump("general", "b")
    call.keep("rbx")
    code.move("rax", "rbx")
    call.end_call()
    return code.assembled()


def without_gaps(kind: type, before: int | None) -> bytes:
    """Return the code of `ascontiguousarray` of an array."""
    call = Call(kind, before)
    code = call.code
    call.begin_call(1)
    code.label("1 arguments")
    call.load_light(0, "rbx", "r12")
    call.unless_reported()
    code.load_int("rax", "r12", ARRAY_NDIM)
    code.compare_number("rax", 0)
    code.jump("general", "e")
    code.test_with("r12", ARRAY_FLAGS, CONTIGUOUS)
    code.jump("has gaps", "e")
    call.keep("rbx")
    code.move("rax", "rbx")
    code.jump("return")
    code.label("has gaps")
    call.call_numpys(np.ascontiguousarray, "r12", result="r13")
    call.return_new("r13", "r12", is_few=False)
    return code.assembled()


def of_array(kind: type, before: int | None, function: object, *, is_light: bool = False) -> bytes:
    """Return the code of what makes something new of one array; `is_light` is whether it only moves elements."""
    call = Call(kind, before)
    call.begin_call(1)
    call.code.label("1 arguments")
    if is_light:
        call.load_light(0, "rbx", "r12")
    else:
        call.load_array(0, "rbx", "r12", is_small=False)
    call.unless_reported()
    call.call_numpys(function, "r12", result="r13")
    call.return_new("r13", "r12", is_few=False)
    return call.code.assembled()


def cast(kind: type, before: int | None) -> bytes:
    """Return the code of `astype` of real numbers."""
    call = Call(kind, before)
    code = call.code
    call.begin_call(2)
    code.label("2 arguments")
    call.load_light(0, "rbx", "r12")
    code.load("r14", "rbp", 8)
    call.require_dtype("r14")
    call.require_elements("r12", REALS)
    call.multiply_extents("r12")
    call.require_reach(LIGHT)  # in words of 8 bytes, which those of the result may be
    call.unless_reported()
    call.call_numpys(np.ndarray.astype, "r12", "r14", result="r13")
    call.return_new("r13", "r12", is_few=False)
    return code.assembled()


def product(kind: type, before: int | None, function: object) -> bytes:
    """Return the code of `dot`."""
    call = Call(kind, before, STACK)
    call.begin_call(2)
    call.code.label("2 arguments")
    call.load_array(0, "rbx", "r12")
    call.load_array(1, "rbx", "r14")
    require_small_product(call, "r12", "r14")
    call.unless_reported()
    require_vectors(call, "NumPy's")
    call_loop(call, "NumPy's")
    call.code.jump("made")
    call.code.label("NumPy's")
    call.call_numpys(function, "r12", "r14", result="r13")
    call.code.label("made")
    call.return_new("r13", "r12")
    return call.code.assembled()


def norm(kind: type, before: int | None) -> bytes:
    """Return the code of `linalg.norm` of a vector without gaps, which is the root of its product with itself."""
    call = Call(kind, before, STACK)
    code = call.code
    call.begin_call(1)
    code.label("1 arguments")
    call.load_array(0, "rbx", "r12", is_small=False)
    call.unless_reported()
    code.move("r14", "r12")
    require_vectors(call, "general")
    call.require_elements("r12", (np.float64,))
    code.load("rax", "r12", ARRAY_STRIDES)
    code.compare_number_with("rax", 0, 8)
    code.jump("general", "ne")
    call_loop(call, "general")
    code.take_root("r13", NUMBER_VALUE)  # which nobody else has yet
    call.return_new("r13", "r12")
    return code.assembled()


def outer(kind: type, before: int | None, function: object) -> bytes:
    """Return the code of `outer` of two vectors."""
    call = Call(kind, before)
    code = call.code
    call.begin_call(2)
    code.label("2 arguments")
    call.load_array(0, "rbx", "r12")
    call.load_array(1, "rbx", "r14")
    for each in ("r12", "r14"):
        code.load_int("rax", each, ARRAY_NDIM)
        code.compare_number("rax", 1)
        code.jump("general", "ne")
    code.load("rcx", "r12", ARRAY_SHAPE)
    code.load("rax", "rcx", 0)
    code.load("rcx", "r14", ARRAY_SHAPE)
    code.multiply("rax", "rcx", 0)
    call.require_reach(LIGHT, is_bounded=False)
    call.count_learned(LIGHT, "2 arguments", 1.0, LAUNCH)
    for each in ("r12", "r14"):
        call.require_elements(each, MIDDLING)
    call.unless_reported()
    call.call_numpys(function, "r12", "r14", result="r13")
    call.wrap("r13", "r12", is_few=False)
    call.end_wrap("r13")
    call.end_call()
    return code.assembled()


def chosen(kind: type, before: int | None, function: object) -> bytes:
    """Return the code of `where` of an array, and two arrays or numbers."""
    call = Call(kind, before, choosing.ROOM)
    code = call.code
    call.begin_call(3)
    code.label("3 arguments")
    views = "r12", "r14", "r15"
    for place in range(len(views)):
        is_number, is_loaded = f"number {place}", call.new_label()
        code.load("rbx", "rbp", 8 * place)
        call.unless_type("rbx", kind, is_number if place else "general")
        call.load_seen("r12", "rbx", storage="r13")
        call.require_host("rbx", "r12", is_learned=True)
        code.jump(is_loaded)
        if place:
            code.label(is_number)
            code.move("r12", "rbx")
            code.load("rax", "r12", TYPE)
            call.if_one_of("rax", (float, int, np.float64), is_loaded)
            code.jump("general")
        code.label(is_loaded)
        code.store("rsp", GIVEN + 8 * place, "r12")
    for place, each in enumerate(views):
        code.load(each, "rsp", GIVEN + 8 * place)
    call.multiply_extents("r12")
    for one, other in combinations(views, 2):
        are_alone = call.new_label()
        for each in (one, other):
            call.unless_type(each, np.ndarray, are_alone)
        call.multiply_broadcast(one, other)
        call.count_words(*views)
        call.require_reach(LIGHT)
        code.label(are_alone)
    call.count_learned(LIGHT, "general")
    call.unless_reported()
    choosing.choose(call, "by numpy")
    code.jump("chosen")
    code.label("by numpy")
    code.load("r15", "rsp", GIVEN + 8 * 2)
    call.call_numpys(function, *views, result="r13")
    code.label("chosen")
    call.return_new("r13", "r12", is_few=False)
    return code.assembled()


def joined(kind: type, before: int | None, function: object) -> bytes:
    """Return the code of `concatenate` of a few arrays in a tuple or a list, along their first axis."""
    call = Call(kind, before)
    code, is_made = call.code, call.new_label()
    call.begin_call(1)
    code.label("1 arguments")
    code.load("rbx", "rbp", 0)
    code.move("rbp", "rbx")  # the items, 8 bytes each
    code.add("rbp", TUPLE_ITEMS)
    code.load("rax", "rbx", TYPE)
    call.if_one_of("rax", (tuple,), "listed")
    call.unless_type("rbx", list, "general")
    code.load("rbp", "rbx", LIST_ITEMS)
    code.label("listed")
    for is_last in (False, True):  # nothing is made before all are known to be small
        code.load("r14", "rbx", SIZE)
        if is_last:
            call.unless_reported()
            code.move("rdi", "r14")
            code.call(objects.address("PyTuple_New"))
            code.compare_number("rax", 0)
            code.jump("return", "e")
            code.store("rsp", GIVEN, "rax")
        else:
            code.compare_number("r14", 0)
            code.jump("general", "e")
            code.compare_number("r14", _MOST_JOINED)
            code.jump("general", "g")
        code.label(f"next {is_last}")
        code.add("r14", -1)
        code.jump(f"all {is_last}", "s")
        code.move("rax", "r14")
        for _ in range(3):
            code.add_register("rax", "rax")
        code.store("rsp", MARK, "rax")
        code.add_register("rax", "rbp")
        code.load("r12", "rax", 0)
        if is_last:
            code.load("r12", "r12", SEEN)
            call.keep("r12")
            code.load("rax", "rsp", GIVEN)
            code.load("rcx", "rsp", MARK)
            code.add_register("rax", "rcx")
            code.store("rax", TUPLE_ITEMS, "r12")
        else:
            call.unless_type("r12", kind, "general")
            call.load_seen("r15", "r12", storage="r13")
            call.unless_smaller("r15", "general")
        code.jump(f"next {is_last}")
        code.label(f"all {is_last}")
    code.set("rdx", 1)
    call.call_with_given(function)
    code.move("r13", "rax")
    code.load("r12", "rsp", GIVEN)
    call.drop("r12")
    code.compare_number("r13", 0)
    code.jump(is_made, "ne")
    call.return_error()
    code.label(is_made)
    call.return_new("r13", "r12")
    return code.assembled()


def _in_c(function: Any) -> Any:
    """Return a function of NumPy's that asks no classes for theirs."""
    return getattr(function, "_implementation", function)


_count_nonzero: Any = np._core.multiarray.count_nonzero  # of all elements
_place: Any = np._core.multiarray._place
_Maker = Callable[..., bytes]
_TRANSFORMS_SHARE = 2
"""How many times the threshold their arrays have that are the host's: results are twice as large, see `HOST_SHARE`."""
_BY_METHOD = frozenset(
    (
        *("all", "any", "argmax", "argmin", "argpartition", "argsort", "cumprod", "cumsum", "max", "mean"),
        *("min", "nonzero", "prod", "round", "searchsorted", "std", "sum", "take", "trace", "var"),
    )
)
"""Functions that do what methods of the same name do, with the same parameters, and more around it."""


def _weight(name: str) -> float:
    """Return the weight of a function or method, 0 of those whose calls are weighed one by one, or not learned of.

    None of the others that are answered here makes more elements than it is given.
    """
    weight = WEIGHTS.get(name, 0.0)
    return weight if weight < HEAVY else 0.0


def _anew(name: str, share: int = 1, *, are_columns: bool = False) -> _Maker:
    """Return what makes the code of a function by its name in NumPy, which is not looked for before; see `anew`."""

    def make(kind: type, before: int | None, lean: Any = None) -> bytes:
        function = attrgetter(name)(np)
        numpys = leaner.LEANER.get(name) or (getattr(np.ndarray, name) if name in _BY_METHOD else _in_c(function))
        most = most_positional(function)
        return anew(kind, before, lean or numpys, most, share=share, weight=_weight(name), are_columns=are_columns)

    lean = leaner.NUMERICAL.get(name)
    return make if lean is None else _or(partial(make, lean=lean), make)


def _method_anew(name: str) -> _Maker:
    """Return what makes the code of a method by its name."""

    def make(kind: type, before: int | None, lean: Any = None) -> bytes:
        method = getattr(np.ndarray, name)
        most = most_positional(method)  # asked for now: that takes long
        return anew(kind, before, lean or method, most, weight=_weight(name), are_columns=name == "nonzero")

    lean = leaner.NUMERICAL.get(name)
    return make if lean is None else _or(partial(make, lean=lean), make)


def _with_out(made: dict[str, _Maker], home: Any) -> dict[str, _Maker]:
    """Return what makes the code of functions or methods, with that of calls that write to ``out``."""

    def of(name: str) -> Any:
        return getattr(np.ndarray, name) if name in _BY_METHOD else _in_c(getattr(home, name))

    return {
        name: _or(maker, partial(into_out, function=of(name))) if name in names.TAKING_OUT else maker
        for name, maker in made.items()
    }


def _or(maker: _Maker, other: _Maker) -> _Maker:
    """Return what makes the code of both: the other's for calls that the first one leaves."""
    return lambda kind, before: maker(kind, None) + other(kind, before)


_VIEWS = ("fliplr", "flipud", "matrix_transpose")
_VIEWS_BY: dict[str, tuple[tuple[int, ...], str | None]] = {
    "expand_dims": ((2,), "axis"),
    "flip": ((2,), "axis"),
    "moveaxis": ((3,), None),
    "rollaxis": ((2, 3), None),
    "rot90": ((1, 2), "k"),
    "squeeze": ((1, 2), "axis"),
}
"""Functions that make views by integers -> how many arguments they have, and what the second one may be called."""


_DIAGONAL: _Maker = partial(
    view_by, function=np.ndarray.diagonal, counts=(1, 2, 4), keyword="offset", is_writeable=False
)


def _reduced(name: str, other: _Maker) -> _Maker:
    return _or(partial(reduction, name=name), _or(partial(along, name=name), other))


def _view_by(name: str) -> _Maker:
    counts, keyword = _VIEWS_BY[name]
    return partial(view_by, function=_in_c(getattr(np, name)), counts=counts, keyword=keyword)


_FUNCTIONS: dict[str, _Maker] = {
    "arange": ranged,
    "array": _or(
        partial(of_list, function=np.array),
        _or(of_number, _or(partial(of_array, function=np.array, is_light=True), _anew("array"))),
    ),
    "asarray": _or(itself, _or(partial(of_list, function=np.asarray), _anew("asarray"))),
    "ascontiguousarray": without_gaps,
    "atleast_1d": partial(with_axes, least=1),
    "atleast_2d": _or(partial(with_axes, least=2), partial(view, function=_in_c(np.atleast_2d))),
    "concatenate": _or(partial(joined, function=_in_c(np.concatenate)), _anew("concatenate")),
    "dot": _or(partial(product, function=_in_c(np.dot)), _anew("dot")),
    **dict.fromkeys(("eye", "identity"), diagonal_ones),
    "empty": partial(of_shape, function=np.empty),
    "full": filled,
    "empty_like": partial(of_array, function=_in_c(np.empty_like), is_light=True),
    "repeat": repeated,
    "outer": _or(partial(outer, function=np.multiply.outer), recorded),
    **{name: _anew(name) for name in names.ANEW},
    **{name: partial(telling, function=_in_c(getattr(np, name))) for name in names.TELLING},
    **{name: partial(into, function=_in_c(getattr(np, name))) for name in ("copyto", "putmask")},
    "place": partial(into, function=_place),
    "put": partial(into, function=np.ndarray.put),
    "diagonal": _DIAGONAL,
    "count_nonzero": _or(partial(of_array, function=_count_nonzero), _anew("count_nonzero")),
    "roll": _or(rolled, _anew("roll")),
    **{f"linalg.{name}": _anew(f"linalg.{name}") for name in names.DECOMPOSITIONS},
    "linalg.norm": _or(norm, _or(inner_products.norm, _anew("linalg.norm"))),
    "nonzero": _anew("nonzero", are_columns=True),
    **{f"fft.{name}": _anew(f"fft.{name}", _TRANSFORMS_SHARE) for name in names.TRANSFORMS},
    **{name: _reduced(name, _anew(name)) for name in names.REDUCTIONS},
    **{name: partial(view, function=_in_c(getattr(np, name))) for name in _VIEWS if hasattr(np, name)},
    **{name: partial(view, function=_in_c(getattr(np, name)), kinds=COMPLEX) for name in ("imag", "real")},
    **{name: _view_by(name) for name in _VIEWS_BY},
    "flip": _or(flipped, _view_by("flip")),
    "ravel": partial(view, function=np.ndarray.ravel),
    "reshape": partial(view_by, function=np.ndarray.reshape, counts=(2,)),
    "swapaxes": partial(view_by, function=np.ndarray.swapaxes, counts=(3,)),
    "transpose": partial(view_by, function=np.ndarray.transpose, counts=(1, 2), keyword="axes"),
    "where": _or(partial(chosen, function=_in_c(np.where)), _anew("where", are_columns=True)),
    "ones": _or(partial(filled, value=ONE), partial(of_shape, function=np.ones)),
    "zeros": partial(of_shape, function=np.zeros),
    "zeros_like": _or(filled_like(zeros), partial(of_array, function=_in_c(np.zeros_like), is_light=True)),
    "ones_like": _or(filled_like(ones), partial(of_array, function=_in_c(np.ones_like), is_light=True)),
}
FUNCTIONS = _with_out(_FUNCTIONS, np)
"""Names of functions in NumPy -> what makes the code of ours."""
_METHODS: dict[str, _Maker] = {
    **{
        name: _or(partial(of_array, function=getattr(np.ndarray, name), is_light=name == "copy"), _method_anew(name))
        for name in names.METHODS_OF_ONE
    },
    **{name: _reduced(name, _method_anew(name)) for name in names.REDUCTIONS},
    **{name: _method_anew(name) for name in names.METHODS_ANEW},
    "astype": cast,
    "diagonal": _DIAGONAL,
    "item": partial(telling, function=np.ndarray.item),
    "repeat": repeated,
    "view": partial(view, function=np.ndarray.view),
    "dot": _or(partial(product, function=np.ndarray.dot), _method_anew("dot")),
    "nonzero": _method_anew("nonzero"),
    "put": partial(into, function=np.ndarray.put),
    "ravel": partial(view, function=np.ndarray.ravel),
    "reshape": reshaped,
    "squeeze": partial(view_by, function=np.ndarray.squeeze, counts=(1, 2), keyword="axis"),
    "swapaxes": partial(view_by, function=np.ndarray.swapaxes, counts=(3,)),
    "transpose": partial(view_by, function=np.ndarray.transpose, counts=range(1, MOST_GIVEN + 1)),
}
METHODS = _with_out(_METHODS, np.ndarray)
"""Methods -> what makes the code of ours."""

__all__ = ["FUNCTIONS", "METHODS", "attribute"]
