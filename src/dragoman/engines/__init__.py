"""Engines that run a search, from source ids to hypotheses, each for its hardware."""
