"""What admin pages of every app share: bases of lists, verbs that ask and keep the reason; and the API keys' page."""

from kernel.admin import api_keys

__all__ = ["api_keys"]
