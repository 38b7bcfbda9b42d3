"""What is alive and reachable: probes, heartbeats, the doctor, the metrics."""
