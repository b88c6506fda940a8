"""What a client is told when something cannot be done: a status, a code for programs, and words for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from dragoman.errors import DragomanError, SearchError, TextError, shortage
from dragoman.values import describe_value, suggest

KINDS: Final = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "a text",
    "finite_number": "a finite number",
    "model_type": "an object",
    "model_attributes_type": "an object",
}
BOUNDS: Final = {"ge": "at least", "gt": "over", "le": "at most", "lt": "under"}
FIELDS: Final = (
    *("text", "model", "beam", "n_best", "length_penalty", "extra_length", "max_length", "min_length", "no_repeat"),
    *("sampling", "scores", "alignments", "require", "avoid", "terms"),
)
SAMPLING_FIELDS: Final = ("temperature", "top_k", "top_p", "seed")
CODES: Final = {400: "not_json", 404: "not_found", 405: "method_not_allowed", 415: "unsupported_media_type"}


class ProblemError(DragomanError):
    """A request that is not answered as it was asked."""

    def __init__(self, status: int, code: str, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.retry_after = status, code, retry_after

    def response(self, path: str = "") -> JSONResponse:
        """As JSON, with what HTTP itself has to say of it; LibreTranslate's paths have its form."""
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        told: Any = {"code": self.code, "message": str(self)}
        if path.endswith(("/translate", "/languages")) and not path.endswith("/v1/translate"):
            told = str(self)
        return JSONResponse({"error": told}, self.status, headers)


def problem_of(error: BaseException) -> ProblemError:
    """What to tell of an error; of one that nobody expected, nothing but that it happened."""
    if shortage(error) is not None:
        return ProblemError(503, "no_memory", "there is not enough memory for this now; ask for less at a time", 5)
    match error:
        case ProblemError():
            return error
        case SearchError() | TextError():
            return ProblemError(422, "invalid", str(error))
        case DragomanError():
            return ProblemError(500, "failed", str(error))
        case _:
            return ProblemError(500, "internal", "the server met an error that it did not expect; its log has more")


def add_handlers(app: FastAPI) -> None:
    """Have every error of an app be answered in the same form."""

    async def refused(request: Request, error: Exception) -> JSONResponse:
        return problem_of(error).response(request.url.path)

    async def invalid(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        return invalid_request(error.errors()).response(request.url.path)

    async def http(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        words = {
            400: 'the body cannot be read as JSON; send an object such as {"text": "..."} in UTF-8',
            404: "there is no such path; the API is described under /docs",
            405: f"{request.method} is not what this path takes; the API is described under /docs",
        }
        code = CODES.get(error.status_code, "http_error")
        problem = ProblemError(error.status_code, code, words.get(error.status_code, str(error.detail)))
        response = problem.response(request.url.path)
        for name, value in (error.headers or {}).items():
            response.headers[name] = value
        return response

    app.add_exception_handler(DragomanError, refused)
    app.add_exception_handler(MemoryError, refused)
    app.add_exception_handler(Exception, refused)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)


def invalid_request(errors: Sequence[Mapping[str, Any]]) -> ProblemError:
    """What is wrong with a body, in the words of the house; the first mistake is told."""
    first = next((error for error in errors if error["type"] == "too_long"), errors[0])  # a list that is no text either
    place = [part for part in first["loc"] if part != "body"]
    kind, came, limits = str(first["type"]), first.get("input"), first.get("ctx") or {}
    if kind == "json_invalid":
        why = str(limits.get("error", "it ends too early")).strip(".")
        return ProblemError(400, "not_json", f'the body is not JSON ({why}); send an object such as {{"text": "..."}}')
    if not place:
        words = "the body must be a JSON object; send one, with the header Content-Type: application/json"
        return ProblemError(422, "invalid", words)
    name, within = str(place[0]), place[0] == "sampling" and len(place) > 1
    if kind == "missing":
        return ProblemError(422, "invalid", f"the field {name!r} is missing; give it")
    if kind == "extra_forbidden":
        unknown = str(place[-1])
        known = suggest(unknown, SAMPLING_FIELDS if within else FIELDS)
        return ProblemError(422, "unknown_field", f"there is no field {unknown!r}{' in sampling' * within}{known}")
    if kind == "too_long":
        most = limits.get("max_length", 0)
        return ProblemError(413, "too_large", f"{name} has too many entries; send at most {most:,} at a time")
    if name in ("text", "q"):
        return ProblemError(422, "invalid", f"{name} must be a text, or a list of texts; got {describe_value(came)}")
    name = f"{name}.{place[1]}" if within else name
    bounds = [f"{words} {limits[key]:,g}" for key, words in BOUNDS.items() if key in limits]
    if kind in KINDS or bounds:
        must = KINDS.get(kind) or bounds[0]
        return ProblemError(422, "invalid", f"{name} must be {must}; got {came if bounds else describe_value(came)}")
    said = str(first["msg"])
    return ProblemError(422, "invalid", f"{name}: {said[:1].lower()}{said[1:]}; got {describe_value(came)}")
