"""The network seen from here: addresses that may be called, names, the one guarded HTTP client, who calls us."""
