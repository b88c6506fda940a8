"""The ASGI application: API, pages and middleware."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import Final

from fastapi import APIRouter, FastAPI, Response
from starlette.types import ASGIApp

from dragoman import __version__
from dragoman.serve.api.documents import document_router
from dragoman.serve.api.downloads import download_router
from dragoman.serve.api.libretranslate import libretranslate_router
from dragoman.serve.api.libretranslate_files import libretranslate_file_router
from dragoman.serve.api.routes import api_router
from dragoman.serve.errors import add_handlers
from dragoman.serve.file_store import FileStore, KeepFile
from dragoman.serve.http.access import Access
from dragoman.serve.http.middleware import Log, Middleware
from dragoman.serve.limits import MAX_LARGE_BODIES
from dragoman.serve.service import Service

MEDIA_TYPES: Final = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
PAGES: Final = {"/": "index.html", "/docs": "docs.html"}
DESCRIPTION: Final = "Translation with your own models. Errors have the form {error: {code, message}}."


def create_app(
    service: Service, root_path: str = "", log: Log = lambda *_: None, access: Access | None = None
) -> ASGIApp:
    """Create the application of a service, with middleware."""
    files = FileStore(MAX_LARGE_BODIES * service.limits.max_bytes)
    app, paths = create_api(service, files, files.keep)
    return Middleware(app, service.limits, service.metrics, paths, log, root_path, access)


def create_api(service: Service, files: FileStore, keep_file: KeepFile) -> tuple[FastAPI, set[str]]:
    """Create the application without middleware, and its paths; `files` has what `keep_file` stored."""
    app = FastAPI(title="Dragoman", version=__version__, description=DESCRIPTION, docs_url=None, redoc_url=None)
    app.include_router(api_router(service))
    app.include_router(document_router(service))
    app.include_router(libretranslate_router(service))
    app.include_router(libretranslate_file_router(service, keep_file))
    app.include_router(download_router(files))
    router, page_paths = page_router()
    app.include_router(router)
    add_handlers(app)
    return app, {*page_paths, *app.openapi()["paths"], "/openapi.json"}


def page_router() -> tuple[APIRouter, list[str]]:
    """The routes of the web pages and their files, and the paths."""
    router = APIRouter(include_in_schema=False)
    web = files("dragoman.serve") / "web"
    loaded = sorted(entry.name for entry in web.iterdir() if not entry.name.endswith(".html"))
    paths = {**PAGES, **{f"/web/{name}": name for name in loaded}}
    for path, name in paths.items():
        handler = file_handler((web / name).read_bytes(), MEDIA_TYPES[name.rpartition(".")[2]])
        router.add_api_route(path, handler, methods=["GET", "HEAD"])
    return router, list(paths)


def file_handler(content: bytes, media_type: str) -> Callable[[], Awaitable[Response]]:
    """A handler that returns a file; browsers revalidate it, so that page and server match."""

    async def handle() -> Response:
        return Response(content, media_type=f"{media_type}; charset=utf-8", headers={"Cache-Control": "no-cache"})

    return handle
