"""Anthropic's Message Batches: many tasks share one job, half the price; only the poll learns of its end."""

from tasks.providers.anthropic.client import AnthropicBatches

__all__ = ["AnthropicBatches"]
