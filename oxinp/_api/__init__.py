"""NumPy's functions by NumPy's chapters: thin fronts over `_core`, and the table of what is covered and how."""
