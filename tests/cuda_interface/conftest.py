"""A driver without a GPU behind `oxinp.cuda`."""

import pytest

from oxinp._driver import driver
from oxinp._runtime import hooks, select
from tests.driver.fake_library import FakeLibrary


@pytest.fixture
def library(monkeypatch, config, one_stream):  # noqa: ARG001
    """A driver of two devices behind the backend in use; nothing it launches computes anything."""
    library = FakeLibrary(num_devices=2, results={"cuPointerGetAttribute": 1})
    monkeypatch.setattr(driver, "_loaded", driver.start(library))
    monkeypatch.setattr(select, "_opened", {})
    monkeypatch.setattr(select, "_failures", {})
    monkeypatch.setattr(select, "_decided", (-1, None))
    monkeypatch.setattr(hooks, "before_synchronize", list(hooks.before_synchronize))
    config.backend = "cuda"
    config.cache_dir = ""
    return library
