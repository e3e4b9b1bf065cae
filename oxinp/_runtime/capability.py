"""What planning has to know of a GPU, and the choices that were measured to be best on such."""

from __future__ import annotations

import importlib
from functools import cache
from typing import TYPE_CHECKING, Any

from oxinp._runtime.backend import Capability

if TYPE_CHECKING:
    from oxinp._driver.device import Device

__all__ = ["capability_of"]


def capability_of(device: Device) -> Capability:
    """Return the capability of a GPU."""
    return Capability(
        cc=device.compute_capability,
        num_sms=device.num_sms,
        max_shared_nbytes=device.max_shared_nbytes,
        l2_nbytes=device.l2_nbytes,
        total_nbytes=device.total_nbytes,
        device_name=device.name,
        tuned=_Tuned(device.compute_capability),
    )


class _Tuned:
    """What the database for a compute capability answers."""

    def __init__(self, cc: tuple[int, int]) -> None:
        self.cc = cc

    def __call__(self, question: Any) -> Any:
        return _database(self.cc)(question)

    def knows(self, question: Any) -> bool:
        """Whether it has rows of a question's family and key."""
        known: bool = _database(self.cc).knows(question)
        return known


@cache
def _database(cc: tuple[int, int]) -> Any:
    """The tuned choices, imported with the first question: the first kernel of a program asks none."""
    return importlib.import_module("oxinp._runtime.tuned").database(cc)
