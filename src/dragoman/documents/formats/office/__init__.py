"""Office documents and e-books: zip archives of XML parts, read by one run-and-tag model."""
