"""Documentation of what has NumPy's or SciPy's name: their text, and what is to be said of ours after it."""

from __future__ import annotations

import functools
import re
import textwrap
from collections.abc import Callable
from inspect import Signature, signature
from types import FunctionType
from typing import Any

ON_THE_HOST = "NumPy or SciPy computes it on the host; `oxinp.cuda.stats().fallbacks` counts the calls."
HEADING = "Notes on oxinp"
_INDENT = re.compile(r"\n( *)\S")


def appended(text: str | None, *sentences: str) -> str | None:
    """Return a docstring of NumPy's or SciPy's with a section of ours at its end.

    Parameters
    ----------
    text : str or None
        None where Python runs without docstrings; so is the result.
    *sentences : str
        Each a paragraph of the section; without any the text is as it was.

    Examples
    --------
    >>> print(appended("Return the sum.", "Computed on the device."))
    Return the sum.
    <BLANKLINE>
    Notes on oxinp
    --------------
    Computed on the device.
    """
    if text is None or not sentences:
        return text
    found = _INDENT.search(text)
    indent = found[1] if found else ""
    section = "\n\n".join([_filled(sentence, indent) for sentence in sentences])
    return f"{text.rstrip()}\n\n{indent}{HEADING}\n{indent}{'-' * len(HEADING)}\n{section}"


@functools.lru_cache(maxsize=256)
def _filled(sentence: str, indent: str) -> str:
    if len(indent) + len(sentence) < 80:
        return indent + sentence
    return textwrap.fill(sentence, 79, initial_indent=indent, subsequent_indent=indent)


class OfInstances:
    """A descriptor whose value for the class itself is a constant, and for an instance what a function makes of it.

    Parameters
    ----------
    constant : object
    make : callable
        (instance) -> the value; may raise AttributeError.
    """

    def __init__(self, constant: Any, make: Callable[[Any], Any]) -> None:
        self._constant = constant
        self._make = make

    def __get__(self, instance: Any, kind: type) -> Any:
        return self._constant if instance is None else self._make(instance)


class SignatureOf:
    """A descriptor for a class's ``__signature__``: that of one of NumPy's, which classes below it do not inherit.

    Parameters
    ----------
    owner : type
    numpys : type
    """

    def __init__(self, owner: type, numpys: type) -> None:
        self._owner = owner
        self._numpys = numpys

    def __get__(self, instance: Any, kind: type) -> Signature:
        if kind is not self._owner:
            raise AttributeError("__signature__")
        try:
            return signature(self._numpys)
        except ValueError:  # NumPy's own classes tell none before 2.4
            raise AttributeError("__signature__") from None


def set_module(ours: type) -> None:
    """Show a class and its methods where users find them: `help` names a method's module where it is another one."""
    ours.__module__ = "oxinp"
    for value in vars(ours).values():
        if isinstance(value, FunctionType):
            value.__module__ = "oxinp"


def stand_for(ours: type, numpys: type, *sentences: str) -> None:
    """Show a class of ours where it stands for one of NumPy's: with that one's name, documentation and signature."""
    set_module(ours)
    ours.__doc__ = appended(numpys.__doc__, *sentences)
    ours.__signature__ = SignatureOf(ours, numpys)  # type: ignore[attr-defined]


NO_PARAMETERS = Signature()
