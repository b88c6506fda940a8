"""The pages for people: files that are read once, from the package alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import Final

from fastapi import APIRouter, Response

KINDS: Final = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
PAGES: Final = {"/": "index.html", "/docs": "docs.html"}


def pages() -> tuple[APIRouter, list[str]]:
    """The pages and what they load, with their paths."""
    router = APIRouter(include_in_schema=False)
    web = files("dragoman.serve") / "web"
    loaded = sorted(entry.name for entry in web.iterdir() if not entry.name.endswith(".html"))
    paths = {**PAGES, **{f"/web/{name}": name for name in loaded}}
    for path, name in paths.items():
        answer = file((web / name).read_bytes(), KINDS[name.rpartition(".")[2]])
        router.add_api_route(path, answer, methods=["GET", "HEAD"])
    return router, list(paths)


def file(content: bytes, kind: str) -> Callable[[], Awaitable[Response]]:
    """A handler that answers with a file; a browser asks each time, so that page and server are of one version."""

    async def answer() -> Response:
        return Response(content, media_type=f"{kind}; charset=utf-8", headers={"Cache-Control": "no-cache"})

    return answer
