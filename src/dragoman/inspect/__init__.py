"""From a model to pictures."""
