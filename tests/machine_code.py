"""All machine code, written at once: tests and fuzzed programs call most things fewer times than it takes to pay."""

import sys

import oxinp


def write_all() -> None:
    """Let every slot, method and function have its machine code, if the setting is on, from the next call on."""
    oxinp.empty(0)  # before the first array there is none
    if oxinp.config.machine_code:
        sys.modules["oxinp._core.native.install"].install(oxinp.ndarray)
