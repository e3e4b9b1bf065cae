"""A trace of the program: what the device did when, for chrome://tracing or Perfetto."""

from __future__ import annotations

import atexit
import os
import sys

from oxinp._runner import profile as lines
from oxinp._runner import program
from oxinp.cuda import current
from oxinp.cuda.profiler import Profile

__all__ = ["start"]


def start(path: str) -> None:
    """Trace the program from now on; write the trace when Python ends.

    Parameters
    ----------
    path : str
        The file to write JSON to.

    Raises
    ------
    ValueError
        There is no name.
    OSError
        The file cannot be written to.
    """
    if not path:
        raise ValueError("a file to write the trace to is needed")
    file = program.open_report(path)
    current.find_line = lines.Profile().follow()
    profile = Profile()
    # Registered before the program's own, and so called after them.
    atexit.register(_write, profile, file, os.getpid())
    profile.__enter__()


def _write(profile: Profile, file: int, process: int) -> None:
    if os.getpid() != process:  # forked by the program
        return
    profile.__exit__(None, None, None)
    try:
        profile.write(file)
    except OSError as error:
        sys.stderr.write(f"the trace could not be written: {error.strerror}\n")
