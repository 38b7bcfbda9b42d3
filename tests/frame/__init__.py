"""Tests of what starts and stops everything: real processes, real signals, real servers where it matters."""
