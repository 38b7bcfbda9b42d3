"""The sample receiver: endpoints that behave and misbehave by path, and a journal of what they got."""
