"""What placement is told of launches, in machine code: what `Balance.ran` does of what is not weighed for its size."""

from __future__ import annotations

from oxinp._core.lazy.balance import NUM_SIZES, Balance, balance
from oxinp._core.lazy.crossings import Crossings
from oxinp._core.native import objects
from oxinp._core.native.leaves import load_number
from oxinp._core.native.making import LAYOUT, Making, offsets
from oxinp._core.native.places import load_small

_BALANCE = offsets(Balance, ("_beyond", "_crossings", "_last", "_upload", "has_waited", "reach"))
_NO_UPLOAD = 0.0
"""What is left of uploads where they have been for what is not weighed."""
_LAST_CROSSED = offsets(Crossings, ("last",))["last"]


def count_beyond(call: Making, label: str) -> None:
    """Count a launch for the layout in `r15`, after others that are not weighed; go to a label where it is weighed.

    What is raised is raised; `rbp` and `r12` change.
    """
    code = call.code
    load_number(call, "rbp", "r15", LAYOUT["nbytes"], label)
    code.set("r12", id(balance))
    load_number(call, "rax", "r12", _BALANCE["reach"], label)
    code.compare("rbp", "rax")
    code.jump(label, "l")
    code.load("rdi", "r12", _BALANCE["_crossings"])
    code.set("rcx", id(NUM_SIZES))
    code.compare_with("rdi", _LAST_CROSSED, "rcx")
    code.jump(label, "ne")
    code.load("rsi", "r12", _BALANCE["_beyond"])
    load_small(call, "rdi", "rsi", label)
    code.add("rdi", 1)
    code.call(objects.address("PyLong_FromSsize_t"))
    code.compare_number("rax", 0)
    code.jump("raised", "e")
    code.load("r15", "r12", _BALANCE["_beyond"])
    code.store("r12", _BALANCE["_beyond"], "rax")
    call.drop("r15")
    for name, value in (("_last", NUM_SIZES), ("has_waited", False), ("_upload", _NO_UPLOAD)):
        code.set("rbp", id(value))
        call.set_attribute("r12", _BALANCE[name], "rbp")


__all__ = ["count_beyond"]
