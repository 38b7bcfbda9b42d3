"""Alerts: the rules, who evaluates them, and who notices when nobody does."""
