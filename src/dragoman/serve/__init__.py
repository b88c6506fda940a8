"""Serve translators over HTTP: API, web page, fair scheduling and limits (docs/howto/serving.md)."""
