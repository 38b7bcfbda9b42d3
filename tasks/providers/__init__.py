"""The adapters of job providers; `base` is the port that each fills. Which accounts there are: `tasks.accounts`."""

from tasks.providers import anthropic, fal, openai, sandbox
from tasks.providers.base import Provider
from tasks.providers.registry import adapter, adapters, discover, register

__all__ = ["Provider", "adapter", "adapters", "discover", "register"]

for _adapter in (
    sandbox.SandboxProvider,
    openai.OpenAIResponses,
    openai.OpenAIBatches,
    anthropic.AnthropicBatches,
    fal.Fal,
):
    register(_adapter)
