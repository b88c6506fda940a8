"""From batches to a model (section 5)."""
