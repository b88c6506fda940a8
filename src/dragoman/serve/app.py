"""The application: the API, the pages, and the gate around both."""

from __future__ import annotations

from typing import Final

from fastapi import FastAPI
from starlette.types import ASGIApp

from dragoman import __version__
from dragoman.serve.api import api
from dragoman.serve.errors import add_handlers
from dragoman.serve.libretranslate import libre
from dragoman.serve.middleware import Gate, Log
from dragoman.serve.pages import pages
from dragoman.serve.service import Service

ABOUT: Final = "Translations by models of your own. Errors are answered as {error: {code, message}}."


def application(service: Service, root_path: str = "", log: Log = lambda *_: None) -> ASGIApp:
    """All that is served."""
    app = FastAPI(title="Dragoman", version=__version__, description=ABOUT, docs_url=None, redoc_url=None)
    app.include_router(api(service))
    app.include_router(libre(service))
    shown, paths = pages()
    app.include_router(shown)
    add_handlers(app)
    known = {*paths, *app.openapi()["paths"], "/openapi.json"}
    return Gate(app, service.limits, service.metrics, known, log, root_path)
