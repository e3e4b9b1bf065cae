"""Threads that take turns every few bytecodes, not every few operations, so that races show."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.patience import PATIENCE

TURN_SECONDS = 2e-5


@contextmanager
def taking_turns() -> Iterator[None]:
    """Have the interpreter change threads that often inside a `with` block."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(TURN_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def run_at_once(*bodies: Callable[[], object]) -> None:
    """Run the bodies at once, each in its thread; raise what the first of them raised."""
    start = threading.Barrier(len(bodies))
    errors: list[BaseException] = []

    def run(body: Callable[[], object]) -> None:
        start.wait()
        try:
            body()
        except BaseException as error:  # noqa: BLE001 - raised again below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(body,), daemon=True) for body in bodies]
    with taking_turns():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    if errors:
        raise errors[0]
