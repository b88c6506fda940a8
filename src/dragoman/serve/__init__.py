"""A Translator behind HTTP: an API, a page, and promises under load (docs/howto/serving.md)."""
