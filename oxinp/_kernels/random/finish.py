"""What becomes of drawn elements before they are stored: nothing, or a chain of elementwise operations with scalars."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.gemm.epilogue import BoundEpilogue, EpilogueSpec, bind

if TYPE_CHECKING:
    from oxinp._kernels.gemm.epilogue import Epilogue
    from oxinp._ptx import Builder
    from oxinp._ptx.types import Type
    from oxinp._ptx.value import Value


class Finish(NamedTuple):
    """A chain that follows a draw, and the type of its result.

    Attributes
    ----------
    epilogue : EpilogueSpec
        Value 0 is the drawn element, all other inputs are scalars.
    type : Type
    """

    epilogue: EpilogueSpec
    type: Type

    @staticmethod
    def of(epilogue: Epilogue, type_: Type) -> Finish:
        """Return what a kernel's code depends on of an epilogue without arrays."""
        return Finish(bind(epilogue, ())[0], type_)


class BoundFinish:
    """The chain inside a kernel, with its parameters, the scalars."""

    def __init__(self, k: Builder, finish: Finish | None) -> None:
        self._finish = finish
        if finish is not None:
            self._epilogue = BoundEpilogue(k, finish.epilogue)
            self._position = self._epilogue.at(())

    def apply(self, values: list[Value]) -> list[Value]:
        """What is stored of drawn elements."""
        if self._finish is None:
            return values
        return self._epilogue.apply(values, self._position.load(len(values)), self._finish.type)


__all__ = ["BoundFinish", "Finish"]
