"""Progress of long loops: by tqdm or rich where one is installed, else a line now and then."""

import importlib
import importlib.util
import sys
import time

SECONDS_BETWEEN_LINES = 2.0


def progress(count, label):
    """Yield 0, 1, ... ``count - 1`` and show on the standard error how far the loop around it has come."""
    if importlib.util.find_spec("tqdm") is not None:
        return iter(importlib.import_module("tqdm").tqdm(range(count), desc=label, leave=False))
    if importlib.util.find_spec("rich") is not None and sys.stderr.isatty():
        console = importlib.import_module("rich.console").Console(stderr=True)
        track = importlib.import_module("rich.progress").track
        return iter(track(range(count), description=label, console=console, transient=True))
    return _with_lines(count, label)


def _with_lines(count, label):
    shown = time.perf_counter()
    for i in range(count):
        yield i
        now = time.perf_counter()
        if now - shown > SECONDS_BETWEEN_LINES:
            print(f"{label}: {i + 1} of {count}", file=sys.stderr)
            shown = now
