"""What the emulator reports.

EmulationError
├── AccessError      misaligned, out of bounds, uninitialised
├── RaceError        two lanes touch one byte unordered, at least one writes
├── DeadlockError    every thread waits
└── DivergenceError  a warp instruction names lanes that are not at it
"""

from __future__ import annotations


class EmulationError(RuntimeError):
    """A kernel did something that is wrong on the device; says kernel, instruction, thread and address."""


class AccessError(EmulationError):
    """A misaligned, out-of-bounds or uninitialised access."""


class RaceError(EmulationError):
    """Two threads access one byte without synchronisation in between, and at least one writes."""


class DeadlockError(EmulationError):
    """Every thread that is left waits for another."""


class DivergenceError(EmulationError):
    """A warp or warpgroup instruction was reached without all the lanes it names."""
