"""What stands in front of every request: caps on bodies, lanes, logging in, refusals in the log, sessions."""
