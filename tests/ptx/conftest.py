"""Fixtures of the kernel language's tests."""

import pytest

from tests.ptx.assembler import assemble


@pytest.fixture
def assembled(request, tmp_path):
    """Assemble kernels, with what is known from earlier runs: ``assembled(kernels) -> ptxas -v output``."""
    cache = getattr(request.config, "cache", None)
    folder = cache.mkdir("ptxas") if cache is not None else tmp_path
    return lambda kernels: assemble(kernels, folder)
