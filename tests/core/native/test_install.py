"""When machine code is written: once calls have been counted for which it pays, and not before."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import oxinp
from oxinp._core.native import calls, names, objects, ufuncs, writers

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.skipif(not objects.ARE_KNOWN, reason="this Python's objects are laid out in another way")

BEGIN = """
import gc, os, operator, signal, sys, threading
import numpy
import oxinp as np
from oxinp import config
a, b = np.arange(16.0), np.arange(16.0) + 1
M = a.reshape(4, 4)
from oxinp._core.native import install, names, objects
from oxinp._core.ufunc.object import ufunc
natives = install._known[np.ndarray]
WRITERS = "oxinp._core.native.writers"

def known(kind, name):
    return natives[kind, name]

def written():
    return {each for each in natives if each.code is not None}

def repeat(times, run):
    for _ in range(times):
        run()

def pay():
    "Let all calls together be enough."
    install.FIRST = 0
"""


def run(script, **variables):
    """Run a script in a new process, in which nothing has been counted."""
    environment = {"OXINP_BACKEND": "host", **os.environ, "PYTHONPATH": str(ROOT), **variables}
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", BEGIN + script],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert not done.returncode, done.stderr
    return done.stdout


def test_names_are_those_that_code_is_written_for():
    """They lie apart from what writes code, for that is imported late."""
    assert sorted(names.FUNCTIONS) == sorted(calls.FUNCTIONS)
    assert sorted(names.METHODS) == sorted(calls.METHODS)
    assert sorted(names.OF_UFUNCS) == sorted(ufuncs.methods(oxinp.ndarray))
    of_arrays = {name for kind, name in writers._of_slots(oxinp.ndarray) if kind is oxinp.ndarray}
    assert of_arrays == {*names.SLOTS, "alloc", "dealloc"}


def test_few_operations_write_nothing():
    run("""
assert natives.is_followed()
for x in a:
    M[1] += M[0] * 2 - x
repeat(install.EACH - 20, lambda: (a + b, a[2], a[1:3], np.sqrt(b), a.sum(), -a, a > b, len(a), M @ M, np.zeros(3)))
assert not written()
assert WRITERS not in sys.modules
""")


def test_what_writes_code_is_imported_without_what_takes_long():
    run("""
import inspect
before = set(sys.modules)
inspect.signature = None  # which is asked for what is written
import oxinp._core.native.writers
assert not {"pathlib", "urllib.parse"} & (set(sys.modules) - before)
""")


def test_code_is_written_after_so_many_calls():
    run("""
pay()
add, floor = known(np.ndarray, "add"), known(np.ndarray, "floor_divide")
assert add.left.value <= install.EACH
repeat(add.left.value - 1, lambda: a + b)
assert add.code is None and add.read() == add.stub != add.before
assert (a + b)[3] == 7.0
assert add.read() == add.code not in (None, add.stub, add.before)
assert (a + b)[3] == 7.0
assert floor.code is None and floor.read() == floor.stub
assert known(np.ndarray, "dealloc").code  # which cannot be counted, and is written with the first
""")


def test_calls_of_all_count_until_the_first_code():
    run("""
repeat(install.FIRST - install.EACH, lambda: a[1])
assert not written() and WRITERS not in sys.modules
repeat(2 * install.EACH, lambda: a[1])
subscript = known(np.ndarray, "subscript")
assert written() == {subscript} | {each for each in natives if each.left is None}
repeat(install.EACH, lambda: a[1:3])
repeat(install.EACH, lambda: np.ndarray.__len__(a) + len(a))
assert known(np.ndarray, "length") in written()
""")


def test_what_records_and_launches_is_written_while_the_driver_starts():
    run("""
from oxinp._core.lazy.schedule import materialise
from oxinp._core.ops.vector_product import operand
from oxinp._runtime import hooks
for hook in hooks.while_starting:
    hook()
calls = objects.VECTORCALL is not None  # are answered by other code
internal = [natives[materialise], natives[operand]] if calls else []
for each in (known(np.ndarray, "add"), known(np.ndarray, "subscript"), *internal):
    assert each.read() == each.code not in (None, each.stub, each.before)
if calls:
    assert natives[np.roll].code is None  # which few call
    repeat(install.EACH, lambda: np.roll(a, 1))
    assert natives[np.roll].code
assert ((a + b)[3], a @ b, a[2]) == (7.0, 1360.0, 2.0)
""")


@pytest.mark.parametrize("setting", ["before", "after"])
def test_nothing_is_written_ahead_without_machine_code(setting):
    run(
        "assert not written() and WRITERS not in sys.modules"
        if setting == "before"
        else """
config.machine_code = False
from oxinp._runtime import hooks
for hook in hooks.while_starting:
    hook()
assert not written() and WRITERS not in sys.modules
"""
    )


STATEMENTS = """
length: len(a)
subscript: a[2]
ass_subscript: operator.setitem(a, 2, 1.0)
compare: a > b
matrix_multiply: M @ M
power: a ** 2
power: 2.0 ** a
add: a + b
add: 2.0 + a
subtract: a - 1
multiply: 2 * a
true_divide: 1 / b
floor_divide: a // b
remainder: a % b
and: i & i
or: i | 3
xor: 3 ^ i
lshift: i << 1
rshift: i >> 1
inplace_add: operator.iadd(a, b)
inplace_floor_divide: operator.ifloordiv(a, b)
inplace_and: operator.iand(i, 7)
negative: -a
absolute: abs(a)
invert: ~i
"""


@pytest.mark.parametrize("line", STATEMENTS.strip().split("\n"))
def test_stubs_do_what_the_functions_do_that_they_stand_for(line):
    """Python's function of an operator would ask for itself in the slot."""
    name, _, text = line.partition(": ")
    run(f"""
pay()
i = np.arange(16)
slot = known(np.ndarray, {name!r})
with config.override(machine_code=False):
    expected = numpy.asarray({text}).copy().tolist()
before = slot.left.value
first = numpy.asarray({text}).copy().tolist()
assert slot.left.value < before and slot.code is None
repeat(install.EACH, lambda: {text})
assert slot.code is not None
if "inplace" not in {name!r}:
    assert first == expected == numpy.asarray({text}).tolist()
""")


@pytest.mark.skipif(objects.VECTORCALL is None, reason="this Python's functions cannot be called by other code")
@pytest.mark.parametrize(
    ("function", "text"),
    [
        ("np.zeros", "np.zeros(3)"),
        ("np.where", "np.where(a > 2, a, b)"),
        ("np.linalg.norm", "np.linalg.norm(a)"),
        ("np.fft.fft", "np.fft.fft(a)"),
        ("np.ndarray.sum", "a.sum()"),
        ("np.ndarray.__dict__['T'].fget", "M.T"),
        ("ufunc.reduce", "np.add.reduce(a)"),
        ("np.roll", "np.roll(a, shift=2)"),
    ],
)
def test_functions_are_counted(function, text):
    """Those of submodules, too, which are registered after the first array is made."""
    run(f"""
pay()
expected = numpy.asarray({text}).tolist()
counted = natives[{function}]
assert objects.vectorcall({function}) == counted.stub
repeat(install.EACH, lambda: {text})
assert objects.vectorcall({function}) == counted.code not in (None, counted.before)
assert numpy.asarray({text}).tolist() == expected
""")


def test_errors_pass_through_stubs():
    run("""
for wrong, error in (
    (lambda: a[99], IndexError),
    (lambda: operator.setitem(a, 99, 1.0), IndexError),
    (lambda: a + np.zeros(3), ValueError),
    (lambda: len(np.array(1)), TypeError),
    (lambda: pow(a, 2, 3), TypeError),
    (lambda: a + object(), TypeError),
    (lambda: np.sqrt(a, 1, 2, 3), TypeError),
):
    try:
        wrong()
    except error:
        continue
    raise AssertionError(wrong)

class Other:
    __array_ufunc__ = None

    def __radd__(self, other):
        return "reflected"

class Metres(np.ndarray):
    def __radd__(self, other):
        return "derived"

assert a + Other() == "reflected"
assert a + b.view(Metres) == "derived"
assert type(b.view(Metres) + a) is Metres
assert not written()
""")


def test_a_slot_whose_code_cannot_be_written_stays_as_it_was():
    run("""
pay()
import oxinp._core.native.writers as writers
tried, slot = [], writers.slot

def failing(arrays, kind, name, before):
    if name == "add":
        tried.append(name)
        raise RuntimeError("out of luck")
    return slot(arrays, kind, name, before)

writers.slot = failing
add = known(np.ndarray, "add")
repeat(1000, lambda: (a + b, a * b))
assert tried == ["add"]
assert add.code is None and add.read() == add.before
assert known(np.ndarray, "multiply").code is not None
assert (a + b)[3] == 7.0
config.machine_code = False
config.machine_code = True
repeat(1000, lambda: a + b)
assert tried == ["add"] and add.read() == add.before
""")


def test_without_what_writes_code_python_does_it():
    run("""
pay()
sys.modules[WRITERS] = None  # its import fails
repeat(500, lambda: (a + b, a[1], np.sqrt(b)))
assert not written()
assert (a + b)[3] == 7.0
""")


def test_an_interrupt_meanwhile_is_the_users():
    """It is raised where the slot was called, and the code is written later."""
    run("""
pay()
import oxinp._core.native.writers as writers
slot, is_first = writers.slot, True

def interrupted(*given):
    global is_first
    if is_first:
        is_first = False
        raise KeyboardInterrupt
    return slot(*given)

writers.slot = interrupted
for name, call in (
    ("add", lambda: a + b),
    ("length", lambda: len(a)),
    ("ass_subscript", lambda: operator.setitem(a, 1, 1.0)),
):
    is_first, raised = True, 0
    for _ in range(3 * install.EACH):
        try:
            call()
        except KeyboardInterrupt:
            raised += 1
    assert raised == 1
    assert known(np.ndarray, name).code is not None
""")


def test_the_setting_changes_stubs_and_code():
    run("""
pay()
repeat(500, lambda: a + b)
add, multiply = known(np.ndarray, "add"), known(np.ndarray, "multiply")
assert add.code and not multiply.code
left = multiply.left.value
config.machine_code = False
assert not natives.is_followed()
assert all(each.read() == each.before for each in natives)
repeat(500, lambda: (a + b, a * b))
assert multiply.left.value == left and not multiply.code
config.machine_code = True
assert add.read() == add.code and multiply.read() == multiply.stub
repeat(500, lambda: a * b)
assert multiply.read() == multiply.code is not None
install.uninstall(np.ndarray)
assert all(each.read() == each.before for each in natives)
assert install.install(np.ndarray)
assert all(each.read() == each.code is not None for each in natives)
""")


def test_what_is_off_from_the_beginning_can_be_turned_on():
    run(
        """
assert not list(natives) and not natives.is_followed()
config.machine_code = True
pay()
repeat(500, lambda: a + b)
assert known(np.ndarray, "add").code
""",
        OXINP_MACHINE_CODE="0",
    )


def test_a_method_that_is_replaced_meanwhile_is_called():
    run("""
pay()
repeat(10, lambda: a - b)
subtract = known(np.ndarray, "subtract")
np.ndarray.__sub__ = lambda self, other: "replaced"
assert subtract.read() == subtract.before
repeat(500, lambda: a + b)
assert a - b == "replaced"
repeat(500, lambda: a - b)
assert a - b == "replaced" and subtract.code is None

# While its code is written.
import oxinp._core.native.writers as writers
slot = writers.slot

def replacing(arrays, kind, name, before):
    if name == "multiply":
        np.ndarray.__mul__ = lambda self, other: "replaced"
    return slot(arrays, kind, name, before)

writers.slot = replacing
repeat(500, lambda: a * b)
assert a * b == "replaced"
""")


def test_threads_count_and_write():
    run("""
pay()
sys.setswitchinterval(1e-6)
wrong = []

def work(seed):
    x = np.asarray(numpy.full(16, float(seed)))
    for i in range(400):
        y = x + x
        z = y[2:5] - x[2:5]
        z[1] = 3.0
        if y[0] != 2 * seed or z[0] != seed or z[1] != 3.0 or float((x * x).sum()) != 16.0 * seed * seed:
            wrong.append(seed)
        if seed == 1 and i % 40 == 0:
            config.machine_code = not config.machine_code

threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
for each in threads:
    each.start()
for each in threads:
    each.join()
config.machine_code = True
assert not wrong
repeat(500, lambda: a + b)
assert known(np.ndarray, "add").code and all(each.read() in (each.stub, each.code) for each in natives if each.left)
""")


def test_while_another_thread_writes_calls_are_counted_on():
    run("""
pay()
add = known(np.ndarray, "add")
with install._WRITING:
    repeat(500, lambda: a + b)
    assert add.code is None and add.read() == add.stub
repeat(install.EACH, lambda: a + b)
assert add.code is not None
""")


def test_children_count_for_themselves():
    run("""
pay()
with install._WRITING:  # which another thread might hold
    child = os.fork()
    if not child:
        repeat(500, lambda: (a + b, a[1]))
        os._exit(known(np.ndarray, "add").code is None)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert known(np.ndarray, "add").code is None
repeat(500, lambda: a + b)
assert known(np.ndarray, "add").code
""")


def test_what_is_written_as_the_process_ends_is_not_used():
    run("""
pay()
import oxinp._core.native.writers as writers
slot = writers.slot

def leaving(*given):
    natives.leave()
    return slot(*given)

writers.slot = leaving
repeat(500, lambda: a + b)
assert known(np.ndarray, "add").code
assert all(each.read() == each.before for each in natives)
""")


def test_the_end_of_a_process():
    """Neither code nor stubs are met that are gone: by what is finalised late, or by threads that go on."""
    assert (
        run("""
import atexit
pay()

class Late:
    def __init__(self):
        self.x, self.y = np.arange(4.0), a

    def __del__(self):
        for _ in range(200):
            self.x[1], self.x + self.y[:4]

sys.kept = Late()
kept = Late()
kept.itself = kept
atexit.register(lambda: repeat(200, lambda: a + b))

def work():
    while True:
        a + b, a[1], np.sqrt(b)

threading.Thread(target=work, daemon=True).start()
repeat(install.EACH // 2, lambda: a * b)
print("done")
""")
        == "done\n"
    )


def test_stubs_keep_and_give_back_what_they_should():
    run("""
import tracemalloc
install.FIRST = 2**62  # counts run out, and start again
i = np.arange(16)
watched = [a, b, i, M, None, np.ndarray, np.ndarray.__dict__["__getitem__"], natives]

def use(times):
    for _ in range(times):
        a + b, 2.0 - a, a ** 2, 2.0 ** a, M @ M, -a, a > b, len(a), a[2], a[1:3], i & 3, 3 ^ i, np.sqrt(b), a.sum()
        a[3] = 1.0
        operator.iadd(a, b)
        for wrong in (lambda: a[99], lambda: a + M[0, :3], lambda: a @ M[0, :3]):
            try:
                wrong()
            except (IndexError, ValueError):
                continue
            raise AssertionError
    gc.collect()
    return [sys.getrefcount(each) for each in watched], tracemalloc.get_traced_memory()[0]

tracemalloc.start()
use(200)
before, kept = use(10)
after, still_kept = use(1000)
assert all(abs(x - y) < 100 for x, y in zip(before, after)), (before, after)
assert still_kept - kept < 50_000
assert not written()
""")
