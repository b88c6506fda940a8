"""Commands that convert, check and list models."""
