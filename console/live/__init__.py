"""Live views: sockets, the hub that feeds them, and who may watch what."""
