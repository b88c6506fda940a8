"""A Translator behind HTTP: an API, a page, and promises under load (docs/serving.md)."""
