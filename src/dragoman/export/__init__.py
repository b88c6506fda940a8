"""A model as other engines take it."""
