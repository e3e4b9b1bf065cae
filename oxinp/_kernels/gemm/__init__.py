"""Matrix products C = A @ B: a package per kernel family, `select` chooses between the families."""
