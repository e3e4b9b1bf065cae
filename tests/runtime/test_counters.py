from oxinp._runtime.counters import Stats


def test_reset_keeps_the_objects_others_hold():
    stats = Stats()
    fallbacks = stats.fallbacks
    stats.launches += 3
    fallbacks["linalg.svd"] = 2
    before = stats.copy()
    stats.reset()
    assert stats.launches == 0
    assert stats.fallbacks is fallbacks
    assert fallbacks == {}
    assert (before.launches, before.fallbacks) == (3, {"linalg.svd": 2})


def test_repr_has_every_count():
    text = repr(Stats())
    assert all(f"{name}=" in text for name in Stats.__slots__)
