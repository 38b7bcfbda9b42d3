"""How moments are written where the template names no format."""
