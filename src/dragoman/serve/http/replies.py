"""Replies as JSON: small ones at once, large ones in pieces, built in threads and streamed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from fastapi import Response
from fastapi.responses import StreamingResponse

LARGE_REPLY_BYTES: Final = 1 << 16  # about; from here on a reply is streamed
JSON: Final = "application/json"


def to_json(value: Any) -> str:
    """A value as compact JSON."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def json_reply(parts: Iterable[str], size: int) -> Response:
    """A reply of JSON in parts, about `size` bytes; a large one is built while it is sent."""
    if size < LARGE_REPLY_BYTES:
        return Response("".join(parts).encode(), media_type=JSON)
    return StreamingResponse(grouped(parts), media_type=JSON)


def grouped(parts: Iterable[str]) -> Iterator[bytes]:
    """Parts joined to pieces of some size: each is built in a thread, and takes milliseconds."""
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
    """The parts of an object: lists and iterators are written entry by entry."""
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
