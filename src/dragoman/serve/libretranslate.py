"""LibreTranslate's simplest form, for the programs that speak it already: plain text, and languages choose."""

from __future__ import annotations

import json
from functools import partial
from typing import Annotated, Any, Final, Literal
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dragoman.serve.api import deadline, gone
from dragoman.serve.errors import ProblemError, invalid_request
from dragoman.serve.queue import Asked
from dragoman.serve.schema import MOST_TEXTS, TranslateRequest
from dragoman.serve.service import Served, Service

FORM: Final = "application/x-www-form-urlencoded"


class LibreRequest(BaseModel):
    """What LibreTranslate's clients send; fields of its that mean nothing here are taken and left alone."""

    model_config = ConfigDict(extra="ignore")

    q: str | Annotated[list[str], Field(max_length=MOST_TEXTS)] = Field(description="One text, or a list of them.")
    source: str = Field("auto", description="A language's code, or auto.")
    target: str = Field("", description="A language's code.")
    format: Literal["text"] = Field("text", description="text; HTML is not understood.")
    alternatives: int = Field(0, ge=0, description="So many other translations of each text.")


class LibreResponse(BaseModel):
    """The translation, or a list where a list came."""

    translatedText: str | list[str]  # noqa: N815  # as LibreTranslate writes it
    alternatives: list[str] | list[list[str]] | None = None


class Language(BaseModel):
    """A language that can be translated from, and into which others."""

    code: str
    name: str
    targets: list[str]


def libre(service: Service) -> APIRouter:
    """The two paths that most clients need."""
    router = APIRouter(tags=["LibreTranslate"])
    body = {"content": {kind: {"schema": LibreRequest.model_json_schema()} for kind in ("application/json", FORM)}}

    @router.post("/translate", response_model_exclude_none=True, openapi_extra={"requestBody": body})
    async def translate(request: Request) -> LibreResponse:
        """Translate as LibreTranslate does; errors are {"error": "..."} here, as its clients expect."""
        form = parsed(await request.body(), request.headers.get("content-type", ""))
        texts = [form.q] if isinstance(form.q, str) else form.q
        asked = asked_of(service, form)
        found = await service.translate(texts, asked, deadline(request), partial(gone, request))
        texts = [answer.text for answer in found]
        others = [[other.text for other in answer.alternatives] for answer in found]
        single = isinstance(form.q, str)
        wanted = form.alternatives > 0
        return LibreResponse(
            translatedText=texts[0] if single else texts,
            alternatives=None if not wanted else others[0] if single else others,
        )

    @router.get("/languages")
    async def languages() -> list[Language]:
        """The languages of the models whose cards or names tell them."""
        pairs = [(s, t) for served in service.models.values() for s, t in served.pairs if s is not None]
        return [
            Language(code=code, name=code, targets=sorted({target for source, target in pairs if source == code}))
            for code in sorted({source for source, _ in pairs})
        ]

    return router


def parsed(body: bytes, kind: str) -> LibreRequest:
    """The fields of a body, which may be JSON or a form."""
    fields: Any
    try:
        if kind.startswith(FORM):
            sent = parse_qs(body.decode("utf-8"), keep_blank_values=True, errors="strict")
            fields = {name: values[0] if len(values) == 1 else values for name, values in sent.items()}
        else:
            fields = json.loads(body)
    except (ValueError, RecursionError):  # of JSON, of UTF-8, or of JSON a thousand lists deep
        words = f'the body is neither JSON nor a form of the type {FORM}; send {{"q": "..."}} as JSON, in UTF-8'
        raise ProblemError(400, "not_json", words) from None
    try:
        return LibreRequest.model_validate(fields)
    except ValidationError as error:
        if isinstance(fields, dict) and fields.get("format") not in (None, "text"):
            raise ProblemError(400, "invalid", "only format text is understood; send plain text") from None
        problem = invalid_request(RequestValidationError(error.errors()).errors())
        raise ProblemError(400, problem.code, str(problem)) from None


def asked_of(service: Service, form: LibreRequest) -> Asked:
    """The search that a form asks for, with the model of its languages."""
    served = of_languages(service, form.source, form.target)
    to = form.target or None if served.targets else None
    asked = {"text": "", "model": served.name, "n_best": form.alternatives + 1, "to": to}
    return service.asked(TranslateRequest.model_validate(asked))


def of_languages(service: Service, source: str, target: str) -> Served:
    """The first model of a pair of languages; one whose languages nobody knows is taken at the client's word."""
    known = [served for served in service.models.values() if served.pairs]
    for served in known:
        for one, other in served.pairs:
            if (source == "auto" or one in (None, source)) and target in ("", other):
                return served
    unknown = [served for served in service.models.values() if not served.pairs]
    if unknown:
        return unknown[0]
    pairs = ", ".join(sorted({f"{one or 'auto'} to {other}" for served in known for one, other in served.pairs}))
    raise ProblemError(
        400, "no_such_languages", f"{source} to {target or '?'} is not translated here; there is: {pairs}"
    )
