"""JSON replies: small ones at once, large ones streamed in chunks that are built off the event loop."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from fastapi import Response
from fastapi.responses import StreamingResponse

from dragoman.serve.offload import offload

LARGE_REPLY_BYTES: Final = 1 << 16  # approximately; larger replies are streamed
JSON: Final = "application/json"
LINES: Final = "application/x-ndjson"
BINARY: Final = "application/octet-stream"  # browsers must not show what clients have sent


def to_json(value: Any) -> str:
    """A value as compact JSON."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def json_reply(parts: Iterable[str], large: bool) -> Response:
    """A JSON response from its parts; a large one is built while it is sent."""
    if not large:
        return Response("".join(parts).encode(), media_type=JSON)
    return StreamingResponse(offloaded_chunks(parts), media_type=JSON)


async def offloaded_chunks(parts: Iterable[str]) -> AsyncIterator[bytes]:
    """The chunks of a large reply; each is built in the thread for large requests, in milliseconds."""
    chunks = to_chunks(parts)
    while (chunk := await offload(next, chunks, None)) is not None:
        yield chunk


def to_chunks(parts: Iterable[str]) -> Iterator[bytes]:
    """Parts joined into chunks of about `LARGE_REPLY_BYTES`."""
    waiting: list[str] = []
    size = 0
    for part in parts:
        waiting.append(part)
        size += len(part)
        if size >= LARGE_REPLY_BYTES:
            yield "".join(waiting).encode()
            waiting, size = [], 0
    yield "".join(waiting).encode()


def json_object(fields: Mapping[str, Any]) -> Iterator[str]:
    """The JSON of an object, in parts; lists and iterators are written entry by entry."""
    before = "{"
    for name, value in fields.items():
        yield f"{before}{to_json(name)}:"
        if isinstance(value, list | Iterator):
            comma = "["
            for entry in value:
                yield comma + to_json(entry)
                comma = ","
            yield "[]" if comma == "[" else "]"
        else:
            yield to_json(value)
        before = ","
    yield "{}" if before == "{" else "}"


def file_reply(content: bytes, name: str, headers: dict[str, str] | None = None) -> Response:
    """A reply that browsers save as a file."""
    disposition = f"attachment; filename*=UTF-8''{quote(name, safe='')}"
    return Response(content, media_type=BINARY, headers={"Content-Disposition": disposition, **(headers or {})})
