"""The differential fuzzer: random programs run under NumPy and under oxinp, and every live name compared.

`python -m tests.fuzz --programs 20000 --threshold 0` is the gate for a change to arrays, laziness or aliasing.

* `draw`: where random choices come from.
* `program`: a program is a list of statements, each the NumPy code that it is.
* `scope`: a program under construction, with NumPy's values of its names, so that the next statement can be chosen.
* `operands`: dtypes, shapes, data, indices and expressions over the live names.
* `foreign`: what programs use beside arrays: classes with a say of their own, threads, SciPy.
* `rules_*`: one function per kind of statement; `generate` holds the table of them with their weights.
* `twin`: runs a program under two namespaces in lockstep and reports the first difference.
* `minimise`: deletes statements while the difference stays.
* `pool`: many programs over many processes.
* `planners`: random `problems` through every planner, on a device on which nothing runs (`planning`); `branches` tells
  which branches of the planners were taken.
"""
