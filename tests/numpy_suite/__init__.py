"""NumPy's own tests, which it installs, run with `numpy` bound to oxinp: `python -m tests.numpy_suite`.

Each module runs twice in processes of its own, once with NumPy itself and once with ours, so what counts is what NumPy
passes on the same machine. `expected.toml` lists the tests of which the outcome is meant to differ, with the reason.
"""

BINDING, OUTCOMES = "NUMPY_SUITE_BINDING", "NUMPY_SUITE_OUTCOMES"  # what a run's process is told by its environment
