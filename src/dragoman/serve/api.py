"""The paths of the API, each as thin as it can be."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from dragoman.serve.attention_view import attention_response
from dragoman.serve.errors import ProblemError
from dragoman.serve.limits import MOST_LOOKED
from dragoman.serve.middleware import DEADLINE
from dragoman.serve.schema import (
    AttentionRequest,
    AttentionResponse,
    ErrorResponse,
    Model,
    Models,
    Status,
    Translated,
    TranslateRequest,
    TranslateResponse,
)
from dragoman.serve.service import LARGE, Service

REFUSALS: Final[dict[int | str, dict[str, Any]]] = {
    400: {"model": ErrorResponse, "description": "The body is not JSON."},
    404: {"model": ErrorResponse, "description": "There is no such model."},
    408: {"model": ErrorResponse, "description": "The body came too slowly."},
    413: {"model": ErrorResponse, "description": "The text is too long."},
    422: {"model": ErrorResponse, "description": "A field is not as it must be."},
    429: {"model": ErrorResponse, "description": "Too many requests at once; see the header Retry-After."},
    503: {"model": ErrorResponse, "description": "The server is leaving, or has no memory for this."},
    504: {"model": ErrorResponse, "description": "The deadline passed."},
}


def api(service: Service) -> APIRouter:
    """The API of a service."""
    router = APIRouter()

    @router.post("/v1/translate", responses=REFUSALS, response_model_exclude_none=True, tags=["translate"])
    async def translate(body: TranslateRequest, request: Request) -> TranslateResponse:
        """Translate a text, or a list of texts. Line breaks, indentation and empty lines stay as they are."""
        asked = service.asked(body)
        texts = [body.text] if isinstance(body.text, str) else body.text
        found = await service.translate(texts, asked, deadline(request), partial(gone, request))

        def told() -> TranslateResponse:
            several = asked.search.n_best > 1
            translations = [Translated.of(answer, body.scores, body.alignments, several) for answer in found]
            return TranslateResponse(model=asked.model, translations=translations)

        return told() if len(found) < LARGE // 20 else await asyncio.to_thread(told)

    @router.post("/v1/attention", responses=REFUSALS, tags=["look"])
    async def attention(body: AttentionRequest, request: Request) -> AttentionResponse:
        """Translate one line, and tell what each token looked at while it was written."""
        asked = service.asked(body)
        if len(body.text) > MOST_LOOKED:
            raise ProblemError(
                413,
                "too_large",
                f"the line has {len(body.text):,} characters; {MOST_LOOKED:,} can be looked into: give one sentence",
            )
        if not body.text.strip() or len(body.text.strip().splitlines()) > 1:
            raise ProblemError(422, "invalid", "there is one line to look into at a time; give a text of one line")
        translation = await service.look(body.text, asked, deadline(request), partial(gone, request))
        return attention_response(asked.model, body.text, translation)

    @router.get("/v1/models", tags=["server"])
    async def models() -> Models:
        """The models of this server, the default first, and its limits."""
        return Models(
            models=[
                Model(
                    name=served.name,
                    source=only(source for source, _ in served.pairs),
                    target=only(target for _, target in served.pairs),
                    targets=list(served.targets),
                    engine=served.engine,
                    attention=served.looks,
                )
                for served in service.models.values()
            ],
            beam=service.limits.beam,
            max_characters=service.limits.max_characters,
            max_beam=service.limits.max_beam,
        )

    @router.get("/health", tags=["server"])
    async def health() -> Status:
        """Whether the process is alive."""
        return Status(status="alive")

    @router.get("/ready", responses={503: {"model": Status}}, response_model=Status, tags=["server"])
    async def ready() -> Status | JSONResponse:
        """Whether requests are taken: 200 once all models are loaded, 503 while the server leaves."""
        if service.ready:
            return Status(status="ready")
        return JSONResponse({"status": "leaving" if service.leaving else "failed"}, 503)

    @router.get("/metrics", response_class=PlainTextResponse, tags=["server"])
    async def metrics() -> PlainTextResponse:
        """Metrics in the Prometheus text format."""
        return PlainTextResponse(service.metrics.text(), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    return router


def only(languages: Iterable[str | None]) -> str | None:
    """The one language, where there is one."""
    found = set(languages)
    return found.pop() if len(found) == 1 else None


def deadline(request: Request) -> float:
    """The loop's time by which a request is to be answered."""
    found: float = request.scope[DEADLINE]
    return found


async def gone(request: Request) -> None:
    """Wait until the client goes away."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
