"""An app of one's own beside Roundtrip: a kind of task, what follows from it, and the provider that does the work."""
