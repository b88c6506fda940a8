"""Requests and replies as frames: the main process sends requests, and a worker runs its ASGI application for them.

A reply is one frame, or several: after each but the last, the worker waits until the client has taken it, so that a
slow client's reply does not fill the memory of the main process.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.serve.errors import to_request_error
from dragoman.serve.http.access import CHECK_KEY, Access
from dragoman.serve.http.middleware import CLIENT, DEADLINE, log_error
from dragoman.serve.workers.channel import Channel, Frame

TEXT_FIELDS: Final = ("method", "path", "scheme", "http_version", "root_path")


def request_fields(scope: Scope, seconds: float) -> dict[str, Any]:
    """The fields of a request frame; `seconds` are left until its deadline."""
    return {
        **{name: scope[name] for name in TEXT_FIELDS},
        "raw_path": scope["raw_path"].decode("latin-1"),
        "query": scope["query_string"].decode("latin-1"),
        "headers": [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]],
        "client": scope.get("client"),
        "server": scope.get("server"),
        "who": scope.get(CLIENT, ""),
        "seconds": seconds,
    }


def to_scope(fields: Mapping[str, Any], access: Access, now: float) -> Scope:
    """The ASGI scope of a request frame; `now` is the event loop's time."""
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields["headers"]]
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        **{name: fields[name] for name in TEXT_FIELDS},
        "raw_path": fields["raw_path"].encode("latin-1"),
        "query_string": fields["query"].encode("latin-1"),
        "headers": headers,
        "client": None if fields["client"] is None else tuple(fields["client"]),
        "server": None if fields["server"] is None else tuple(fields["server"]),
        CLIENT: fields["who"],
        DEADLINE: now + fields["seconds"],
        CHECK_KEY: partial(access.check_token_field, dict(headers)),
    }


class RequestRunner:
    """Run the ASGI application of a worker for the requests of its channel."""

    def __init__(self, channel: Channel, app: ASGIApp, access: Access) -> None:
        self.channel, self.app, self.access = channel, app, access
        self.running: dict[int, WorkerExchange] = {}

    def start(self, frame: Frame) -> None:
        """Start to answer a request."""
        number = frame.fields["id"]
        exchange = self.running[number] = WorkerExchange(self.channel, number, frame.body)
        scope = to_scope(frame.fields, self.access, asyncio.get_running_loop().time())
        exchange.task = asyncio.create_task(exchange.run(self.app, scope))
        exchange.task.add_done_callback(lambda _: self.running.pop(number))

    def notify(self, kind: str, number: int) -> None:
        """Tell a request that its client has taken a part of the reply ("continue"), or has left ("cancel")."""
        exchange = self.running.get(number)
        if exchange is not None:
            exchange.taken.set()
            if kind == "cancel":
                exchange.gone.set()


class WorkerExchange:
    """A request in a worker: the `receive` and `send` of its application."""

    def __init__(self, channel: Channel, number: int, body: bytes) -> None:
        self.channel, self.number, self.body = channel, number, body
        self.task: asyncio.Task[None] | None = None
        self.received = self.complete = False
        self.head: dict[str, Any] | None = None  # status and headers, until they are sent with the first part
        self.started = False
        self.taken, self.gone = asyncio.Event(), asyncio.Event()

    async def run(self, app: ASGIApp, scope: Scope) -> None:
        """Run the application; an unexpected error is logged, and is the reply if nothing was sent yet."""
        receive: Receive = self.receive
        send: Send = self.send
        try:
            await app(scope, receive, send)
        except Exception as error:
            log_error(error)
            if not self.started:
                await to_request_error(error).response(scope["path"])(scope, receive, send)
        finally:
            if not self.complete:
                self.channel.send("reply", id=self.number, more=False, broken=True)

    async def receive(self) -> Message:
        """The body, then the departure of the client."""
        if not self.received:
            self.received = True
            body, self.body = self.body, b""
            return {"type": "http.request", "body": body, "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Send a part of the reply, and wait until the client has taken it unless it is the last."""
        if message["type"] == "http.response.start":
            self.started = True
            headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in message.get("headers", ())]
            self.head = {"status": message["status"], "headers": headers}
            return
        if self.gone.is_set() or self.complete:
            return
        more = message.get("more_body", False)
        head, self.head = self.head or {}, None
        self.complete = not more
        self.taken.clear()
        self.channel.send("reply", message.get("body", b""), id=self.number, more=more, **head)
        await self.channel.drain()
        if more:
            await self.taken.wait()


class ClientLeft(Exception):  # noqa: N818  # an event, not an error
    """The client disconnected before its reply was complete."""


class Exchange:
    """A request in the main process: the parts of its reply as they arrive."""

    def __init__(self, number: int, weight: int) -> None:
        self.number, self.weight = number, weight
        self.parts: deque[Frame | None] = deque()  # None if the worker has died
        self.arrived = asyncio.get_running_loop().create_future()

    def add(self, part: Frame | None) -> None:
        """Add a part; None says that there will be no more, because the worker has died."""
        self.parts.append(part)
        if not self.arrived.done():
            self.arrived.set_result(None)

    async def next(self, left: asyncio.Future[None]) -> Frame | None:
        """The next part; None if the worker has died. Raise `ClientLeft` if `left` is done first."""
        if not self.parts:
            await asyncio.wait({self.arrived, left}, return_when=asyncio.FIRST_COMPLETED)
            if not self.parts:
                raise ClientLeft
        part = self.parts.popleft()
        if not self.parts:
            self.arrived = asyncio.get_running_loop().create_future()
        return part
