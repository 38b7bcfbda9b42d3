"""Any service that takes a POST and calls back: a workflow of n8n, a program of one's own. docs/providers/http.md."""

from tasks.providers.http.client import HttpProvider

__all__ = ["HttpProvider"]
