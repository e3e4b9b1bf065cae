"""Results that take their operand's memory: what transforms need at most, and what still reads the operand."""

import gc

import numpy as np
import pytest

import oxinp
from oxinp import _runtime
from oxinp._core.ops import overwriting
from oxinp._runtime import emulator

pytestmark = pytest.mark.usefixtures("on_device", "one_stream")  # transforms of several streams overwrite nothing

SHAPE = (64, 512)
NAMES = ["fft", "ifft", "fft2", "fftn", "ifftn"]


def numbers(code="F"):
    rng = np.random.default_rng(5)
    return (rng.standard_normal(SHAPE) + 1j * rng.standard_normal(SHAPE)).astype(code)


def given(code="F"):
    """An array that is on the device alone."""
    x = oxinp.asarray(numbers(code)) * 1
    oxinp.evaluate(x)
    return x


def arrays_beside(compute):
    """How many arrays' memory a computation takes beside what there is, at most, and its result."""
    gc.collect()
    oxinp.cuda.synchronize()
    oxinp.cuda.reset_peak()
    before = oxinp.cuda.memory_stats().used_nbytes
    result = compute()
    oxinp.evaluate(result)
    return (oxinp.cuda.memory_stats().peak_nbytes - before) / result.nbytes, result


def check(found, expected):
    assert abs(np.asarray(found) - expected).max() <= 8 * np.finfo(found.dtype).eps * abs(expected).max()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("code", "FD")
def test_overwrite_x(name, code):
    x = given(code)
    function, expected = getattr(oxinp.scipy.fft, name), getattr(np.fft, name)(numbers(code).astype("D"))
    assert arrays_beside(lambda: function(x))[0] == 1
    count, found = arrays_beside(lambda: function(x, overwrite_x=True))
    assert count == 0
    check(found, expected)
    check(x, expected)
    assert oxinp.shares_memory(x, found)
    assert not np.shares_memory(np.asarray(x[:1]), numbers(code))


@pytest.mark.parametrize("name", NAMES)
def test_last_use(name):
    held = [given()]
    count, found = arrays_beside(lambda: getattr(oxinp.fft, name)(held.pop()))
    assert count == 0
    check(found, getattr(np.fft, name)(numbers()))


def test_one_after_the_other():
    x = given()
    count, found = arrays_beside(lambda: oxinp.fft.fft(oxinp.fft.ifft2(oxinp.fft.fft(x)), axis=0))
    assert count == 1
    check(found, np.fft.fft(np.fft.ifft2(np.fft.fft(numbers())), axis=0))
    check(x, numbers())


def test_out():
    x = given()
    count, found = arrays_beside(lambda: oxinp.fft.fft(x, out=x))
    assert count == 0
    assert found is x
    check(x, np.fft.fft(numbers()))


def test_workspace():
    """A length that two passes take has as much workspace as itself, and nothing else."""
    x = oxinp.asarray(np.ones(1 << 16, "F")) * 1
    oxinp.evaluate(x)
    assert arrays_beside(lambda: oxinp.scipy.fft.fft(x, overwrite_x=True))[0] == 1


def test_what_reads_the_operand():
    """An array, a view, a chain and another transform still see what was there before."""
    expected, spectrum = numbers(), np.fft.fft(numbers())
    x = given()
    view, chain, other = x[3:], x + 1, oxinp.fft.fft(x, axis=0)
    check(oxinp.scipy.fft.fft(x, overwrite_x=True), spectrum)
    check(view, spectrum[3:])  # which is a view of what was overwritten, as in SciPy
    check(chain, expected + 1)
    check(other, np.fft.fft(expected, axis=0))
    for read in (lambda a: a[3:], lambda a: a.T, lambda a: a.copy(), oxinp.fft.ifft, oxinp.fft.fftshift):
        held = [given()]
        seen = read(held[0])
        check(oxinp.fft.fft(held.pop()), spectrum)
        check(seen, np.asarray(read(oxinp.asarray(expected))))


@pytest.mark.parametrize("is_first", [True, False])
def test_shifts_of_transforms(is_first):
    """What is shifted as it is stored is computed from the same operand a second time."""
    held = [given()]
    found = oxinp.fft.fft(held.pop())
    shifted = oxinp.fft.fftshift(found)
    for each in (found, shifted) if is_first else (shifted, found):
        oxinp.evaluate(each)
    check(found, np.fft.fft(numbers()))
    check(shifted, np.fft.fftshift(np.fft.fft(numbers())))


def test_what_is_not_overwritten():
    x = given()
    before = numbers()
    for name, a in (("fft", x.real.copy()), ("rfft", x.real.copy()), ("fft", x[:, ::2]), ("fft", x[1:])):
        kept = np.asarray(a)
        getattr(oxinp.scipy.fft, name)(a, overwrite_x=True)
        check(a, kept)
    oxinp.scipy.fft.fft(x, 300, overwrite_x=True)
    check(x, before)
    x.flags.writeable = False
    check(oxinp.scipy.fft.fft(x, overwrite_x=True), np.fft.fft(before))
    check(x, before)


@pytest.mark.parametrize("n", [1 << 15, 3 << 14])
def test_workspaces_of_more_than_half_of_the_memory(monkeypatch, n):
    """Parts of a batch take turns in a smaller one, the first time, too."""
    monkeypatch.setattr(overwriting, "FEWEST", 0)
    x = np.random.default_rng(0).standard_normal((8, n)).astype("F")
    a = oxinp.asarray(x) * 1
    oxinp.evaluate(a)
    oxinp.cuda.trim()
    expected = np.fft.fft(x)
    if n == 1 << 15:
        assert arrays_beside(lambda: oxinp.fft.fft(a))[0] == 2
    oxinp.cuda.limit_memory(int(oxinp.cuda.memory_stats().used_nbytes + 2.5 * x.nbytes))
    monkeypatch.setattr(overwriting, "SHARE", 100)
    try:
        count, found = arrays_beside(lambda: oxinp.fft.fft(a))
    finally:
        oxinp.cuda.limit_memory(None)
    assert 1 < count < 1.5
    check(found, expected)


class Stopped(Exception):
    """What a handler of a signal raises."""


@pytest.fixture
def stop(monkeypatch):
    """Return a function that lets the n-th launch from now on raise, before or after it has run."""
    if _runtime.current().name != "emulator":
        pytest.skip("launches of the emulator alone can be stopped")
    run, left, when = emulator.emulate.run, [0], [""]

    def stopping(*args):
        left[0] -= 1
        if left[0] == 0 and when[0] == "before":
            raise error[0]
        run(*args)
        if left[0] == 0:
            raise error[0]

    def arm(number, moment, what=Stopped):
        left[0], when[0], error[0] = number, moment, what

    error = [Stopped]
    monkeypatch.setattr(emulator.emulate, "run", stopping)
    return arm


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("number", [1, 2])
def test_what_is_stopped_on_the_way_is_lost_and_says_so(stop, number, moment):
    """Its operand is overwritten in part: to compute it from that would be wrong without a word."""
    held = [given()]
    found, other = oxinp.fft.fft2(held.pop()), oxinp.fft.fft2(given())
    stop(number, moment)
    with pytest.raises(Stopped):
        oxinp.evaluate(found)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="its elements are lost"):
            np.asarray(found)
    oxinp.cuda.synchronize()
    check(other, np.fft.fft2(numbers()))


def test_what_fails_before_anything_is_written_is_tried_again(stop):
    held = [given()]
    found = oxinp.fft.fft2(held.pop())
    stop(1, "before", MemoryError)
    with pytest.raises(MemoryError):
        oxinp.evaluate(found)
    check(found, np.fft.fft2(numbers()))
    x = given()
    found = oxinp.fft.fft2(x)
    for number in (1, 2):
        stop(number, "after")
        with pytest.raises(Stopped):
            oxinp.evaluate(found)
    check(found, np.fft.fft2(numbers()))


def test_what_a_captured_graph_reads_stays(monkeypatch):
    """Each launch of the graph transforms the same elements again."""
    held = [given()]
    ptr, kept = held[0]._storage.value[1][0].ptr, _runtime.current()
    found = oxinp.fft.fft(held.pop())
    monkeypatch.setattr(type(kept), "is_captured", property(lambda _: True))
    oxinp.evaluate(found)
    monkeypatch.undo()
    assert found._storage.value[1][0].ptr != ptr
    check(found, np.fft.fft(numbers()))
