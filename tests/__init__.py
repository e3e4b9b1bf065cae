"""The suite: it mirrors the tree, and shares `conftest`, `comparator` and `tolerances`."""
