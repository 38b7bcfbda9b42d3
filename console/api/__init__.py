"""The console's part of the REST API: live snapshots, operations, the overview."""
