"""The meaning of instructions that only the hardware has one for.

Kernels that use them (the bulk copy engine, wgmma) have a sibling for ``sm_80`` that the emulator runs, and the same
tests hold both.
"""

from __future__ import annotations

from typing import Any, NoReturn

from oxinp._ptx.isa import Op, Wait


def refuse(frame: Any, op: Op, *operands: Any) -> NoReturn:
    """Raise: the emulator does not know the instruction."""
    raise NotImplementedError(f"{op.name} runs on a GPU only: emulate the sm_80 kernel of the same Spec instead")


refuse_to_wait = Wait(refuse, refuse)

__all__ = ["refuse", "refuse_to_wait"]
