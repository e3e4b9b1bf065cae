"""Random numbers: NumPy's streams, word for word, drawn in parallel, and a faster one of our own."""
