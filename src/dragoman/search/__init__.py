"""Search over a model that writes one token at a time (section 6.1): functions of `encode`, `start` and `step`."""
