"""Real providers' APIs on the sandbox's engine, close enough that their own clients work against them.

Each lies below its name on the provider's port, in a module of its own; `/workflow/` is a service of one's own, like a
workflow of n8n. Nobody else's code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox.emulated.anthropic import Anthropic
from sandbox.emulated.apify import Apify
from sandbox.emulated.fal import Fal
from sandbox.emulated.openai import OpenAI
from sandbox.emulated.outscraper import Outscraper
from sandbox.emulated.replicate import Replicate
from sandbox.emulated.workflow import Workflow

if TYPE_CHECKING:
    from sandbox.emulated.engine import Emulated
    from sandbox.provider.api import Provider

MOUNTED: dict[str, type[Emulated]] = {
    "apify": Apify,
    "outscraper": Outscraper,
    "replicate": Replicate,
    "workflow": Workflow,
    "openai": OpenAI,
    "anthropic": Anthropic,
    "fal": Fal,
}


def mounted(provider: Provider, key: str, webhook_secret: str) -> dict[str, Emulated]:
    """Each emulated provider by the first part of its path."""
    return {name: emulated(provider.faults, provider.stats, key, webhook_secret) for name, emulated in MOUNTED.items()}
