"""Engines that run a search: from source ids to hypotheses, each on the hardware that it is made for."""
