"""Translation memories: look translations up, use them, and add to them."""
