"""Search over an autoregressive model (section 6.1): functions of `encode`, `start` and `step`."""
