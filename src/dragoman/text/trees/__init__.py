"""Trees of sentences: dependency trees, constituency trees, and trees written as lines."""
