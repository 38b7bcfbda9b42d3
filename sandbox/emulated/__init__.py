"""Real providers' APIs on the sandbox's engine, close enough that their own clients work against them.

Each lies below its name on the provider's port, in a module of its own: `/openai/`, `/anthropic/`, `/fal/`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox.emulated.anthropic import Anthropic
from sandbox.emulated.fal import Fal
from sandbox.emulated.openai import OpenAI

if TYPE_CHECKING:
    from sandbox.emulated.engine import Emulated
    from sandbox.provider.api import Provider

MOUNTED: dict[str, type[Emulated]] = {"openai": OpenAI, "anthropic": Anthropic, "fal": Fal}


def mounted(provider: Provider, key: str, webhook_secret: str) -> dict[str, Emulated]:
    """Each emulated provider by the first part of its path."""
    return {name: emulated(provider.faults, provider.stats, key, webhook_secret) for name, emulated in MOUNTED.items()}
