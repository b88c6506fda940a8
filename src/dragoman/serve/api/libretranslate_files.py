"""LibreTranslate's route for files: a form with a file in, the address of the translated file out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dragoman.documents.segment import Document, ReadOptions
from dragoman.serve.api.documents import write_document
from dragoman.serve.api.libretranslate import batch_settings, detects_source, models_for_request
from dragoman.serve.api.routes import caller
from dragoman.serve.api.schema import LIBRETRANSLATE_ERRORS
from dragoman.serve.documents import (
    DocumentWork,
    document_languages,
    document_text,
    file_name,
    read_sent_document,
    translated_name,
)
from dragoman.serve.errors import RequestError, validation_error
from dragoman.serve.file_store import KeepFile
from dragoman.serve.http.access import DOWNLOADS, check_token_field
from dragoman.serve.http.bodies import MULTIPART, read_file_form
from dragoman.serve.models.language_pairs import AUTO, target_code
from dragoman.serve.offload import offload
from dragoman.serve.service import Service

DETECTION_CHARACTERS: Final = 5_000
ADVICE: Final = "send multipart/form-data with the fields file, source and target"


class LibreTranslateFile(BaseModel):
    """The fields of a form with a file; unknown ones are ignored."""

    model_config = ConfigDict(extra="ignore")

    source: str = Field(AUTO, description="Source language, or auto to detect it.")
    target: str = Field("", description="Target language.")
    api_key: Any = Field("", description="API token, if the server requires one.")


class LibreTranslateFileResponse(BaseModel):
    """Where the translated file is, for ten minutes."""

    translatedFileUrl: str  # noqa: N815  # LibreTranslate's name


def file_form_schema() -> dict[str, Any]:
    """The OpenAPI description of the form."""
    schema = LibreTranslateFile.model_json_schema()
    schema["properties"] = {"file": {"type": "string", "format": "binary", "description": "The document."}} | schema[
        "properties"
    ]
    return {"requestBody": {"required": True, "content": {MULTIPART: {"schema": schema | {"required": ["file"]}}}}}


def libretranslate_file_router(service: Service, keep_file: KeepFile) -> APIRouter:
    """The route that translates a file; `keep_file` stores the result."""
    router = APIRouter(tags=["LibreTranslate"])

    @router.post(
        "/translate_file",
        response_model=LibreTranslateFileResponse,
        responses=LIBRETRANSLATE_ERRORS,
        openapi_extra=file_form_schema(),
    )
    async def translate_file(request: Request) -> LibreTranslateFileResponse:
        """Translate a file, and reply with the address of the result; errors are {"error": "..."}."""
        file, fields = await read_file_form(request, ADVICE)
        form = parse_fields(fields)
        check_token_field(request, form.api_key)
        name = file_name(file.name)

        def read(languages: tuple[str, str]) -> Document:
            return read_sent_document(file.content, name, None, ReadOptions(*languages), service.limits)

        text = ""
        if detects_source(form.source, form.target):
            unknown = await offload(read, ("", target_code(service.models, form.target)))
            text = document_text(unknown.segments)[:DETECTION_CHARACTERS]
        (choice,) = await models_for_request(service, form.source, form.target, [text])
        waiting, result, content = caller(request), name, file.content
        if choice.model is not None:
            settings = batch_settings(service, choice.model, choice.to, 0)
            document = await offload(read, document_languages(settings, choice.source))
            work = await offload(DocumentWork.plan, service, document.segments, settings)
            content = await offload(write_document, document, await work.translate(waiting))
            result = translated_name(name, settings)
        key = await keep_file(result, content, waiting.client)
        path = f"{DOWNLOADS.lstrip('/')}{key}.{quote(result, safe='')}"
        return LibreTranslateFileResponse(translatedFileUrl=f"{request.base_url}{path}")

    return router


def parse_fields(sent: Mapping[str, Any]) -> LibreTranslateFile:
    """The fields of a form except its file."""
    try:
        return LibreTranslateFile.model_validate(sent)
    except ValidationError as error:
        found = validation_error(error.errors(), LibreTranslateFile)
        raise RequestError(400, found.code, str(found)) from None
