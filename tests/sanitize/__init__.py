"""Every kernel family under compute-sanitizer: ``python -m tests.sanitize``.

`programs` has the families: small programs of arrays, each with NumPy's answer beside it.
"""
