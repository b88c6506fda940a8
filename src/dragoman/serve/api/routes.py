"""Routes of the HTTP API."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from dragoman.documents.detect import FORMATS
from dragoman.serve.api.schema import (
    GET_ERRORS,
    POST_ERRORS,
    AttentionRequest,
    AttentionResponse,
    ModelEntry,
    ModelList,
    Status,
    TranslateRequest,
    TranslateResponse,
    attention_fields,
    attention_rows,
    translation_fields,
)
from dragoman.serve.errors import RequestError
from dragoman.serve.http.bodies import BoundedRoute
from dragoman.serve.http.middleware import CLIENT, DEADLINE
from dragoman.serve.http.replies import LARGE_REPLY_BYTES, json_object, json_reply
from dragoman.serve.limits import MAX_ATTENTION_CHARACTERS
from dragoman.serve.scheduling.budget import exceeds_bytes
from dragoman.serve.service import Caller, Service
from dragoman.serve.texts import translate_texts
from dragoman.text.languages.detection import detection_available

BYTES_PER_WEIGHT: Final = 7  # of an attention weight in JSON


def api_router(service: Service) -> APIRouter:
    """The routes of the HTTP API for a service."""
    router = APIRouter(route_class=BoundedRoute)

    @router.post("/v1/translate", responses=POST_ERRORS, response_model=TranslateResponse, tags=["translate"])
    async def translate(body: TranslateRequest, request: Request) -> Response:
        """Translate a text or a list of texts. Line breaks, indentation and empty lines are preserved."""
        settings = service.batch_settings(body)
        texts = [body.text] if isinstance(body.text, str) else body.text
        found = await translate_texts(service, texts, settings, caller(request))
        options = (body.scores, body.alignments, settings.search.n_best > 1)
        entries = (translation_fields(one, *options) for one in found)
        fields = {"model": settings.model.name, "translations": entries}
        return json_reply(json_object(fields), exceeds_bytes(found, LARGE_REPLY_BYTES))

    @router.post("/v1/attention", responses=POST_ERRORS, response_model=AttentionResponse, tags=["attention"])
    async def attention(body: AttentionRequest, request: Request) -> Response:
        """Return the attention of each target token to each source token, for one line and its translation."""
        settings = service.batch_settings(body)
        for text in (body.text,) if body.translation is None else (body.text, body.translation):
            check_attention_text(text)
        found = await service.translate_with_attention(body.text, settings, caller(request), body.translation)
        fields = attention_fields(settings.model.name, body.text, found)
        fields |= {"weights": attention_rows(found), "alignment": list(found.alignment or ())}
        size = BYTES_PER_WEIGHT * len(found.source_tokens) * len(found.tokens)
        return json_reply(json_object(fields), size >= LARGE_REPLY_BYTES)

    @router.get("/v1/models", responses=GET_ERRORS, tags=["server"])
    async def models() -> ModelList:
        """List the models, the default first, and the server's limits."""
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
            max_bytes=service.limits.max_bytes,
            max_beam=service.limits.max_beam,
            suffixes=[suffix for one in FORMATS for suffix in one.suffixes],
        )

    @router.head("/health", include_in_schema=False)
    @router.get("/health", responses=GET_ERRORS, tags=["server"])
    async def health() -> Status:
        """Liveness: 200 while the process runs."""
        return Status(status="alive")

    @router.head("/ready", include_in_schema=False, response_model=Status)
    @router.get("/ready", responses={503: {"model": Status}, **GET_ERRORS}, response_model=Status, tags=["server"])
    async def ready() -> Status | JSONResponse:
        """Readiness: 200 once all models are loaded, 503 while the server is shutting down."""
        if service.ready:
            return Status(status="ready")
        return JSONResponse({"status": "shutting_down" if service.shutting_down else "failed"}, 503)

    @router.get("/metrics", responses=GET_ERRORS, response_class=PlainTextResponse, tags=["server"])
    async def metrics() -> PlainTextResponse:
        """Metrics in the Prometheus text format."""
        return PlainTextResponse(service.metrics.text(), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    return router


def check_attention_text(text: str) -> None:
    """Reject texts that are not one line, or too long for attention."""
    if len(text) > MAX_ATTENTION_CHARACTERS:
        limit = f"attention supports up to {MAX_ATTENTION_CHARACTERS:,} characters"
        raise RequestError(413, "too_large", f"{limit}; got {len(text):,}; send one sentence")
    if not text.strip() or len(text.strip().splitlines()) > 1:
        raise RequestError(422, "not_one_line", "attention needs one line of text; send one line at a time")


def only_language(languages: Iterable[str | None]) -> str | None:
    """The language if there is exactly one, else None."""
    found = set(languages)
    return found.pop() if len(found) == 1 else None


def caller(request: Request) -> Caller:
    """The caller of a request."""
    return Caller(request.scope[DEADLINE], partial(wait_disconnected, request), request.scope.get(CLIENT, ""))


async def wait_disconnected(request: Request) -> None:
    """Wait until the client disconnects."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
