"""Universal functions: the table, the objects, operators and calls."""
