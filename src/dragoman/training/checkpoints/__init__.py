"""Checkpoints of a run, and averages of them (section 6.1)."""
