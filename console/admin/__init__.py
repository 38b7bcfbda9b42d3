"""The console's own rows in the admin, and third parties' in the same frame. Importing it registers them."""

from console.admin import registry, third_party

__all__ = ["registry", "third_party"]
