"""Markup transfer: protect placeholders, and move spans to the words of the translation."""
