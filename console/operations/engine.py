"""Advances bulk operations."""


def run_due() -> None:
    return
