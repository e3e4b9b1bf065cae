"""Arrays: what NumPy users see, over layouts, storages, expressions and the scheduler."""
