"""A server inside the test's own process, on a free port of this machine."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

import uvicorn
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from dragoman.serve.app import create_app
from dragoman.serve.server import bind, server_url
from dragoman.serve.service import Service
from dragoman.translation.options import SplitMode
from dragoman.translation.segmentation import Segmenter


class WholeLines(Segmenter):
    """Splits no line."""

    def split_lines(
        self, lines: Sequence[str], split: SplitMode = "auto", max_characters: int | None = None
    ) -> list[list[str]]:
        return super().split_lines(lines, "never", max_characters)


class EveryCharacter:
    """A tokenizer that knows all characters."""

    def unknown_characters(self, text: str) -> set[str]:
        return set()

    def encode(self, text: str) -> list[int]:
        return [*text.encode()]


WHOLE_LINES = WholeLines(EveryCharacter(), "en", 100)  # type: ignore[arg-type]


class Extra:
    """An application with scripts of a test's own: they are loaded by the page, from the page's own origin.

    A script that inserts an image `web/held` keeps the page loading until it has asked for `web/done`.
    """

    def __init__(self, app: ASGIApp, scripts: Mapping[str, str], hold_seconds: float = 60) -> None:
        self.app, self.scripts, self.hold_seconds = app, scripts, hold_seconds
        self.done = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        name = scope.get("path", "").removeprefix("/web/")
        if name in self.scripts:
            await Response(self.scripts[name], media_type="text/javascript")(scope, receive, send)
            return
        if name in ("held", "done"):
            await self.hold(name)
            await Response(status_code=204)(scope, receive, send)
            return

        async def sending(message: dict[str, object]) -> None:
            if scope.get("path") in ("/", "/docs"):
                if message["type"] == "http.response.start":
                    headers = message["headers"]
                    assert isinstance(headers, list)
                    message["headers"] = [header for header in headers if header[0] != b"content-length"]
                elif isinstance(body := message.get("body"), bytes):
                    added = "".join(f'<script defer src="web/{script}"></script>' for script in self.scripts)
                    message["body"] = body.replace(b"</head>", f"{added}</head>".encode())
            await send(message)

        await self.app(scope, receive, sending)

    async def hold(self, name: str) -> None:
        if name == "done":
            self.done.set()
        with suppress(TimeoutError):
            await asyncio.wait_for(self.done.wait(), self.hold_seconds)


@contextmanager
def served(service: Service, scripts: Mapping[str, str] | None = None) -> Iterator[str]:
    """The address of a service while it is served."""
    port = bind("127.0.0.1", 0)
    app = Extra(create_app(service), scripts or {})
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=5))
    ready = threading.Event()
    start = server.startup

    async def startup(sockets: object = None) -> None:
        await start(sockets)  # type: ignore[arg-type]
        ready.set()

    server.startup = startup  # type: ignore[method-assign, assignment]
    thread = threading.Thread(target=server.run, kwargs={"sockets": [port]}, daemon=True)
    service.start()
    place = server_url(port)
    thread.start()
    assert ready.wait(30)
    try:
        yield place
    finally:
        server.should_exit = True
        thread.join(30)
        service.close()
        service.worker.thread.join(30)
