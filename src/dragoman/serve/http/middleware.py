"""ASGI middleware: access control, admission, limits on bodies, security headers, access log and request metrics."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.serve.errors import RequestError, to_request_error
from dragoman.serve.http.access import CHECK_KEY, DOWNLOADS, Access
from dragoman.serve.limits import (
    BODY_BYTES_PER_SECOND,
    BODY_SECONDS,
    DRAIN_BYTES,
    DRAIN_SECONDS,
    MAX_LARGE_BODIES,
    SMALL_BODY_BYTES,
    Limits,
)
from dragoman.serve.metrics import RequestMetrics

DEADLINE: Final = "dragoman.deadline"  # scope key: the deadline, in the event loop's time
CLIENT: Final = "dragoman.client"  # scope key: the client, for per-client limits and fair scheduling
HEADERS: Final = (
    (b"content-security-policy", b"default-src 'self'; frame-ancestors 'none'; form-action 'none'; base-uri 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)
BODY_METHODS: Final = ("POST", "PUT", "PATCH")
DOCUMENT_PATHS: Final = ("/v1/documents", "/translate_file")
CLIENT_CLOSED_REQUEST: Final = 499  # logged status of a client that disconnected before the reply
logger = logging.getLogger("dragoman.serve")
Log = Callable[[str, str, int, float], None]  # method, path, status, seconds


class ClientDisconnected(Exception):  # noqa: N818  # an event, not an error
    """The client disconnected while sending its body."""


class Middleware:
    """Wrap an ASGI application.

    Bodies are read here, before they are parsed, with limits on size and time. A request counts as open from its first
    byte until its reply is sent. The number of open requests is limited, in total and per client; this bounds memory.
    """

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits,
        metrics: RequestMetrics,
        paths: Collection[str],
        log: Log = lambda *_: None,
        root_path: str = "",
        access: Access | None = None,
        body_seconds: float = BODY_SECONDS,
        drain_seconds: float = DRAIN_SECONDS,
    ) -> None:
        self.app, self.limits, self.metrics, self.log, self.paths = app, limits, metrics, log, paths
        self.max_bytes = limits.max_bytes
        self.root_path = root_path  # proxies may or may not strip it from paths
        self.access, self.body_seconds, self.drain_seconds = access or Access(), body_seconds, drain_seconds
        self.open_requests = 0
        self.open_by_client: Counter[str] = Counter()
        self.large_body_bytes = 0
        metrics.add_gauge(
            "dragoman_open_requests", "Requests being read, queued or answered.", lambda: self.open_requests
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = time.monotonic(), CLIENT_CLOSED_REQUEST
        scope["root_path"] = self.root_path
        scope["path"] = self.root_path + own_path(scope)  # redirects need the prefix
        headers = dict(scope["headers"])

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        try:
            if (rejected := self._check(scope, headers)) is not None:
                await self._reject(rejected, scope, receive, send_with_headers)
            elif scope["method"] in BODY_METHODS:
                await self._call_with_body(scope, receive, send_with_headers)
            else:
                await self.app(scope, receive, send_with_headers)
        except ClientDisconnected:
            self.metrics.count_dropped("gone")
        except Exception as error:
            log_error(error)
            if status == CLIENT_CLOSED_REQUEST:  # nothing was sent yet
                await to_request_error(error).response(scope["path"])(scope, receive, send_with_headers)
        finally:
            path = known_path(scope, self.paths)
            seconds = time.monotonic() - start
            self.metrics.count_request(path, status, seconds)
            self.log(scope["method"] if path != "other" else "?", path, status, seconds)

    def _check(self, scope: Scope, headers: dict[bytes, bytes]) -> RequestError | None:
        """The error for the headers of a request, or None."""
        scope[CLIENT] = self.access.client(scope, headers)
        scope[CHECK_KEY] = partial(self.access.check_token_field, headers)
        if b"content-length" in headers and b"transfer-encoding" in headers:
            message = "the request has both Content-Length and Transfer-Encoding; send only one of them"
            return RequestError(400, "conflicting_headers", message)
        return self.access.check(own_path(scope), headers)

    async def _call_with_body(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[DEADLINE] = asyncio.get_running_loop().time() + self.limits.timeout
        client = scope[CLIENT]
        if self.open_requests >= self.limits.max_queue:
            await self._reject(self._overloaded(), scope, receive, send)
            return
        if client and self.open_by_client[client] >= (self.limits.max_client_requests or 0):
            limit = f"you have {self.open_by_client[client]} open requests, the maximum per client"
            message = f"{limit}; wait for a reply before you send more"
            await self._reject(RequestError(429, "too_many_requests", message, 1), scope, receive, send)
            return
        self.open_requests += 1
        self.open_by_client[client] += 1
        body = RequestBuffer()
        try:
            try:
                await self._read(body, scope, receive)
            except TimeoutError:
                message = (
                    f"the body arrived too slowly: {len(body.data):,} bytes so far; the limit is {self.body_seconds:g} "
                    f"seconds plus one per {BODY_BYTES_PER_SECOND:,} bytes, at most {self.limits.timeout:g}; "
                    "send smaller requests"
                )
                await self._reject(RequestError(408, "body_timeout", message), scope, receive, send, drain=False)
                return
            except RequestError as error:
                await self._reject(error, scope, receive, send, drain=not body.complete)
                return
            await self.app(scope, body.replay(receive), send)
        finally:
            self.open_requests -= 1
            self.open_by_client[client] -= 1
            if not self.open_by_client[client]:
                del self.open_by_client[client]
            self.large_body_bytes -= body.counted

    async def _read(self, body: RequestBuffer, scope: Scope, receive: Receive) -> None:
        """Read the whole body; raise as soon as it is too large or too slow."""
        start = asyncio.get_running_loop().time() + self.body_seconds
        length = dict(scope["headers"]).get(b"content-length", b"0")
        self._count(body, int(length) if length.isdigit() else 0, scope["path"])
        while True:
            slowest = min(scope[DEADLINE], start + len(body.data) / BODY_BYTES_PER_SECOND)
            async with asyncio.timeout_at(slowest):
                message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnected
            body.data += message.get("body", b"")
            body.complete = not message.get("more_body", False)
            self._count(body, len(body.data), scope["path"])
            if body.complete:
                return

    def _count(self, body: RequestBuffer, size: int, path: str) -> None:
        if size > self.max_bytes:
            raise self._too_large(path)
        more = size - body.counted if size > SMALL_BODY_BYTES else 0
        if more > 0:
            if self.large_body_bytes + more > MAX_LARGE_BODIES * self.max_bytes:
                raise self._overloaded()
            body.counted += more
            self.large_body_bytes += more

    def _too_large(self, path: str) -> RequestError:
        if path.endswith(DOCUMENT_PATHS):
            limit = f"this server accepts {self.max_bytes:,} bytes ({self.max_bytes / 1e6:.1f} MB, --max-characters)"
            message = f"the document is too large; {limit}; split it, or make its pictures smaller"
        else:
            limit = f"this server accepts {self.limits.max_characters:,} characters per request"
            message = f"the body is too large; {limit}; send the text in several requests"
        return RequestError(413, "too_large", message)

    def _overloaded(self) -> RequestError:
        return RequestError(429, "too_many_requests", "the server is at capacity; try again in a moment", 1)

    async def _reject(
        self, error: RequestError, scope: Scope, receive: Receive, send: Send, drain: bool = True
    ) -> None:
        """Reply, then close the connection; if it were closed at once, the rest of the body would reset it."""
        response = error.response(scope["path"])
        response.headers["Connection"] = "close"

        async def send_open(message: Message) -> None:
            await send({**message, "more_body": True} if message["type"] == "http.response.body" else message)

        await response(scope, receive, send_open if drain else send)
        if drain:
            await self._drain(receive)
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _drain(self, receive: Receive) -> None:
        """Drop the rest of a body, up to limits on size and time."""
        n_bytes, more = 0, True
        with suppress(TimeoutError):
            async with asyncio.timeout(self.drain_seconds):
                while more and n_bytes < DRAIN_BYTES:
                    message = await receive()
                    n_bytes += len(message.get("body", b""))
                    more = message.get("more_body", False)


class RequestBuffer:
    """A body being read: its data, whether it is complete, and how much of it counts toward large bodies."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.counted = 0
        self.complete = False

    def replay(self, receive: Receive) -> Receive:
        """A `receive` that returns the body as one message, then further messages."""
        replayed = False

        async def receive_again() -> Message:
            nonlocal replayed
            if replayed:
                return await receive()
            replayed = True
            data, self.data = bytes(self.data), bytearray()
            return {"type": "http.request", "body": data, "more_body": False}

        return receive_again


def log_error(error: BaseException) -> None:
    """Log the traceback of an unexpected error without its message, which may contain a user's text."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f"  {frame.filename}:{frame.lineno} in {frame.name}" for frame in frames]
    logger.error("unexpected %s at\n%s", type(error).__name__, "\n".join(lines))


def own_path(scope: Scope) -> str:
    """The path of a request, without the proxy's prefix."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path.removeprefix(root) if path == root or path.startswith(root + "/") else path


def known_path(scope: Scope, paths: Collection[str]) -> str:
    """The path of a request if the server has it, else "other": logs and metrics contain no text of clients."""
    path = own_path(scope)
    if path.startswith(DOWNLOADS):
        return DOWNLOADS + "{name}"
    return path if path in paths else "other"
