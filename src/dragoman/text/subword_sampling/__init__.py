"""Subword sampling: random segmentations of words for subword regularization, in C and in Python."""
