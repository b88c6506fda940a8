"""The LibreTranslate API, for its clients: plain text, models chosen by language."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from email import message_from_bytes
from functools import partial
from typing import Annotated, Any, Final, Literal, TypeVar
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dragoman.search.types import MAX_BEAM
from dragoman.serve.api import deadline, wait_disconnected
from dragoman.serve.errors import RequestError, validation_error
from dragoman.serve.language_pairs import (
    AUTO,
    Choice,
    choose_model,
    choose_models,
    served_languages,
    served_pairs,
)
from dragoman.serve.limits import MAX_TEXTS
from dragoman.serve.queue import BatchSettings
from dragoman.serve.schema import TranslateRequest
from dragoman.serve.service import Service
from dragoman.text.language_detection import Detected, detect_languages, detection_available
from dragoman.text.language_names import language_name
from dragoman.translation.result import Translation

FORM: Final = "application/x-www-form-urlencoded"
MULTIPART: Final = "multipart/form-data"
TYPING_PAUSE: Final = 500  # milliseconds that LibreTranslate's own page waits after a key
Body = TypeVar("Body", bound=BaseModel)
MIN_CONFIDENCE: Final = 1.0  # percent; less likely languages are not worth listing


class DetectRequest(BaseModel):
    """A text whose language is wanted; other fields, such as api_key, are ignored."""

    model_config = ConfigDict(extra="ignore")

    q: str = Field(description="A text.")


class LibreTranslateRequest(BaseModel):
    """A request of a LibreTranslate client; other fields, such as api_key, are ignored."""

    model_config = ConfigDict(extra="ignore")

    q: str | Annotated[list[str], Field(max_length=MAX_TEXTS)] = Field(description="One text, or a list of texts.")
    source: str = Field(AUTO, description="Source language, or auto to detect it.")
    target: str = Field("", description="Target language.")
    format: Literal["text", "html"] = Field("text", description="text; HTML is not supported yet.")
    alternatives: int = Field(0, ge=0, lt=MAX_BEAM, description="Number of alternative translations of each text.")


class DetectedLanguage(BaseModel):
    """A language and its probability in percent."""

    language: str
    confidence: float

    @classmethod
    def of(cls, detected: Detected) -> DetectedLanguage:
        """In percent, as LibreTranslate has it."""
        return cls(language=detected.language, confidence=round(100 * detected.confidence, 1))


class LibreTranslateResponse(BaseModel):
    """The translation, or a list for a list."""

    translatedText: str | list[str]  # noqa: N815  # LibreTranslate's name
    alternatives: list[str] | list[list[str]] | None = None
    detectedLanguage: DetectedLanguage | list[DetectedLanguage] | None = None  # noqa: N815


class Language(BaseModel):
    """A language and the languages into which it is translated."""

    code: str
    name: str
    targets: list[str]


def libretranslate_router(service: Service) -> APIRouter:
    """The routes that clients need."""
    router = APIRouter(tags=["LibreTranslate"])

    @router.post("/translate", response_model_exclude_none=True, openapi_extra=body_schema(LibreTranslateRequest))
    async def translate(request: Request) -> LibreTranslateResponse:
        """Translate as LibreTranslate does; errors are {"error": "..."}, as its clients expect."""
        form = parse_body(LibreTranslateRequest, await request.body(), request.headers.get("content-type", ""))
        if form.format == "html":
            message = "format=html is not supported yet; send plain text, with format=text"
            raise RequestError(400, "unsupported_format", message)
        texts = [form.q] if isinstance(form.q, str) else form.q
        service.check_size(texts)  # before languages are detected
        choices = await choose(service, form, texts)
        translations = await translate_texts(service, request, form, texts, choices)
        found = [translation.text for translation in translations]
        others = [[other.text for other in translation.alternatives] for translation in translations]
        detected = [DetectedLanguage.of(choice.detected) for choice in choices if choice.detected is not None]
        if isinstance(form.q, str):
            return LibreTranslateResponse(
                translatedText=found[0],
                alternatives=others[0] if form.alternatives else None,
                detectedLanguage=detected[0] if detected else None,
            )
        return LibreTranslateResponse(
            translatedText=found, alternatives=others if form.alternatives else None, detectedLanguage=detected or None
        )

    @router.post("/detect", openapi_extra=body_schema(DetectRequest))
    async def detect(request: Request) -> list[DetectedLanguage]:
        """The languages of a text, the most likely first, among those of the models where they are known."""
        form = parse_body(DetectRequest, await request.body(), request.headers.get("content-type", ""))
        service.check_size([form.q])
        ranked = await asyncio.to_thread(detect_languages, form.q, served_languages(service.models) or None)
        found = [DetectedLanguage.of(one) for one in ranked]
        return [one for one in found if one.confidence >= MIN_CONFIDENCE] or found[:1]

    @router.get("/languages")
    async def languages() -> list[Language]:
        """The languages of the models, where they are known; a language that is only a target has no targets."""
        pairs = served_pairs(service.models)
        return [
            Language(
                code=code,
                name=language_name(code),
                targets=sorted({pair.target for pair in pairs if pair.source == code}),
            )
            for code in served_languages(service.models)
        ]

    @router.get("/frontend/settings")
    async def frontend_settings() -> dict[str, Any]:
        """The settings that LibreTranslate's clients read: limits, and default languages."""
        pair = next(iter(served_pairs(service.models)), None)
        source, target = ("", "") if pair is None else (pair.source or AUTO, pair.target)
        detects = detection_available()
        return {
            "apiKeys": False,
            "charLimit": service.limits.max_characters,
            "filesTranslation": False,
            "frontendTimeout": TYPING_PAUSE,
            "keyRequired": False,
            "language": {
                "source": {"code": AUTO, "name": "Auto Detect"} if detects else to_language(source),
                "target": to_language(target),
            },
            "suggestions": False,
            "supportedFilesFormat": [],
        }

    @router.post("/translate_file", include_in_schema=False)
    async def translate_file() -> None:
        """Reject files, which LibreTranslate translates."""
        message = "this server does not translate files; send their text to /translate, or use dragoman translate"
        raise RequestError(403, "unsupported_format", message)

    return router


def to_language(code: str) -> dict[str, str]:
    """A language as LibreTranslate's settings have it."""
    return {"code": code, "name": language_name(code)}


def body_schema(body: type[BaseModel]) -> dict[str, Any]:
    """The description of a body that is JSON or a form."""
    schema = body.model_json_schema()
    return {"requestBody": {"content": {kind: {"schema": schema} for kind in ("application/json", FORM, MULTIPART)}}}


async def choose(service: Service, form: LibreTranslateRequest, texts: Sequence[str]) -> list[Choice]:
    """The model for each text; without any language, the default model."""
    if form.source != AUTO:
        return [choose_model(service.models, form.source, form.target)] * len(texts)
    if form.target:
        return await asyncio.to_thread(choose_models, service.models, texts, form.target)
    return [Choice(service.default, None)] * len(texts)


async def translate_texts(
    service: Service, request: Request, form: LibreTranslateRequest, texts: Sequence[str], choices: Sequence[Choice]
) -> list[Translation]:
    """The translation of each text by its model, in order."""
    found: dict[int, Translation] = {}
    for model, to in dict.fromkeys((choice.model, choice.to) for choice in choices):
        here = [i for i, choice in enumerate(choices) if (choice.model, choice.to) == (model, to)]
        settings = batch_settings(service, model, to, form.alternatives)
        disconnected = partial(wait_disconnected, request)
        translations = await service.translate([texts[i] for i in here], settings, deadline(request), disconnected)
        found.update(zip(here, translations, strict=True))
    return [found[i] for i in range(len(texts))]


def batch_settings(service: Service, model: str, to: str | None, alternatives: int) -> BatchSettings:
    """The settings of a request."""
    fields = {"text": "", "model": model, "n_best": alternatives + 1, "to": to}
    return service.batch_settings(TranslateRequest.model_validate(fields))


def parse_body(kind: type[Body], body: bytes, content_type: str) -> Body:
    """The fields of a body, which is JSON or a form."""
    fields: Any
    try:
        if content_type.startswith(FORM):
            sent = parse_qs(body.decode("utf-8"), keep_blank_values=True, errors="strict")
            fields = {name: values[0] if len(values) == 1 else values for name, values in sent.items()}
        elif content_type.startswith(MULTIPART):
            fields = parse_multipart(body, content_type)
        else:
            fields = json.loads(body)
    except (ValueError, RecursionError):  # invalid JSON or UTF-8, or JSON nested too deeply
        message = 'the body is neither JSON nor a form without files; send {"q": "..."} as JSON, in UTF-8'
        raise RequestError(400, "invalid_json", message) from None
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        found = validation_error(RequestValidationError(error.errors()).errors(), kind)
        raise RequestError(400, found.code, str(found)) from None


def parse_multipart(body: bytes, content_type: str) -> dict[str, str]:
    """The fields of a form such as a browser's FormData; raise ValueError where it holds a file, or is not a form."""
    message = message_from_bytes(f"Content-Type: {content_type}\r\n\r\n".encode("latin-1") + body)
    if not message.is_multipart():
        raise ValueError("not a form")
    fields: dict[str, str] = {}
    for part in message.get_payload():
        assert not isinstance(part, str)
        name = part.get_param("name", header="content-disposition")
        content = part.get_payload(decode=True)
        if not isinstance(name, str) or part.get_filename() is not None or not isinstance(content, bytes):
            raise ValueError("not a field")
        fields[name] = content.decode("utf-8")
    return fields
