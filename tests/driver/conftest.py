"""Objects over a driver without a GPU that the tests of this folder use; those in `gpu` have their own."""

import pytest

from oxinp._driver.context import Context
from oxinp._driver.device import Device
from oxinp._driver.driver import start
from tests.driver.fake_library import FakeLibrary, open_context


@pytest.fixture
def opened():
    """A context, and the library it is in."""
    return open_context()


@pytest.fixture
def context(opened):
    return opened[0]


@pytest.fixture
def fake(opened):
    return opened[1]


@pytest.fixture
def two():
    """Contexts on two devices, and the library they are in."""
    library = FakeLibrary(num_devices=2)
    driver = start(library)
    return Context(Device(0, driver)), Context(Device(1, driver)), library
