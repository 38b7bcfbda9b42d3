"""The name of the inbox's worker function."""

SWEEP_INBOX = "webhooks.sweep_inbox"
