"""Routes for documents: a file in, the translated file out, with a report of what needs review."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from email.message import Message
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, Json

from dragoman.documents.detect import FORMATS
from dragoman.documents.reports.report import Report
from dragoman.documents.reports.review import entry
from dragoman.documents.segment import Document, ReadOptions
from dragoman.errors import DocumentError
from dragoman.search.types import MAX_BEAM
from dragoman.serve.api.routes import caller
from dragoman.serve.api.schema import FILE, POST_ERRORS, SearchSettings
from dragoman.serve.documents import (
    DocumentWork,
    document_languages,
    document_text,
    file_name,
    read_sent_document,
    translated_name,
)
from dragoman.serve.errors import RequestError, to_request_error
from dragoman.serve.http.bodies import MULTIPART, SentFile, media_type, read_file_form
from dragoman.serve.http.middleware import log_error
from dragoman.serve.http.replies import BINARY, JSON, LINES, file_reply, to_json
from dragoman.serve.limits import MAX_TERMS
from dragoman.serve.models.language_pairs import ModelChoice, choose_for_text
from dragoman.serve.offload import offload
from dragoman.serve.scheduling.queue import BatchSettings
from dragoman.serve.service import Caller, Service, with_terms

REPORT_HEADER: Final = "Dragoman-Report"
ADVICE: Final = "send the file itself (curl --data-binary @FILE), or a form with one file (curl -F file=@FILE)"
PROGRESS_SECONDS: Final = 0.25  # between two lines of progress


class DocumentQuery(BaseModel):
    """The parameters of a document; omitted ones have the server's defaults."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(
        "", description="File name; by default that of the form's file or the Content-Disposition header."
    )
    format: str | None = Field(
        None, description=f"{', '.join(one.name for one in FORMATS)}; recognized by content and name by default."
    )
    model: str | None = Field(None, description="Name of a model in /v1/models; the first by default.")
    to: str | None = Field(None, description="Target language, for a model with several.")
    detect: bool = Field(
        False,
        description="Detect the language of the document; if it is not that of the model, use another model that "
        "translates it, with the same target language if possible.",
    )
    beam: int | None = Field(None, ge=1, le=MAX_BEAM, description="Beam size, up to max_beam in /v1/models.")
    terms: Annotated[Json[dict[str, str | list[str]]], Field(validate_default=False)] = Field(
        default={},
        description="Terminology as a JSON object: source phrases, each with the phrase or phrases that may translate "
        "it; in addition to the server's.",
    )
    retranslate: bool = Field(False, description="Replace translations that a PO, XLIFF or TMX file has already.")
    report: Literal["header", "json", "review"] = Field(
        "header",
        description="header: reply with the file, and with counts in the header Dragoman-Report. json: reply with JSON "
        "that has the file and the report. review: the same, with all segments and aligned words.",
    )
    progress: bool = Field(
        False, description="Reply with lines of JSON: the progress while it is translated, then the reply or the error."
    )


class ReviewSegment(BaseModel):
    """A segment that needs review."""

    segment: int = Field(description="Its number, from 1.")
    key: str = Field(description="Where it is in the document.")
    source: str
    target: str | None = Field(description="Its translation; null if it was left in the source language.")
    problem: str | None = Field(description="Why it, or a sentence of it, was left: placeholder_lost, markup_lost...")
    confidence: float | None = Field(description="The lowest of its sentences; null if the model translated none.")
    flags: list[str] = Field(description="Those of its sentences, as in /v1/translate; numbers_differ.")
    unmet: list[str] = Field(description="Required phrases that are missing.")
    unaligned: list[str] = Field(description="Tags whose words have no aligned translation.")
    matches: list[dict[str, Any]] = Field(description="Matches in the server's translation memory.")


class DocumentReport(BaseModel):
    """What happened to the segments of a document."""

    segments: int
    translated: int
    from_memory: int = Field(description="Segments from the server's translation memory.")
    review: list[ReviewSegment]


class Note(BaseModel):
    """What a person should know about a segment."""

    code: str = Field(description="A flag, kept, low_confidence, lacks, unaligned, retried, match or similar.")
    values: list[str] = Field(description="What the note is about: a phrase, a tag, a match in the memory...")
    text: str = Field(description="The note in English.")


class SegmentView(BaseModel):
    """A segment and its translation, for showing them side by side."""

    key: str
    source: str
    target: str | None = None
    review: bool = Field(description="Whether it needs review.")
    confidence: float | None = None
    notes: list[Note]
    words: tuple[list[tuple[int, int]], list[tuple[int, int]], list[tuple[int, int]]] | None = Field(
        None, description="Offsets of the words of source and target, and pairs of aligned words."
    )


class DocumentResponse(BaseModel):
    """A translated document."""

    model: str
    to: str | None = Field(description="Target language, if the model has several.")
    name: str = Field(description="Name of the translated file.")
    document: str = Field(description="The translated file, in Base64.")
    report: DocumentReport
    segments: list[SegmentView] | None = Field(None, description="All segments; with report=review.")


FORM: Final = {"type": "object", "properties": {"file": FILE | {"description": "The document."}}, "required": ["file"]}
BODY: Final = {"requestBody": {"required": True, "content": {BINARY: {"schema": FILE}, MULTIPART: {"schema": FORM}}}}
REPLY: Final[dict[str, Any]] = {
    "description": "The file, or JSON.",
    "content": {BINARY: {"schema": FILE}, LINES: {"schema": {"type": "string"}}},
    "headers": {
        REPORT_HEADER: {
            "description": "JSON with the number of segments, of translated ones, and of those to review.",
            "schema": {"type": "string"},
        }
    },
}


def document_router(service: Service) -> APIRouter:
    """The routes for documents."""
    router = APIRouter(tags=["documents"])

    @router.post(
        "/v1/documents",
        response_model=DocumentResponse,
        responses={200: REPLY, **POST_ERRORS},
        openapi_extra=BODY,
    )
    async def translate_document(request: Request, query: Annotated[DocumentQuery, Query()]) -> Response:
        """Translate a document, sent as the body or as the only file of a form.

        Its markup is kept; everything but its text stays as it is.
        """
        settings = service.batch_settings(
            SearchSettings.model_validate(query.model_dump(include={"model", "to", "beam"}))
        )
        settings = with_terms(settings, check_number_of_terms(query.terms))
        file = await sent_file(request)
        name, data = file_name(query.name or file.name), file.content

        def read(languages: tuple[str, str] = ("", "")) -> Document:
            options = ReadOptions(*languages, query.retranslate)
            return read_sent_document(data, name, query.format, options, service.limits)

        source = ""
        if query.detect:
            settings, source = await detect_model(service, settings, read)
        document = await offload(read, document_languages(settings, source))
        work = await offload(DocumentWork.plan, service, document.segments, settings, query.report == "review")
        result = translated_name(name, settings)
        if query.progress:
            reply = document_reply(work, document, result, caller(request), query.report)
            return StreamingResponse(progress_lines(work, reply), media_type=LINES, headers={"X-Accel-Buffering": "no"})
        if query.report != "header":
            return Response(
                await document_reply(work, document, result, caller(request), query.report), media_type=JSON
            )
        report = await work.translate(caller(request))
        counts = {"segments": len(report.results), "translated": report.translated}
        counts["review"] = sum(one.needs_review for one in report.results)
        return file_reply(await offload(write_document, document, report), result, {REPORT_HEADER: to_json(counts)})

    return router


async def detect_model(
    service: Service, settings: BatchSettings, read: Callable[[], Document]
) -> tuple[BatchSettings, str]:
    """The settings with the model for the language of a document, and that language; `read` needs no languages."""
    try:
        text = document_text((await offload(read)).segments)
    except DocumentError as error:
        if error.code != "missing_language":
            raise
        return settings, ""  # a file with several languages, of which the model takes its own
    preferred = ModelChoice(settings.model.name, settings.to)
    choice = await asyncio.to_thread(choose_for_text, service.models, preferred, text)
    return replace(settings, model=service.model(choice.model), to=choice.to), choice.source


def check_number_of_terms(terms: Mapping[str, str | list[str]]) -> Mapping[str, str | list[str]]:
    """The terms of a request; reject too many."""
    if len(terms) > MAX_TERMS:
        raise RequestError(413, "too_large", f"got {len(terms):,} terms; send at most {MAX_TERMS:,}")
    return terms


async def sent_file(request: Request) -> SentFile:
    """The document in a request: the body, or the only file of a form."""
    if media_type(request.headers.get("content-type", "")) != MULTIPART:
        return SentFile(sent_name(request), await request.body())
    file, others = await read_file_form(request, ADVICE)
    if others:
        message = f"the form has a field {next(iter(others))!r}; give parameters in the URL, such as ?name=a.txt"
        raise RequestError(400, "invalid_form", message)
    return file


def sent_name(request: Request) -> str:
    """The file name in the Content-Disposition header; empty without that header."""
    sent, header = request.headers.get("content-disposition", ""), Message()
    with suppress(UnicodeDecodeError):  # many clients send UTF-8, although headers are Latin-1
        sent = sent.encode("latin-1").decode("utf-8")
    header["Content-Disposition"] = sent
    return header.get_filename() or ""


def write_document(document: Document, report: Report) -> bytes:
    """The translated document."""
    return document.write([result.target for result in report.results])


async def document_reply(work: DocumentWork, document: Document, name: str, waiting: Caller, kind: str) -> bytes:
    """Translate a document; the reply as JSON."""
    report = await work.translate(waiting)

    def build() -> bytes:
        fields: dict[str, Any] = {"model": work.settings.model.name, "to": work.settings.to, "name": name}
        fields["report"] = report.to_json()
        fields["document"] = b64encode(write_document(document, report)).decode("ascii")
        if kind == "review":
            fields["segments"] = [entry(result) for result in report.results]
        return to_json(fields).encode()

    return await offload(build)


async def progress_lines(work: DocumentWork, reply: Awaitable[bytes]) -> AsyncIterator[bytes]:
    """Lines of JSON: the progress, then the reply or its error."""
    task = asyncio.ensure_future(reply)
    try:
        while not task.done():
            done = min(work.meter.sentences, work.n_sentences)
            yield to_json({"progress": {"sentences": done, "total": work.n_sentences}}).encode() + b"\n"
            await asyncio.wait({task}, timeout=PROGRESS_SECONDS)
        try:
            yield task.result() + b"\n"
        except Exception as error:
            found = to_request_error(error)
            if found.status == 500:
                log_error(error)
            yield to_json({"error": {"code": found.code, "message": str(found)}}).encode() + b"\n"
    finally:
        if not task.done():  # the client has disconnected
            work.service.metrics.count_dropped("gone")
            task.cancel()
