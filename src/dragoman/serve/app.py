"""The ASGI application: API, pages and middleware."""

from __future__ import annotations

from typing import Final

from fastapi import FastAPI
from starlette.types import ASGIApp

from dragoman import __version__
from dragoman.serve.api import api_router
from dragoman.serve.errors import add_handlers
from dragoman.serve.libretranslate import libretranslate_router
from dragoman.serve.middleware import Log, Middleware
from dragoman.serve.pages import page_router
from dragoman.serve.service import Service

DESCRIPTION: Final = "Translation by your own models. Errors are {error: {code, message}}."


def create_app(service: Service, root_path: str = "", log: Log = lambda *_: None) -> ASGIApp:
    """The application of a service."""
    app = FastAPI(title="Dragoman", version=__version__, description=DESCRIPTION, docs_url=None, redoc_url=None)
    app.include_router(api_router(service))
    app.include_router(libretranslate_router(service))
    router, page_paths = page_router()
    app.include_router(router)
    add_handlers(app)
    paths = {*page_paths, *app.openapi()["paths"], "/openapi.json"}
    return Middleware(app, service.limits, service.metrics, paths, log, root_path)
