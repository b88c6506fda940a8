"""Engines: implementations of search, from source ids to hypotheses, for different hardware."""
