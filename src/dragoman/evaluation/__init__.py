"""Scores of translations (section 6), and measurements of layers (section 4)."""
