"""Parse request bodies, JSON and forms, with bounded structure; large ones are parsed off the event loop."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from email import message_from_string
from email.message import Message
from typing import Any, Final
from urllib.parse import parse_qs

from fastapi import Request, Response
from fastapi.routing import APIRoute

from dragoman.serve.errors import RequestError
from dragoman.serve.limits import MAX_TERMS, MAX_TEXTS
from dragoman.serve.offload import offload

FORM: Final = "application/x-www-form-urlencoded"
MULTIPART: Final = "multipart/form-data"
LARGE_BODY_BYTES: Final = 1 << 16  # larger bodies are parsed in a thread
MAX_STRINGS: Final = MAX_TEXTS + 4 * MAX_TERMS  # per body: texts, phrases and field names
MAX_JSON_STRUCTURE: Final = (1 << 16, 64)  # bytes outside strings, plus some per string: indentation, numbers
MAX_FIELDS: Final = 100  # per object; `terms` has its own limit
MAX_PARTS: Final = 100  # per multipart form
MAX_PART_HEADERS: Final = 4_096  # bytes


class BoundedRoute(APIRoute):
    """A route that rejects bodies with too many fields or entries before parsing them."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap the handler: JSON is parsed here, within bounds, instead of by FastAPI."""
        handle = super().get_route_handler()

        async def handle_bounded(request: Request) -> Response:
            if is_json(request.headers.get("content-type", "")):
                body = await request.body()
                if body:
                    request._json = await in_thread(parse_request_json, body)  # Request.json() returns this
            return await handle(request)

        return handle_bounded


async def in_thread(parse: Callable[[bytes], Any], body: bytes) -> Any:
    """Parse a body; a large one in a thread, to keep the event loop responsive."""
    return parse(body) if len(body) < LARGE_BODY_BYTES else await offload(parse, body)


def media_type(content_type: str) -> str:
    """The media type of a Content-Type header, in lower case and without parameters."""
    return content_type.partition(";")[0].strip().lower()


def is_json(content_type: str) -> bool:
    """Whether a content type is JSON."""
    kind = media_type(content_type)
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))


def parse_request_json(body: bytes, field: str = "text") -> Any:
    """Parse a JSON body; reject structure that would take seconds and gigabytes. `field` is for the error message."""
    try:
        text = body.decode("utf-8-sig")  # json.loads would accept bytes in UTF-16 and UTF-32
    except UnicodeDecodeError:
        raise invalid_json(" (not UTF-8)", field) from None
    check_json_structure(body)
    try:
        found = json.loads(text)
    except RecursionError:
        raise RequestError(400, "invalid_json", f"the body is nested too deeply; {example(field)}") from None
    except ValueError as error:
        raise invalid_json(f" ({error.msg})" if isinstance(error, json.JSONDecodeError) else "", field) from None
    if isinstance(found, dict) and len(found) > MAX_FIELDS:
        raise RequestError(413, "too_large", f"the body has {len(found):,} fields; /docs lists the supported ones")
    return found


def invalid_json(reason: str, field: str) -> RequestError:
    """The error for a body that is not JSON."""
    return RequestError(400, "invalid_json", f"the body is not valid JSON{reason}; {example(field)}")


def example(field: str) -> str:
    """What to send instead of a body that is rejected."""
    return f'send an object such as {{"{field}": "..."}} in UTF-8'


def check_json_structure(body: bytes) -> None:
    """Reject JSON with too many strings, or too much outside strings; each step is one pass in C."""
    if len(body) < MAX_JSON_STRUCTURE[0]:
        return
    plain = body.replace(rb"\\", b"").replace(rb"\"", b"")
    strings = plain.count(b'"') // 2
    if strings > MAX_STRINGS:
        message = f"the body has {strings:,} strings and field names; send at most {MAX_STRINGS:,} at a time"
        raise RequestError(413, "too_large", message)
    outside = sum(map(len, plain.split(b'"')[::2]))
    if outside > MAX_JSON_STRUCTURE[0] + MAX_JSON_STRUCTURE[1] * strings:
        message = f"the body has {outside:,} bytes outside strings; send texts as strings, in fewer entries"
        raise RequestError(413, "too_large", message)


def parse_form(body: bytes) -> dict[str, Any]:
    """Parse a URL-encoded form; a repeated field becomes a list."""
    sent = parse_qs(
        body.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=MAX_TEXTS + MAX_FIELDS
    )
    return single_fields(sent)


def single_fields(sent: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """The fields of a form: each a value, or a list if it is repeated."""
    return {name: values[0] if len(values) == 1 else values for name, values in sent.items()}


@dataclass(frozen=True)
class SentFile:
    """A file in a form."""

    name: str
    content: bytes


def parse_multipart(body: bytes, content_type: str) -> dict[str, Any]:
    """Parse a multipart form, such as a browser's FormData; raise ValueError for files and malformed forms.

    A repeated field becomes a list.
    """
    fields = split_multipart(body, content_type)
    if any(isinstance(value, SentFile) for values in fields.values() for value in values):
        raise ValueError("not a field")
    return single_fields(fields)


def split_multipart(body: bytes, content_type: str) -> dict[str, list[str | SentFile]]:
    """Parse a multipart form with files: the values of each field; raise ValueError for malformed forms."""
    header = Message()
    header["Content-Type"] = content_type
    boundary = header.get_boundary()
    if not boundary or header.get_content_type() != MULTIPART:
        raise ValueError("no boundary")
    mark = b"\r\n--" + boundary.encode("ascii")
    first, *parts = (b"\r\n" + body).split(mark, MAX_PARTS + 1)
    if first.strip() or not parts or not parts[-1].startswith(b"--") or len(parts) > MAX_PARTS:
        raise ValueError("not a form")
    fields: dict[str, list[str | SentFile]] = {}
    for part in parts[:-1]:
        head, blank, content = part.partition(b"\r\n\r\n")
        if not blank or len(head) > MAX_PART_HEADERS:
            raise ValueError("not a field")
        described = message_from_string(head.strip().decode("utf-8") + "\r\n\r\n")
        name, file = described.get_param("name", header="content-disposition"), described.get_filename()
        if not isinstance(name, str):
            raise ValueError("not a field")
        fields.setdefault(name, []).append(content.decode("utf-8") if file is None else SentFile(file, content))
    return fields


async def read_file_form(request: Request, advice: str) -> tuple[SentFile, dict[str, Any]]:
    """The only file of a multipart form, whatever its field, and the other fields; `advice` is for errors."""

    def parse(body: bytes) -> dict[str, list[str | SentFile]]:
        return split_multipart(body, request.headers.get("content-type", ""))

    try:
        parts = await in_thread(parse, await request.body())
    except ValueError:
        raise RequestError(400, "invalid_form", f"the body is not a form with a file; {advice}") from None
    files = [value for values in parts.values() for value in values if isinstance(value, SentFile)]
    if len(files) > 1:
        raise RequestError(400, "invalid_form", f"the form has {len(files)} files; send one file at a time")
    if not files:
        raise RequestError(400, "invalid_form", f"the form has no file; {advice}")
    texts = {name: [value for value in values if isinstance(value, str)] for name, values in parts.items()}
    return files[0], single_fields({name: values for name, values in texts.items() if values})
