"""The adapters of job providers; `base` is the port that each fills. Which accounts there are: `tasks.accounts`."""

from tasks.providers import apify, http, outscraper, replicate, sandbox
from tasks.providers.base import Provider
from tasks.providers.registry import adapter, adapters, discover, register

__all__ = ["Provider", "adapter", "adapters", "discover", "register"]

register(sandbox.SandboxProvider)
register(apify.ApifyProvider)
register(outscraper.OutscraperProvider)
register(replicate.ReplicateProvider)
register(http.HttpProvider)
