"""NumPy on the GPU by changing one import: ``import oxinp as np``."""
