"""A model whose saves the package announces."""
