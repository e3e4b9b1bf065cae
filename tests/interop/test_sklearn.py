"""scikit-learn: its estimators take our arrays, and with array API dispatch compute on them and give them back."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sklearn")
ROOT = Path(__file__).resolve().parents[2]


def test_dispatch(request):
    # SciPy reads its setting, without which scikit-learn dispatches nothing, when it is imported.
    command = [sys.executable, "-m", "pytest", "tests/interop/sklearn_dispatch.py", "-q", "-p", "no:cacheprovider"]
    command += ["--full"] if request.config.option.full else []
    environment = os.environ | {"SCIPY_ARRAY_API": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
