"""HTTP: connections, access, middleware, request bodies and replies."""
