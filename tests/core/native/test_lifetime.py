"""Arrays that are gone, and those that their memory is kept for."""

import gc
import sys
import threading
import weakref

import numpy as np
import pytest

import oxinp
from oxinp import config
from oxinp._core.native import lifetime, objects
from tests.comparator import assert_same

pytestmark = pytest.mark.skipif(not objects.ARE_KNOWN, reason="this Python's objects are laid out in another way")


@pytest.fixture(params=[True, False], ids=["machine code", "Python"], autouse=True)
def either_way(request):
    with config.override(machine_code=request.param, offload_threshold=65536):
        yield request.param


def test_arrays_are_nothing_but_their_slots():
    assert lifetime.can_be_kept(oxinp.ndarray)


def test_memory_is_used_again(either_way):
    x = oxinp.arange(8.0)
    where = {id(x[i:]) for i in range(8)}
    assert len(where) < 8 or not either_way


def test_arrays_that_are_gone_leave_nothing_behind():
    base = np.arange(8.0)
    x = oxinp.asarray(base)
    before = sys.getrefcount(x)
    for _ in range(1000):
        part = x[1:]
        part = part[1:]
    assert sys.getrefcount(x) == before + 1
    del part
    assert sys.getrefcount(x) == before
    kept = [x + i for i in range(1000)]
    del kept
    made = [x * i for i in range(1000)]
    for i, each in enumerate(made):
        assert_same(each, base * i)


def test_weak_references_are_told():
    told = []
    x = oxinp.arange(4.0)
    watch = weakref.ref(x, told.append)
    assert watch() is x
    del x
    assert told == [watch]
    assert watch() is None
    y = oxinp.arange(4.0)
    assert weakref.getweakrefcount(y) == 0


def test_what_a_weak_reference_calls_may_make_arrays():
    made = []
    for i in range(300):
        x = oxinp.full(3, float(i))
        watch = weakref.ref(x, lambda _, i=i: made.append(oxinp.full(3, float(i))))
        made.append(watch)
        del x
    for i, each in enumerate(made[1::2]):
        assert_same(each, np.full(3, float(i)))


def test_derived_classes_come_and_go():
    gone = []

    class Derived(oxinp.ndarray):
        def __del__(self):
            gone.append(self.name)

    before = sys.getrefcount(Derived)
    for i in range(300):
        x = oxinp.arange(3.0).view(Derived)
        x.name = i
        x.itself = x if i % 2 else None
        del x
    gc.collect()
    assert sorted(gone) == list(range(300))
    assert sys.getrefcount(Derived) == before


def test_the_garbage_collector_sees_arrays_that_are_there_and_no_others():
    gc.collect()
    x = oxinp.arange(5.0)
    assert gc.is_tracked(x)
    kept = [x[i:] for i in range(5)]
    del kept[1:]
    gc.collect()
    ours = [each for each in gc.get_objects() if type(each) is oxinp.ndarray]
    assert any(each is kept[0] for each in ours)
    assert all(each.size or True for each in ours)  # none is without its attributes


def test_cycles_through_arrays_are_collected():
    class Holder:
        pass

    watched = []
    for _ in range(50):
        holder = Holder()
        holder.itself = holder
        holder.ours = oxinp.arange(3.0)
        watched.append(weakref.ref(holder.ours))
        del holder
    gc.collect()
    assert not any(each() is not None for each in watched)


def test_threads_make_and_drop_arrays():
    failed = []

    def work(seed):
        x = oxinp.asarray(np.full(16, float(seed)))
        for _ in range(2000):
            y = x[2:9] + x[1:8]
            if y[0] != 2 * seed:
                failed.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failed


def test_the_setting_may_change_meanwhile():
    x = oxinp.arange(6.0)
    for i in range(20):
        with config.override(machine_code=bool(i % 2)):
            kept = [x[j:] for j in range(6)]
        del kept
    assert_same(x[2:], np.arange(2.0, 6.0))
