"""Sentence pairs in files: read, decompressed and cleaned."""
