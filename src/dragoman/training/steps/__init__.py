"""One training step: eager, compiled, or recorded as a CUDA graph."""
