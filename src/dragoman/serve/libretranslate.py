"""The basic LibreTranslate API, for its clients: plain text, models chosen by language."""

from __future__ import annotations

import json
from functools import partial
from typing import Annotated, Any, Final, Literal
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dragoman.serve.api import deadline, wait_disconnected
from dragoman.serve.errors import RequestError, validation_error
from dragoman.serve.limits import MAX_TEXTS
from dragoman.serve.queue import BatchSettings
from dragoman.serve.schema import TranslateRequest
from dragoman.serve.service import ServedModel, Service

FORM: Final = "application/x-www-form-urlencoded"


class LibreTranslateRequest(BaseModel):
    """A request of a LibreTranslate client; other fields are ignored."""

    model_config = ConfigDict(extra="ignore")

    q: str | Annotated[list[str], Field(max_length=MAX_TEXTS)] = Field(description="One text, or a list of texts.")
    source: str = Field("auto", description="Source language, or auto.")
    target: str = Field("", description="Target language.")
    format: Literal["text"] = Field("text", description="text; HTML is not supported.")
    alternatives: int = Field(0, ge=0, description="Number of alternative translations of each text.")


class LibreTranslateResponse(BaseModel):
    """The translation, or a list for a list."""

    translatedText: str | list[str]  # noqa: N815  # LibreTranslate's name
    alternatives: list[str] | list[list[str]] | None = None


class Language(BaseModel):
    """A source language and its target languages."""

    code: str
    name: str
    targets: list[str]


def libretranslate_router(service: Service) -> APIRouter:
    """The two routes that most clients need."""
    router = APIRouter(tags=["LibreTranslate"])
    schema = LibreTranslateRequest.model_json_schema()
    body = {"content": {kind: {"schema": schema} for kind in ("application/json", FORM)}}

    @router.post("/translate", response_model_exclude_none=True, openapi_extra={"requestBody": body})
    async def translate(request: Request) -> LibreTranslateResponse:
        """Translate as LibreTranslate does; errors are {"error": "..."}, as its clients expect."""
        form = parse_body(await request.body(), request.headers.get("content-type", ""))
        single = isinstance(form.q, str)
        texts = [form.q] if isinstance(form.q, str) else form.q
        settings, disconnected = batch_settings(service, form), partial(wait_disconnected, request)
        translations = await service.translate(texts, settings, deadline(request), disconnected)
        texts = [translation.text for translation in translations]
        others = [[other.text for other in translation.alternatives] for translation in translations]
        return LibreTranslateResponse(
            translatedText=texts[0] if single else texts,
            alternatives=None if not form.alternatives else others[0] if single else others,
        )

    @router.get("/languages")
    async def languages() -> list[Language]:
        """The languages of the models, as far as their cards or names tell them."""
        pairs = [(s, t) for model in service.models.values() for s, t in model.pairs if s is not None]
        return [
            Language(code=code, name=code, targets=sorted({target for source, target in pairs if source == code}))
            for code in sorted({source for source, _ in pairs})
        ]

    return router


def parse_body(body: bytes, content_type: str) -> LibreTranslateRequest:
    """The fields of a body, which is JSON or a form."""
    fields: Any
    try:
        if content_type.startswith(FORM):
            sent = parse_qs(body.decode("utf-8"), keep_blank_values=True, errors="strict")
            fields = {name: values[0] if len(values) == 1 else values for name, values in sent.items()}
        else:
            fields = json.loads(body)
    except (ValueError, RecursionError):  # invalid JSON or UTF-8, or JSON nested too deeply
        message = f'the body is neither JSON nor a form of type {FORM}; send {{"q": "..."}} as JSON, in UTF-8'
        raise RequestError(400, "invalid_json", message) from None
    try:
        return LibreTranslateRequest.model_validate(fields)
    except ValidationError as error:
        found = validation_error(RequestValidationError(error.errors()).errors(), LibreTranslateRequest)
        raise RequestError(400, found.code, str(found)) from None


def batch_settings(service: Service, form: LibreTranslateRequest) -> BatchSettings:
    """The settings of a form, with the model for its languages."""
    model = model_for_languages(service, form.source, form.target)
    to = form.target or None if model.targets else None
    fields = {"text": "", "model": model.name, "n_best": form.alternatives + 1, "to": to}
    return service.batch_settings(TranslateRequest.model_validate(fields))


def model_for_languages(service: Service, source: str, target: str) -> ServedModel:
    """The first model for a language pair, else the first model of unknown languages."""
    known = [model for model in service.models.values() if model.pairs]
    for model in known:
        for one, other in model.pairs:
            if (source == "auto" or one in (None, source)) and target in ("", other):
                return model
    unknown = [model for model in service.models.values() if not model.pairs]
    if unknown:
        return unknown[0]
    pairs = ", ".join(sorted({f"{one or 'auto'} to {other}" for model in known for one, other in model.pairs}))
    message = f"no model translates {source} to {target or '?'}; available: {pairs}"
    raise RequestError(400, "unknown_language", message)
