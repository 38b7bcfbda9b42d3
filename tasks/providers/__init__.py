"""The adapters of job providers; `base` is the port that each fills. Which accounts there are: `tasks.accounts`."""

from tasks.providers import anthropic, apify, fal, http, openai, outscraper, replicate, sandbox
from tasks.providers.base import Provider
from tasks.providers.registry import adapter, adapters, discover, register

__all__ = ["Provider", "adapter", "adapters", "discover", "register"]

for _adapter in (
    sandbox.SandboxProvider,
    apify.ApifyProvider,
    outscraper.OutscraperProvider,
    replicate.ReplicateProvider,
    openai.OpenAIResponses,
    openai.OpenAIBatches,
    anthropic.AnthropicBatches,
    fal.Fal,
    http.HttpProvider,
):
    register(_adapter)
