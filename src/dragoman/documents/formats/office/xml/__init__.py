"""XML parts of office files: their events, tags and trees of elements."""
