"""How a request leaves and an answer comes back: names, connections, libcurl. Knows no delivery and no database."""
