"""Replicate: predictions of models. Set up: docs/providers/replicate.md."""

from tasks.providers.replicate.client import ReplicateProvider

__all__ = ["ReplicateProvider"]
