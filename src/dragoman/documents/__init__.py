"""Translate documents: files in, files out, with everything but the words left as it was."""
