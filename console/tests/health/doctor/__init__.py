"""The doctor, look by look."""
