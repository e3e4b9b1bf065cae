"""NumPy's own tests, which it installs, run with `numpy` bound to oxinp: `python -m tests.numpy_suite`.

Each module runs twice in processes of its own, once with NumPy itself and once with ours, so what counts is what NumPy
passes on the same machine. `expected.toml` lists the tests of which the outcome is meant to differ, with the reason.
"""

# What a run's process is told by its environment: the binding, where to write, which part of how many, what not to run.
BINDING, OUTCOMES = "NUMPY_SUITE_BINDING", "NUMPY_SUITE_OUTCOMES"
PART, LEFT_OUT = "NUMPY_SUITE_PART", "NUMPY_SUITE_LEFT_OUT"
