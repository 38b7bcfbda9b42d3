"""Bulk verbs as tracked things: plan (freeze the filter, count), run (chunk by chunk, resumable), watch the canary."""
