"""The engine room: the states and their verbs, the unit of work they commit in, and the loops that drive them."""
