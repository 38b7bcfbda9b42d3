"""Outscraper: map searches. Set up: docs/providers/outscraper.md."""

from tasks.providers.outscraper.client import OutscraperProvider

__all__ = ["OutscraperProvider"]
