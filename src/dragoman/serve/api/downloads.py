"""The route for downloads of translated files."""

from __future__ import annotations

from fastapi import APIRouter, Response

from dragoman.serve.api.schema import FILE, LIBRETRANSLATE_GET_ERRORS, LibreTranslateError
from dragoman.serve.errors import RequestError
from dragoman.serve.file_store import FileStore
from dragoman.serve.http.access import DOWNLOADS
from dragoman.serve.http.replies import BINARY, file_reply


def download_router(files: FileStore) -> APIRouter:
    """The route for downloads from a store."""
    router = APIRouter(tags=["LibreTranslate"])

    @router.get(
        DOWNLOADS + "{name}",
        response_class=Response,
        responses={
            200: {"description": "The file.", "content": {BINARY: {"schema": FILE}}},
            404: {"description": "No such file.", "model": LibreTranslateError},
            **LIBRETRANSLATE_GET_ERRORS,
        },
    )
    async def download_file(name: str) -> Response:
        """A translated file; no token is needed, because the address cannot be guessed."""
        file = files.get(name.partition(".")[0])
        if file is None:
            message = "there is no such file; translated files are kept for ten minutes"
            raise RequestError(404, "not_found", message)
        return file_reply(file.content, file.name)

    return router
