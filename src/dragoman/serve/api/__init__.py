"""The HTTP API: routes, schemas, and the LibreTranslate API."""
