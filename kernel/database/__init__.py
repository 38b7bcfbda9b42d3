"""How long reads may take, and on which connection."""
