"""Frames between the main process and a worker: a JSON object and a body of bytes, over a socket pair."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from dataclasses import dataclass
from typing import Any, Final

LENGTHS: Final = struct.Struct(">II")  # bytes of the JSON object and of the body
BUFFER_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class Frame:
    """A message: `fields["type"]` says what it is."""

    fields: dict[str, Any]
    body: bytes = b""


class Channel:
    """One end of a socket pair. The other end is closed when its process ends, in whatever way."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def open(cls, end: socket.socket) -> Channel:
        """Open a channel on one end of a socket pair."""
        return cls(*await asyncio.open_connection(sock=end, limit=BUFFER_BYTES))

    def send(self, kind: str, body: bytes = b"", **fields: Any) -> None:
        """Send a frame; it is dropped if the other process is gone, which `receive` reports."""
        if self.writer.is_closing():
            return
        head = json.dumps({"type": kind, **fields}, ensure_ascii=False, separators=(",", ":")).encode()
        self.writer.write(b"".join((LENGTHS.pack(len(head), len(body)), head, body)))

    async def drain(self) -> None:
        """Wait until there is room for more frames; return at once if the other process is gone."""
        try:
            await self.writer.drain()
        except ConnectionError:
            return

    async def receive(self) -> Frame | None:
        """The next frame; None if the other process is gone."""
        try:
            head, body = LENGTHS.unpack(await self.reader.readexactly(LENGTHS.size))
            content = await self.reader.readexactly(head + body)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        return Frame(json.loads(content[:head]), content[head:])

    def close(self) -> None:
        """Close this end: the other process sees the end of the channel."""
        self.writer.close()
