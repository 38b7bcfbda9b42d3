"""OpenAI: background responses, one job each, and batches, whose items share one job at half the price."""

from tasks.providers.openai.batches import OpenAIBatches
from tasks.providers.openai.responses import OpenAIResponses

__all__ = ["OpenAIBatches", "OpenAIResponses"]
