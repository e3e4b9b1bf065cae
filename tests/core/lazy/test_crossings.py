"""Copies that there would be if small arrays were on the host."""

from oxinp._core.lazy.crossings import Crossings

FETCH, UPLOAD = 50.0, 20.0


def crossings():
    made = Crossings(4, fetch=FETCH, upload=UPLOAD)
    made.go(3)
    made.forget(4)
    return made


def test_results_of_larger_work_would_be_fetched_and_those_of_smaller_uploaded():
    made = crossings()
    made.go(1)
    assert made.costs()[:5] == [0.0, 0.0, FETCH, FETCH, 0.0]  # were arrays of two or three sizes on the host
    made.go(0)
    assert made.costs()[:5] == [0.0, FETCH, FETCH, FETCH, 0.0]
    made.go(2)
    assert made.costs()[:5] == [0.0, FETCH + UPLOAD, FETCH + UPLOAD, FETCH, 0.0]


def test_what_the_program_waits_for_anyway_would_be_fetched_for_nothing():
    made = crossings()
    made.go(1)
    made.go(0)
    made.wait()
    assert not any(made.costs())
    made.wait()
    assert not any(made.costs())
    made.go(2)
    made.wait()  # for large work
    assert made.costs()[:5] == [0.0, UPLOAD, UPLOAD, 0.0, 0.0]


def test_copies_are_remembered_for_larger_arrays_where_smaller_ones_go():
    made = crossings()
    made.go(0)
    made.fade(0.5)
    made.forget(1)
    assert made.costs()[:5] == [0.0, 0.0, FETCH / 2, FETCH / 2, 0.0]
    made.wait()  # for what was launched before
    made.forget(4)
    assert not any(made.costs())


def test_what_fades_for_long_is_remembered_in_proportion():
    made = crossings()
    made.go(1)
    for share in [0.5] * 60 + [1.0] * 3:
        made.fade(share)
    assert 0 < made.costs()[2] < 1e-15  # whatever it has become, it is not in the way of what comes next
    made.go(2)
    made.go(1)
    assert abs(made.costs()[2] - (FETCH + UPLOAD)) < 1e-12
    made.fade(0.5)
    made.go(2)
    assert abs(made.costs()[2] - (FETCH / 2 + 1.5 * UPLOAD)) < 1e-12
