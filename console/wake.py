"""The names of the console's worker functions."""

RUN_OPERATIONS = "console.run_operations"
