"""The runner: unmodified NumPy programs with `numpy` bound to oxinp, behind ``python -m oxinp``."""
