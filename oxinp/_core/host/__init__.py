"""NumPy on the host: the fallback, the arrays that it is handed, memory that others share."""
