"""The application of the main process: it passes requests to workers, and answers for those that die."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final

from fastapi import FastAPI
from fastapi.responses import JSONResponse, PlainTextResponse
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.types import ASGIApp, Receive, Scope, Send

from dragoman.serve.api.downloads import download_router
from dragoman.serve.errors import RequestError, add_handlers
from dragoman.serve.http.access import DOWNLOADS, Access
from dragoman.serve.http.middleware import BODY_METHODS, DEADLINE, Log, Middleware, own_path
from dragoman.serve.http.replies import LINES, to_json
from dragoman.serve.workers.combined_metrics import combine_metrics
from dragoman.serve.workers.exchange import ClientLeft, Exchange
from dragoman.serve.workers.handle import WorkerProcess
from dragoman.serve.workers.pool import WorkerPool

METRICS_SECONDS: Final = 2.0  # a worker that takes longer is left out of the metrics
OWN_PATHS: Final = ("/health", "/ready", "/metrics")  # and downloads


def create_front(
    pool: WorkerPool, root_path: str = "", log: Log = lambda *_: None, access: Access | None = None
) -> ASGIApp:
    """Create the application of the main process, with middleware; start the pool before it is used."""
    return Middleware(Front(pool), pool.limits, pool.metrics, pool.paths, log, root_path, access)


class Front:
    """Answer health checks, metrics and downloads; pass all other requests to workers."""

    def __init__(self, pool: WorkerPool) -> None:
        self.pool, self.own = pool, own_routes(pool)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        path = own_path(scope)
        if path in OWN_PATHS or path.startswith(DOWNLOADS):
            await self.own(scope, receive, send)
            return
        body = (await receive())["body"] if scope["method"] in BODY_METHODS else b""
        left = asyncio.ensure_future(wait_left(receive))
        try:
            with suppress(ClientLeft):
                await self.forward(scope, body, left, send)
        except RequestError as error:
            await error.response(scope["path"])(scope, receive, send)
        finally:
            left.cancel()

    async def forward(self, scope: Scope, body: bytes, left: asyncio.Future[None], send: Send) -> None:
        """Pass a request to a worker, and its reply to the client."""
        now = asyncio.get_running_loop().time()
        deadline: float = scope.get(DEADLINE, now + self.pool.limits.timeout)
        worker = self.pool.choose() or await until_left(self.pool.wait(deadline), left)
        exchange, complete = worker.open(scope, body, deadline - now), False
        try:
            await worker.channel.drain()
            await relay(worker, exchange, left, send)
            complete = True
        finally:
            worker.close(exchange, complete)


async def relay(worker: WorkerProcess, exchange: Exchange, left: asyncio.Future[None], send: Send) -> None:
    """Pass the parts of a reply to the client; if the worker dies, say so as far as the reply allows it."""
    content_type, started, more = "", False, True
    while more:
        part = await exchange.next(left)
        if part is None or "broken" in part.fields:
            error = worker_died(worker)
            if not started:
                raise error
            if content_type == LINES:  # the last line of such a reply is the result, or an error
                line = to_json({"error": {"code": error.code, "message": str(error)}}).encode() + b"\n"
                await send({"type": "http.response.body", "body": line})
            return  # otherwise the connection is closed: the client sees that the reply is not complete
        more = part.fields["more"]
        if not started:
            started = True
            headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in part.fields["headers"]]
            content_type = dict(part.fields["headers"]).get("content-type", "").partition(";")[0]
            await send({"type": "http.response.start", "status": part.fields["status"], "headers": headers})
        await send({"type": "http.response.body", "body": part.body, "more_body": more})
        if more:
            worker.channel.send("continue", id=exchange.number)


def worker_died(worker: WorkerProcess) -> RequestError:
    """The error for the requests of a worker that died."""
    message = f"worker {worker.number} died while it worked on this request; send the request again"
    return RequestError(503, "worker_died", message, 1)


async def until_left(waiting: Coroutine[Any, Any, WorkerProcess], left: asyncio.Future[None]) -> WorkerProcess:
    """What is waited for; raise `ClientLeft` if the client leaves first."""
    running = asyncio.ensure_future(waiting)
    first: set[asyncio.Future[Any]] = {running, left}
    await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
    if not running.done():
        running.cancel()
        raise ClientLeft
    return running.result()


async def wait_left(receive: Receive) -> None:
    """Wait until the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass


def own_routes(pool: WorkerPool) -> FastAPI:
    """The routes that the main process answers itself; the workers' OpenAPI document describes them."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)

    @app.head("/health")
    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "alive"}

    @app.head("/ready")
    @app.get("/ready")
    async def ready() -> JSONResponse:
        if pool.ready_workers and not pool.shutting_down:
            return JSONResponse({"status": "ready"})
        return JSONResponse({"status": "shutting_down" if pool.shutting_down else "no_worker"}, 503)

    @app.get("/metrics")
    async def metrics() -> PlainTextResponse:
        workers = pool.ready_workers
        texts = await asyncio.gather(*(worker.metrics(METRICS_SECONDS) for worker in workers))
        numbered = {worker.number: text for worker, text in zip(workers, texts, strict=True)}
        text = combine_metrics(pool.metrics.registry, numbered)
        return PlainTextResponse(text, media_type=CONTENT_TYPE_PLAIN_0_0_4)

    app.include_router(download_router(pool.files))
    add_handlers(app)
    return app
