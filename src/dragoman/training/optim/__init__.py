"""Optimizers and the learning-rate schedule (section 5.3)."""
