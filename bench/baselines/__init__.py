"""What the engine is compared with: each is run as it would be by somebody who means it well."""
