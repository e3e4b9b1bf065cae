"""How long tests wait for what has to come: no limit for a busy machine, an end for what never comes."""

PATIENCE = 1500.0  # seconds, below pytest's own timeout in pyproject.toml
