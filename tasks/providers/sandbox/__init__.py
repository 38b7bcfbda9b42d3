"""The simulated provider of the demo and the tests. Its API is what `sandbox/README.md` describes."""

from tasks.providers.sandbox.client import SandboxProvider

__all__ = ["SandboxProvider"]
