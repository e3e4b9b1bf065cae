"""Fixtures of the kernel language's tests."""

import pytest

from tests.ptx.assembler import assemble


@pytest.fixture
def assembled():
    """Assemble kernels: ``assembled(kernels) -> ptxas -v output``."""
    return assemble
