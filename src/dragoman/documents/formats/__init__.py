"""One module per document format: `read(data, name)` returns a `Document`."""
