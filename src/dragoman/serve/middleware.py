"""The gate before the API: who gets in, how large a body may be, and what is said of it in headers, log and metrics."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Callable, Collection
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.serve.errors import ProblemError, problem_of
from dragoman.serve.limits import FRAME, SHARES, Limits
from dragoman.serve.metrics import Metrics

DEADLINE: Final = "dragoman.deadline"  # where a request's scope has the loop's time by which it is to be answered
HEADERS: Final = (
    (b"content-security-policy", b"default-src 'self'; frame-ancestors 'none'; form-action 'none'; base-uri 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)
GONE: Final = 499  # the status in log and metrics of a request to which nobody waited for an answer
logger = logging.getLogger("dragoman.serve")
Log = Callable[[str, str, int, float], None]  # method, path, status, seconds


class GoneError(Exception):
    """The client went away while its body was read."""


class Gate:
    """An ASGI application around another.

    Bodies are read here, before anything is parsed: no more of them than the limits allow, and none slower than the
    deadline. A request has its place from its first byte to its last, so that memory is bounded.
    """

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits,
        metrics: Metrics,
        paths: Collection[str],
        log: Log = lambda *_: None,
        root_path: str = "",
    ) -> None:
        self.app, self.limits, self.metrics, self.log, self.paths = app, limits, metrics, log, paths
        self.root_path = root_path  # a proxy may leave it in the paths it asks for, or not
        self.places = 0  # requests inside
        self.held = 0  # bytes of large bodies
        metrics.add_gauge("dragoman_open_requests", "Requests being read, queued or answered.", lambda: self.places)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun, status = time.monotonic(), GONE
        scope["root_path"] = self.root_path

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        try:
            if scope["method"] in ("POST", "PUT", "PATCH"):
                await self._with_body(scope, receive, sending)
            else:
                await self.app(scope, receive, sending)
        except GoneError:
            self.metrics.count_dropped("gone")
        except Exception as error:
            report(error)
            if status == GONE:  # nothing was sent yet
                await problem_of(error).response(scope["path"])(scope, receive, sending)
        finally:
            path = known(scope, self.paths)
            seconds = time.monotonic() - begun
            self.metrics.count_request(path, status, seconds)
            self.log(scope["method"] if path != "other" else "?", path, status, seconds)

    async def _with_body(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[DEADLINE] = asyncio.get_running_loop().time() + self.limits.timeout
        if self.places >= self.limits.max_queue:
            await self._refuse(self._full(), scope, receive, send)
            return
        self.places += 1
        body = Body()
        try:
            try:
                async with asyncio.timeout_at(scope[DEADLINE]):
                    await self._read(body, scope, receive)
            except TimeoutError:
                late = f"the body did not come within {self.limits.timeout:g} seconds; send it faster, or in parts"
                await self._refuse(ProblemError(408, "slow", late), scope, receive, send)
                return
            except ProblemError as problem:
                await self._refuse(problem, scope, receive, send)
                return
            await self.app(scope, body.replay(receive), send)
        finally:
            self.places -= 1
            self.held -= body.counted

    async def _read(self, body: Body, scope: Scope, receive: Receive) -> None:
        """The whole body, or a problem as soon as it is known to be too much."""
        told = dict(scope["headers"]).get(b"content-length", b"0")
        self._count(body, int(told) if told.isdigit() else 0)
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise GoneError
            body.data += message.get("body", b"")
            self._count(body, len(body.data))
            if not message.get("more_body", False):
                return

    def _count(self, body: Body, size: int) -> None:
        if size > self.limits.max_bytes:
            raise ProblemError(
                413,
                "too_large",
                f"the body has over {self.limits.max_bytes:,} bytes; this server takes {self.limits.max_characters:,} "
                "characters at a time: send the text in several requests",
            )
        more = size - body.counted if size > FRAME else 0
        if more > 0:
            if self.held + more > SHARES * self.limits.max_bytes:
                raise self._full()
            body.counted += more
            self.held += more

    def _full(self) -> ProblemError:
        return ProblemError(429, "too_many", "the server has as much work as it takes; ask again in a moment", 1)

    async def _refuse(self, problem: ProblemError, scope: Scope, receive: Receive, send: Send) -> None:
        response = problem.response(scope["path"])
        response.headers["Connection"] = "close"  # what is still to come of the body is not read
        await response(scope, receive, send)


class Body:
    """What came of a body, and how much of it is counted as held."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.counted = 0

    def replay(self, receive: Receive) -> Receive:
        """The body in one message, and after it what else comes."""
        given = False

        async def again() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            data, self.data = bytes(self.data), bytearray()
            return {"type": "http.request", "body": data, "more_body": False}

        return again


def report(error: BaseException) -> None:
    """Where an error came from, for the log: without its message, which might hold what somebody wrote."""
    places = [
        f"  {frame.filename}:{frame.lineno} in {frame.name}" for frame in traceback.extract_tb(error.__traceback__)
    ]
    logger.error("%s, which nobody expected, at\n%s", type(error).__name__, "\n".join(places))


def known(scope: Scope, paths: Collection[str]) -> str:
    """The path of a request where it is one of ours; what else people ask for is in no log and no metric."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    if root and path.startswith(root + "/"):
        path = path.removeprefix(root)
    return path if path in paths else "other"
