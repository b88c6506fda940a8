"""The directory that is a model: what is in it, and how it is found, verified, read and written. No PyTorch."""
