"""The generated pages of docs/reference/: each module has `page`, which returns a title and Markdown blocks."""
