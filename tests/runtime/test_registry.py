import gc

from oxinp._runtime.registry import Registry


class Entry:
    pass


def test_entries_are_known_as_long_as_others_hold_them():
    registry, entries = Registry(), [Entry(), Entry()]
    for entry in entries:
        registry.add(entry)
    assert list(registry) == entries
    del entry
    entries.pop(0)
    gc.collect()
    assert list(registry) == entries
    assert len(registry) == 1
    registry.clear()
    assert not len(registry)


def test_one_may_be_added_while_others_are_gone_through():
    registry, entries = Registry(), [Entry() for _ in range(3)]
    for entry in entries[:2]:
        registry.add(entry)
    seen = []
    for entry in registry:
        registry.add(entries[2])
        seen.append(entry)
    assert seen == entries[:2]
