"""HTTP error responses: a status, a stable code, and a message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from dragoman.errors import DocumentError, DragomanError, SearchError, TextError, shortage
from dragoman.values import describe_value, suggest

# English for the types and bounds of JSON Schema.
TYPES: Final = {
    "integer": ("an integer", "integers"),
    "number": ("a number", "numbers"),
    "boolean": ("true or false", "true or false"),
    "string": ("a string", "strings"),
    "object": ("a JSON object", "JSON objects"),
}
BOUNDS: Final = {"minimum": "at least", "exclusiveMinimum": "over", "maximum": "at most", "exclusiveMaximum": "under"}
HTTP_CODES: Final = {400: "invalid_json", 404: "not_found", 405: "method_not_allowed"}

MAX_MESSAGE: Final = 1_000  # characters

LIBRETRANSLATE_PATHS: Final = ("/translate", "/detect", "/languages", "/frontend/settings", "/translate_file")


class RequestError(DragomanError):
    """A rejected request, with the HTTP status of the response."""

    def __init__(self, status: int, code: str, message: str, retry_after: int | None = None) -> None:
        # a value from a client may contain lone surrogates, or be megabytes long
        super().__init__(shorten_message(message).encode("utf-8", "replace").decode(), code=code)
        self.status, self.retry_after = status, retry_after

    def response(self, path: str = "") -> JSONResponse:
        """The response as JSON; LibreTranslate's paths have LibreTranslate's format."""
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        if self.status == 401:
            headers["WWW-Authenticate"] = 'Basic realm="dragoman", charset="UTF-8"'
        detail: Any = {"code": self.code, "message": str(self)}
        own = path.endswith(LIBRETRANSLATE_PATHS) or "/download_file/" in path
        if own and not path.endswith("/v1/translate"):
            detail = str(self)
        return JSONResponse({"error": detail}, self.status, headers)


def shorten_message(message: str) -> str:
    """Shorten a long message; keep its end, which says what to do."""
    return message if len(message) <= MAX_MESSAGE else f"{message[: MAX_MESSAGE // 2]}...{message[-MAX_MESSAGE // 2 :]}"


def to_request_error(error: BaseException) -> RequestError:
    """Convert an exception to an error response; unexpected ones reveal nothing."""
    if shortage(error) is not None:
        return RequestError(503, "out_of_memory", "the server is out of memory; send less text at a time", 5)
    match error:
        case RequestError():
            return error
        case TextError(code="detection_unavailable"):
            return RequestError(501, error.code, str(error))
        case SearchError() | TextError() | DocumentError():
            return RequestError(422, error.code, str(error))
        case DragomanError():
            return RequestError(500, error.code, str(error))
        case _:
            return RequestError(500, "internal_error", "unexpected server error; see the server's log")


def add_handlers(app: FastAPI) -> None:
    """Give all errors of an app the same format."""

    async def handle_error(request: Request, error: Exception) -> JSONResponse:
        return to_request_error(error).response(request.url.path)

    async def handle_validation(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        route = request.scope["route"]
        field = route.body_field or route.dependant.query_params[0]
        return validation_error(error.errors(), field.field_info.annotation).response(request.url.path)

    async def handle_http(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        messages = {
            400: 'the body is not valid JSON; send an object such as {"text": "..."} in UTF-8',
            404: "no such path; see /docs for the API",
            405: f"this path does not support {request.method}; see /docs for the API",
        }
        code = HTTP_CODES.get(error.status_code, "http_error")
        message = messages.get(error.status_code, str(error.detail))
        response = RequestError(error.status_code, code, message).response(request.url.path)
        for name, value in (error.headers or {}).items():
            response.headers[name] = value
        return response

    app.add_exception_handler(DragomanError, handle_error)
    app.add_exception_handler(MemoryError, handle_error)
    app.add_exception_handler(Exception, handle_error)
    app.add_exception_handler(RequestValidationError, handle_validation)
    app.add_exception_handler(HTTPException, handle_http)


def validation_error(errors: Sequence[Mapping[str, Any]], body: type[BaseModel]) -> RequestError:
    """Describe the first error of a request body, or of the query, with the schema of `body`."""
    # a list that is too long is not a string either: report its length
    first = next((error for error in errors if error["type"] == "too_long"), errors[0])
    location = [part for part in first["loc"] if part not in ("body", "query")]
    kind, context = str(first["type"]), first.get("ctx") or {}
    if kind == "json_invalid":
        reason = str(context.get("error", "it ends too early")).strip(".")
        if "query" in first["loc"]:
            message = f'{location[-1]} is not JSON ({reason}); send an object such as {{"cat": "Katze"}}'
            return RequestError(422, "invalid_json", message)
        return RequestError(
            400, "invalid_json", f'the body is not JSON ({reason}); send an object such as {{"text": "..."}}'
        )
    if not location:
        message = "the body must be a JSON object; send one with the header Content-Type: application/json"
        return RequestError(422, "wrong_type", message)
    name, schema, siblings = find_field(body, location)
    if kind == "missing":
        return RequestError(422, "missing_field", f"the field {str(location[-1])!r} is missing")
    if kind == "extra_forbidden":
        where = f" in {name}" if name else ""
        unknown = str(location[-1])
        return RequestError(422, "unknown_field", f"unknown field {unknown!r}{where}{suggest(unknown, siblings)}")
    if kind == "too_long":
        maximum = context.get("max_length", 0)
        return RequestError(413, "too_large", f"{name} has too many entries; send at most {maximum:,} at a time")
    code = "out_of_range" if kind == "finite_number" or context.keys() & {"ge", "gt", "le", "lt"} else "wrong_type"
    got = describe_value(first.get("input"))
    return RequestError(422, code, f"{name or location[0]} must be {describe_schema(schema)}; got {got}")


def find_field(body: type[BaseModel], location: Sequence[str | int]) -> tuple[str, Mapping[str, Any], list[str]]:
    """The dotted name and schema of the field at `location`, and the fields at the level where the search ended."""
    root = json_schema(body)
    names: list[str] = []
    schema: Mapping[str, Any] = root
    fields: Mapping[str, Any] = root["properties"]
    for part in location:
        if isinstance(values := schema.get("additionalProperties"), Mapping):  # an object with any names
            return f"{'.'.join(names)}[{part!r}]", values, []
        if part not in fields:  # an index, a member of a union, or an unknown field
            break
        names.append(str(part))
        schema = fields[str(part)]
        schema = schema.get("contentSchema", schema)  # of JSON in a query
        reference = next((one["$ref"] for one in (schema, *schema.get("anyOf", ())) if "$ref" in one), None)
        fields = {} if reference is None else root["$defs"][reference.rpartition("/")[2]]["properties"]
    return ".".join(names), schema, list(fields)


@cache
def json_schema(body: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a request body."""
    return body.model_json_schema()


def describe_schema(schema: Mapping[str, Any], plural: bool = False) -> str:
    """What a field accepts, such as "an integer, at least 1" or "a string or a list of strings"."""
    options = [option for option in schema.get("anyOf", [schema]) if option.get("type") != "null"]
    return " or ".join(_describe_type(option, plural) for option in options)


def _describe_type(schema: Mapping[str, Any], plural: bool) -> str:
    if schema.get("type") == "array":
        return f"{'lists' if plural else 'a list'} of {describe_schema(schema['items'], plural=True)}"
    if "const" in schema:
        return repr(schema["const"])
    if "enum" in schema:
        return " or ".join(map(repr, schema["enum"]))
    bounds = " and ".join(f"{words} {schema[key]:,g}" for key, words in BOUNDS.items() if key in schema)
    return TYPES[schema.get("type", "object")][plural] + (f", {bounds}" if bounds else "")
