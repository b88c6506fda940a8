"""Served models: load and reload them, and choose one by language."""
