"""Text to ids and back (section 5.1)."""
