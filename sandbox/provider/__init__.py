"""The simulated job provider: three kinds of jobs behind one HTTP API, with signed webhooks and faults on demand."""
