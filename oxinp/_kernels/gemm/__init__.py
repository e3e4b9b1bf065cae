"""Matrix products: one package per kernel, `select` chooses between them."""
