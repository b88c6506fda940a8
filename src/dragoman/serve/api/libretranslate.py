"""The LibreTranslate API: text and HTML, with models chosen by language."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated, Any, Final, Literal, TypeVar

from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dragoman.documents.detect import FORMATS
from dragoman.documents.encoding import Encoding
from dragoman.documents.formats.html.html import read_slots, read_text
from dragoman.documents.languages import LanguageChange
from dragoman.documents.spliced import SplicedText
from dragoman.search.types import MAX_BEAM
from dragoman.serve.api.routes import caller
from dragoman.serve.api.schema import LIBRETRANSLATE_ERRORS, LIBRETRANSLATE_GET_ERRORS, TranslateRequest
from dragoman.serve.documents import (
    MAX_STRUCTURE,
    DocumentWork,
    check_structure,
    document_languages,
    document_text,
)
from dragoman.serve.errors import RequestError, validation_error
from dragoman.serve.http.access import check_token_field
from dragoman.serve.http.bodies import (
    FORM,
    MULTIPART,
    in_thread,
    media_type,
    parse_form,
    parse_multipart,
    parse_request_json,
)
from dragoman.serve.http.replies import LARGE_REPLY_BYTES, json_object, json_reply
from dragoman.serve.limits import MAX_TEXTS
from dragoman.serve.models.language_pairs import (
    AUTO,
    ModelChoice,
    choose_model,
    choose_models,
    served_languages,
    served_pairs,
)
from dragoman.serve.offload import offload
from dragoman.serve.scheduling.budget import exceeds_bytes
from dragoman.serve.scheduling.queue import BatchSettings
from dragoman.serve.service import Service
from dragoman.serve.texts import translate_texts
from dragoman.text.languages.detection import Detected, detect_languages, detection_available
from dragoman.text.languages.names import language_name
from dragoman.translation.result import Translation

TYPING_PAUSE: Final = 500  # milliseconds that LibreTranslate's web page waits after a key press
Body = TypeVar("Body", bound=BaseModel)
MIN_CONFIDENCE: Final = 1.0  # percent; less likely languages are not listed


class DetectRequest(BaseModel):
    """A text whose language is detected; unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore")

    q: str = Field(description="A text.")
    api_key: Any = Field("", description="API token, if the server requires one.")


class LibreTranslateRequest(BaseModel):
    """A LibreTranslate request; unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore")

    q: str | Annotated[list[str], Field(max_length=MAX_TEXTS, fail_fast=True)] = Field(
        description="One text, or a list of texts."
    )
    source: str = Field(AUTO, description="Source language, or auto to detect it.")
    target: str = Field("", description="Target language.")
    format: Literal["text", "html"] = Field("text", description="text, or html to keep markup.")
    alternatives: int = Field(0, ge=0, lt=MAX_BEAM, description="Number of alternative translations per text.")
    api_key: Any = Field("", description="API token, if the server requires one.")


class DetectedLanguage(BaseModel):
    """A language and its probability in percent."""

    language: str
    confidence: float

    @classmethod
    def of(cls, detected: Detected) -> DetectedLanguage:
        """Convert the confidence to percent, as LibreTranslate does."""
        return cls(language=detected.language, confidence=round(100 * detected.confidence, 1))


class LibreTranslateResponse(BaseModel):
    """The translation, or a list for a list."""

    translatedText: str | list[str]  # noqa: N815  # LibreTranslate's name
    alternatives: list[str] | list[list[str]] | None = None
    detectedLanguage: DetectedLanguage | list[DetectedLanguage] | None = None  # noqa: N815


class Language(BaseModel):
    """A language and its target languages."""

    code: str
    name: str
    targets: list[str]


def libretranslate_router(service: Service) -> APIRouter:
    """The LibreTranslate routes that clients need."""
    router = APIRouter(tags=["LibreTranslate"])

    @router.post(
        "/translate",
        response_model=LibreTranslateResponse,
        responses=LIBRETRANSLATE_ERRORS,
        openapi_extra=body_schema(LibreTranslateRequest),
    )
    async def translate(request: Request) -> Response:
        """Translate with the fields of LibreTranslate; errors are {"error": "..."}."""
        form = await read_body(LibreTranslateRequest, request)
        check_token_field(request, form.api_key)
        texts = [form.q] if isinstance(form.q, str) else form.q
        service.check_size(texts)  # before languages are detected
        fields: dict[str, Any] = {}
        if form.format == "html":
            check_structure(sum(text.count("<") for text in texts), MAX_STRUCTURE)
            plain = await offload(page_texts, texts) if detects_source(form.source, form.target) else texts
            choices = await models_for_request(service, form.source, form.target, plain)
            translations = await translate_pages(service, request, texts, choices)
        else:
            choices = await models_for_request(service, form.source, form.target, texts)
            translations = await translate_with_models(service, request, form, texts, choices)
        fields["translatedText"] = [translation.text for translation in translations]
        if form.alternatives:  # not for HTML, as in LibreTranslate
            fields["alternatives"] = [[other.text for other in one.alternatives] for one in translations]
        if detected := [DetectedLanguage.of(choice.detected) for choice in choices if choice.detected is not None]:
            fields["detectedLanguage"] = [one.model_dump() for one in detected]
        if isinstance(form.q, str):
            fields = {name: values[0] for name, values in fields.items()}
        return json_reply(json_object(fields), exceeds_bytes(translations, LARGE_REPLY_BYTES))

    @router.post("/detect", responses=LIBRETRANSLATE_ERRORS, openapi_extra=body_schema(DetectRequest))
    async def detect(request: Request) -> list[DetectedLanguage]:
        """Detect the language of a text among those of the models, the most likely first."""
        form = await read_body(DetectRequest, request)
        check_token_field(request, form.api_key)
        service.check_size([form.q])
        ranked = await asyncio.to_thread(detect_languages, form.q, served_languages(service.models) or None)
        found = [DetectedLanguage.of(one) for one in ranked]
        return [one for one in found if one.confidence >= MIN_CONFIDENCE] or found[:1]

    @router.get("/languages", responses=LIBRETRANSLATE_GET_ERRORS)
    async def languages() -> list[Language]:
        """List the known languages of the models, each with its target languages."""
        pairs = served_pairs(service.models)
        return [
            Language(
                code=code,
                name=language_name(code),
                targets=sorted({pair.target for pair in pairs if pair.source == code}),
            )
            for code in served_languages(service.models)
        ]

    @router.get("/frontend/settings", responses=LIBRETRANSLATE_GET_ERRORS)
    async def frontend_settings() -> dict[str, Any]:
        """Settings for LibreTranslate clients: limits and default languages."""
        pair = next(iter(served_pairs(service.models)), None)
        source, target = ("", "") if pair is None else (pair.source or AUTO, pair.target)
        detects = detection_available()
        return {
            "apiKeys": service.needs_token,
            "charLimit": service.limits.max_characters,
            "filesTranslation": True,
            "frontendTimeout": TYPING_PAUSE,
            "keyRequired": service.needs_token,
            "language": {
                "source": {"code": AUTO, "name": "Auto Detect"} if detects else to_language(source),
                "target": to_language(target),
            },
            "suggestions": False,
            "supportedFilesFormat": [suffix for one in FORMATS for suffix in one.suffixes],
        }

    return router


def to_language(code: str) -> dict[str, str]:
    """A language in the format of LibreTranslate's settings."""
    return {"code": code, "name": language_name(code)}


def body_schema(body: type[BaseModel]) -> dict[str, Any]:
    """The OpenAPI description of a body sent as JSON or as a form."""
    schema = body.model_json_schema()
    return {"requestBody": {"content": {kind: {"schema": schema} for kind in ("application/json", FORM, MULTIPART)}}}


def detects_source(source: str, target: str) -> bool:
    """Whether a request with these languages needs detection: without any, the default model translates."""
    return source == AUTO and bool(target)


async def models_for_request(service: Service, source: str, target: str, texts: Sequence[str]) -> list[ModelChoice]:
    """Choose the model for each text; without any language, the default model."""
    if detects_source(source, target):
        return await asyncio.to_thread(choose_models, service.models, texts, target)
    if source == AUTO:
        return [ModelChoice(service.default, None)] * len(texts)
    return [choose_model(service.models, source, target)] * len(texts)


async def translate_with_models(
    service: Service,
    request: Request,
    form: LibreTranslateRequest,
    texts: Sequence[str],
    choices: Sequence[ModelChoice],
) -> list[Translation]:
    """Translate each text with its model; return the translations in order."""
    found = {i: Translation(texts[i]) for i, choice in enumerate(choices) if choice.model is None}
    for model, to, here in group_by_model(choices):
        settings = batch_settings(service, model, to, form.alternatives)
        translations = await translate_texts(service, [texts[i] for i in here], settings, caller(request))
        found.update(zip(here, translations, strict=True))
    return [found[i] for i in range(len(texts))]


def group_by_model(choices: Sequence[ModelChoice]) -> Iterator[tuple[str, str | None, list[int]]]:
    """Each model and target language, with the indices of its texts."""
    groups: dict[tuple[str, str | None], list[int]] = {}
    for i, choice in enumerate(choices):
        if choice.model is not None:
            groups.setdefault((choice.model, choice.to), []).append(i)
    return ((*key, here) for key, here in groups.items())


def page_texts(pages: Sequence[str]) -> list[str]:
    """The texts of HTML pages or fragments, to detect their languages."""
    return [document_text(slot.segment for slot in read_slots(page)) for page in pages]


def read_pages(pages: Sequence[tuple[str, LanguageChange]]) -> list[SplicedText]:
    """HTML pages or fragments, each with the change of the language that it declares."""
    return [read_text(text, Encoding(), language) for text, language in pages]


async def translate_pages(
    service: Service, request: Request, texts: Sequence[str], choices: Sequence[ModelChoice]
) -> list[Translation]:
    """Translate each page with its model; return the translated HTML in order."""
    found = {i: Translation(texts[i]) for i, choice in enumerate(choices) if choice.model is None}
    for model, to, here in group_by_model(choices):
        settings = batch_settings(service, model, to, 0)
        languages = [LanguageChange(*document_languages(settings, choices[i].source)) for i in here]
        pages = await offload(read_pages, list(zip([texts[i] for i in here], languages, strict=True)))
        segments = [segment for page in pages for segment in page.segments]
        work = await offload(DocumentWork.plan, service, segments, settings)
        report = await work.translate(caller(request))
        targets = [result.target for result in report.results]
        start = 0
        for i, page in zip(here, pages, strict=True):
            own = targets[start : start + len(page.slots)]
            found[i] = Translation(await offload(page.splice, own))
            start += len(own)
    return [found[i] for i in range(len(texts))]


def batch_settings(service: Service, model: str, to: str | None, alternatives: int) -> BatchSettings:
    """Batch settings for a model and a target language."""
    if alternatives >= (limit := service.limits.max_beam):
        message = f"alternatives must be under {limit:,} on this server (--max-beam); got {alternatives:,}"
        raise RequestError(422, "over_limit", message)
    fields = {"text": "", "model": model, "n_best": alternatives + 1, "to": to}
    return service.batch_settings(TranslateRequest.model_validate(fields))


def parse_body(kind: type[Body], content_type: str, body: bytes) -> Body:
    """Parse a body sent as JSON or as a form."""
    fields: Any
    sent = media_type(content_type)
    try:
        if sent == FORM:
            fields = parse_form(body)
        elif sent == MULTIPART:
            fields = parse_multipart(body, content_type)
        else:
            fields = parse_request_json(body, "q")
    except ValueError:  # invalid UTF-8, or not a form
        message = 'the body is neither valid JSON nor a form without files; send {"q": "..."} as JSON, in UTF-8'
        raise RequestError(400, "invalid_json", message) from None
    try:
        return kind.model_validate(fields, strict=sent not in (FORM, MULTIPART))  # everything in a form is text
    except ValidationError as error:
        found = validation_error(RequestValidationError(error.errors()).errors(), kind)
        raise RequestError(400, found.code, str(found)) from None


async def read_body(kind: type[Body], request: Request) -> Body:
    """Read and parse the body of a request."""
    parse = partial(parse_body, kind, request.headers.get("content-type", ""))
    found: Body = await in_thread(parse, await request.body())
    return found
