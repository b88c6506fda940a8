"""From translations to figures (section 6)."""
