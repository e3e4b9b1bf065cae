import pytest

from oxinp import _runtime


@pytest.fixture
def backend(config):
    config.backend = "emulator"
    return _runtime.current()
