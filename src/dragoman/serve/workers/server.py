"""The main process of a server with workers: start them, then run uvicorn with the front application."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable

import uvicorn
from starlette.types import ASGIApp

from dragoman.errors import SearchError
from dragoman.serve.server import Server, tune_interpreter, uvicorn_config
from dragoman.serve.workers.pool import WorkerPool


class PoolServer(Server):
    """A server that listens once all workers are ready, and ends them when it has shut down."""

    def __init__(self, config: uvicorn.Config, pool: WorkerPool, on_listening: Callable[[], None]) -> None:
        super().__init__(config, pool, on_listening, pool.reload)
        self.pool = pool

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal arrives, then end the workers."""
        try:
            await super().serve(sockets)
        finally:
            await self.pool.close()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the workers; then listen, unless a signal has arrived."""
        self.handle_hangup()
        await self.pool.start(lambda: self.should_exit)
        if not self.should_exit:
            tune_interpreter()
            await super().startup(sockets)


def check_platform() -> None:
    """Raise on Windows, where processes do not inherit sockets."""
    if sys.platform == "win32":
        message = "--workers is not supported on Windows; run several servers on several ports, behind a proxy"
        raise SearchError(message, code="unsupported_platform")


def run_workers(app: ASGIApp, pool: WorkerPool, port: socket.socket, on_listening: Callable[[], None]) -> None:
    """Serve with workers until a signal arrives; finish accepted requests, and return. SIGHUP reloads models."""
    PoolServer(uvicorn_config(app, pool.limits), pool, on_listening).run(sockets=[port])
