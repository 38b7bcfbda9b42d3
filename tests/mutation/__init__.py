"""Mutation tests: does any test notice when a line of a policy or a lifecycle is wrong? See `__main__`."""
