"""Apify: actors run as jobs. Set up: docs/providers/apify.md."""

from tasks.providers.apify.client import ApifyProvider

__all__ = ["ApifyProvider"]
