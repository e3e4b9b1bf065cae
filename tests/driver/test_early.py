"""The early start of the driver: what it calls, and that it lets go again."""

import ctypes

import pytest

from oxinp._driver import early


class FakeDriver:
    """What `ctypes.CDLL` gives, as far as an early start calls it."""

    def __init__(self, major=9, fails=""):
        self.calls = []
        self._major = major
        self._fails = fails

    def __getattr__(self, name):
        def call(*arguments):
            self.calls.append(name)
            if name == "cuDeviceGetAttribute":
                arguments[0]._obj.value = self._major
            return 100 if name == self._fails else 0

        return call


@pytest.fixture
def open_as(monkeypatch):
    def substitute(driver):
        for kind in ("CDLL", "PyDLL"):
            monkeypatch.setattr(early.ctypes, kind, lambda _: driver)
        return driver

    monkeypatch.setattr(early.sys, "platform", "linux")
    return substitute


RETAIN, RELEASE = "cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease_v2"


def test_context_is_made_and_let_go_of(open_as):
    driver = open_as(FakeDriver())
    finish = early.start(8)
    finish()
    assert driver.calls == ["cuInit", "cuDeviceGet", "cuDeviceGetAttribute", RETAIN, RELEASE]


@pytest.mark.parametrize(
    ("driver", "last"),
    [
        (FakeDriver(major=7), "cuDeviceGetAttribute"),
        (FakeDriver(fails="cuInit"), "cuInit"),
        (FakeDriver(fails="cuDeviceGet"), "cuDeviceGet"),
        (FakeDriver(fails=RETAIN), RETAIN),
    ],
)
def test_what_was_not_made_is_not_let_go_of(driver, last, open_as):
    open_as(driver)
    early.start(8)()
    assert driver.calls[-1] == last


def test_without_a_driver_nothing_starts(monkeypatch):
    def refuse(name):
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", refuse)
    assert early.start(8) is None
