"""What keeps the tables in order beside the delivery path: sweeps, retention, partitions, accounting."""
