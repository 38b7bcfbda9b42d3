"""The REST side of tasks: checks shapes, calls one verb, shows the row. It must never decide about a state itself."""
