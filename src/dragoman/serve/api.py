"""The routes of the API."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from dragoman.serve.errors import RequestError
from dragoman.serve.limits import MAX_ATTENTION_CHARACTERS
from dragoman.serve.middleware import DEADLINE
from dragoman.serve.schema import (
    AttentionRequest,
    AttentionResponse,
    BestTranslation,
    ErrorResponse,
    ModelEntry,
    ModelList,
    Status,
    TranslateRequest,
    TranslateResponse,
    attention_response,
)
from dragoman.serve.service import Service
from dragoman.text.language_detection import detection_available

LARGE_RESPONSE: Final = 1_000  # translations from which the response is built in a thread
ERRORS: Final[dict[int | str, dict[str, Any]]] = {
    400: {"model": ErrorResponse, "description": "The body is not JSON."},
    404: {"model": ErrorResponse, "description": "No such model."},
    408: {"model": ErrorResponse, "description": "The body arrived too slowly."},
    413: {"model": ErrorResponse, "description": "The text is too long."},
    422: {"model": ErrorResponse, "description": "A field is invalid."},
    429: {"model": ErrorResponse, "description": "Too many requests at once; see the header Retry-After."},
    503: {"model": ErrorResponse, "description": "The server is shutting down, or out of memory."},
    504: {"model": ErrorResponse, "description": "The deadline has passed."},
}


def api_router(service: Service) -> APIRouter:
    """The API of a service."""
    router = APIRouter()

    @router.post("/v1/translate", responses=ERRORS, response_model_exclude_none=True, tags=["translate"])
    async def translate(body: TranslateRequest, request: Request) -> TranslateResponse:
        """Translate a text or a list of texts. Line breaks, indentation and empty lines are preserved."""
        settings = service.batch_settings(body)
        texts = [body.text] if isinstance(body.text, str) else body.text
        found = await service.translate(texts, settings, deadline(request), partial(wait_disconnected, request))

        def response() -> TranslateResponse:
            options = (body.scores, body.alignments, settings.search.n_best > 1)
            translations = [BestTranslation.from_translation(one, *options) for one in found]
            return TranslateResponse(model=settings.model, translations=translations)

        return response() if len(found) < LARGE_RESPONSE else await asyncio.to_thread(response)

    @router.post("/v1/attention", responses=ERRORS, tags=["attention"])
    async def attention(body: AttentionRequest, request: Request) -> AttentionResponse:
        """Return the attention of each target token to each source token, for one line and its translation."""
        settings = service.batch_settings(body)
        for text in (body.text,) if body.translation is None else (body.text, body.translation):
            check_attention_text(text)
        found = await service.translate_with_attention(
            body.text, settings, deadline(request), partial(wait_disconnected, request), body.translation
        )
        return attention_response(settings.model, body.text, found)

    @router.get("/v1/models", tags=["server"])
    async def models() -> ModelList:
        """The models of this server, the default first, and its limits."""
        return ModelList(
            models=[
                ModelEntry(
                    name=model.name,
                    source=only_language(source for source, _ in model.pairs),
                    target=only_language(target for _, target in model.pairs),
                    targets=list(model.targets),
                    engine=model.engine,
                    attention=model.has_attention,
                )
                for model in service.models.values()
            ],
            detection=detection_available(),
            beam=service.limits.beam,
            max_characters=service.limits.max_characters,
            max_beam=service.limits.max_beam,
        )

    @router.get("/health", tags=["server"])
    async def health() -> Status:
        """Liveness: 200 while the process runs."""
        return Status(status="alive")

    @router.get("/ready", responses={503: {"model": Status}}, response_model=Status, tags=["server"])
    async def ready() -> Status | JSONResponse:
        """Readiness: 200 once all models are loaded, 503 while the server is shutting down."""
        if service.ready:
            return Status(status="ready")
        return JSONResponse({"status": "shutting_down" if service.shutting_down else "failed"}, 503)

    @router.get("/metrics", response_class=PlainTextResponse, tags=["server"])
    async def metrics() -> PlainTextResponse:
        """Metrics in the Prometheus text format."""
        return PlainTextResponse(service.metrics.text(), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    return router


def check_attention_text(text: str) -> None:
    """Reject what is not one line, or too long for attention."""
    if len(text) > MAX_ATTENTION_CHARACTERS:
        limit = f"attention is for up to {MAX_ATTENTION_CHARACTERS:,} characters"
        raise RequestError(413, "too_large", f"{limit}; got {len(text):,}; send one sentence")
    if not text.strip() or len(text.strip().splitlines()) > 1:
        raise RequestError(422, "not_one_line", "attention is available for one line at a time; send one line")


def only_language(languages: Iterable[str | None]) -> str | None:
    """The language if there is exactly one."""
    found = set(languages)
    return found.pop() if len(found) == 1 else None


def deadline(request: Request) -> float:
    """The event loop's time by which a request must be answered."""
    found: float = request.scope[DEADLINE]
    return found


async def wait_disconnected(request: Request) -> None:
    """Wait until the client disconnects."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
